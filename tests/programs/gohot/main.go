// gohot: a Go program, which has frame pointers and no .eh_frame, and whose goroutines wander.
//
// What it does: one goroutine computes in hotCompute, one sleeps in restingSleep, one sends to
// another over a channel (feed, eat), two contend for a mutex (holdMutex, wantMutex), and one reads a
// pipe in a blocking system call (readPipe).
//
// Its true answer (one JSON line): rounds of each. hotCompute has about one processor's worth of time;
// the other goroutines' waits park the goroutine and not a thread, so a profile of threads shows them
// as idle threads of the runtime, with stacks that reach runtime.mstart or runtime.goexit.
//
// Usage: gohot [SECONDS]
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

var deadline time.Time
var sink uint64

func timeLeft() bool { return time.Now().Before(deadline) }

//go:noinline
func hotLoop(x uint64) uint64 {
	for i := 0; i < 1000000; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

//go:noinline
func hotCompute() (rounds int) {
	for timeLeft() {
		sink = hotLoop(sink)
		rounds++
	}
	return
}

//go:noinline
func restingSleep() (rounds int) {
	for timeLeft() {
		time.Sleep(5 * time.Millisecond)
		rounds++
	}
	return
}

//go:noinline
func feed(out chan<- int) (rounds int) {
	for timeLeft() {
		time.Sleep(time.Millisecond)
		out <- rounds
		rounds++
	}
	close(out)
	return
}

//go:noinline
func eat(in <-chan int) (rounds int) {
	for range in {
		rounds++
	}
	return
}

//go:noinline
func holdMutex(m *sync.Mutex) (rounds int) {
	for timeLeft() {
		m.Lock()
		time.Sleep(2 * time.Millisecond)
		m.Unlock()
		time.Sleep(time.Millisecond)
		rounds++
	}
	return
}

//go:noinline
func wantMutex(m *sync.Mutex) (rounds int) {
	for timeLeft() {
		m.Lock()
		m.Unlock()
		time.Sleep(time.Millisecond)
		rounds++
	}
	return
}

// readPipe blocks a thread: the runtime does not poll a descriptor it did not open itself.
//
//go:noinline
func readPipe(r *os.File) (rounds int) {
	var token [1]byte
	for {
		if n, err := r.Read(token[:]); n == 0 || err != nil {
			return
		}
		rounds++
	}
}

func main() {
	seconds := 2.0
	if len(os.Args) > 1 {
		parsed, err := strconv.ParseFloat(os.Args[1], 64)
		if err != nil {
			fmt.Fprintln(os.Stderr, "gohot: the duration must be a number of seconds:", err)
			os.Exit(2)
		}
		seconds = parsed
	}
	deadline = time.Now().Add(time.Duration(seconds * float64(time.Second)))
	r, w, err := os.Pipe()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gohot:", err)
		os.Exit(1)
	}
	var all sync.WaitGroup
	var mutex sync.Mutex
	var hot, rests, fed, eaten, held, wanted, read int64
	channel := make(chan int)
	run := func(count *int64, f func() int) {
		all.Add(1)
		go func() { defer all.Done(); atomic.StoreInt64(count, int64(f())) }()
	}
	run(&hot, hotCompute)
	run(&rests, restingSleep)
	run(&fed, func() int { return feed(channel) })
	run(&eaten, func() int { return eat(channel) })
	run(&held, func() int { return holdMutex(&mutex) })
	run(&wanted, func() int { return wantMutex(&mutex) })
	run(&read, func() int { return readPipe(r) })
	for timeLeft() {
		time.Sleep(10 * time.Millisecond)
		w.Write([]byte{0})
	}
	w.Close()
	all.Wait()
	fmt.Printf("{\"program\":\"gohot\",\"hot\":%d,\"rests\":%d,\"fed\":%d,\"eaten\":%d,\"held\":%d,\"wanted\":%d,\"read\":%d}\n",
		hot, rests, fed, eaten, held, wanted, read)
}
