// The corpus in Go: waits with sync/atomic, the runtime's own, and work like them. The argument is the
// time that each takes, in milliseconds.
package main

import (
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

var locked, serving, stop atomic.Int32
var count atomic.Int64
var sink uint64

//go:noinline
func spin_go_cas() {
	for !locked.CompareAndSwap(0, 1) {
	}
}

//go:noinline
func spin_go_load() {
	for locked.Load() != 0 {
	}
}

//go:noinline
func spin_go_ticket() {
	for serving.Load() != 1 {
	}
}

//go:noinline
func work_go_add() {
	for stop.Load() == 0 {
		count.Add(1)
	}
}

//go:noinline
func work_go_update() {
	for stop.Load() == 0 {
		old := count.Load()
		for !count.CompareAndSwap(old, old+1) {
			old = count.Load()
		}
	}
}

//go:noinline
func work_go_sum() {
	words := make([]uint64, 4096)
	for stop.Load() == 0 {
		sum := uint64(0)
		for i, w := range words {
			sum += w ^ uint64(i)
		}
		sink = sum
	}
}

//go:noinline
func work_go_map() {
	m := map[int]int{}
	for i := 0; stop.Load() == 0; i++ {
		m[i&1023] += i
	}
	sink = uint64(len(m))
}

func run(f func(), wait time.Duration, end func()) {
	var done sync.WaitGroup
	done.Add(1)
	go func() { f(); done.Done() }()
	time.Sleep(wait)
	end()
	done.Wait()
}

func main() {
	ms := 100
	if len(os.Args) > 1 {
		ms, _ = strconv.Atoi(os.Args[1])
	}
	wait := time.Duration(ms) * time.Millisecond
	for _, f := range []func(){spin_go_cas, spin_go_load, spin_go_ticket} {
		locked.Store(1)
		serving.Store(0)
		run(f, wait, func() { locked.Store(0); serving.Store(1) })
	}
	for _, f := range []func(){work_go_add, work_go_update, work_go_sum, work_go_map} {
		stop.Store(0)
		run(f, wait, func() { stop.Store(1) })
	}
}
