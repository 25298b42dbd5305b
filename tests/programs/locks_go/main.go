// Goroutines that contend for a mutex, pass work over channels, and allocate: its threads wait for work
// most of the time, and now and then for the runtime's own locks.
package main

import (
	"fmt"
	"sync"
	"time"
)

var sink [8][]byte

func main() {
	var group sync.WaitGroup
	var mutex sync.Mutex
	jobs := make(chan int)
	for n := 0; n < 4; n++ {
		group.Add(2)
		go func() {
			defer group.Done()
			for i := 0; i < 300; i++ {
				mutex.Lock()
				time.Sleep(time.Millisecond)
				mutex.Unlock()
			}
		}()
		go func() {
			defer group.Done()
			for job := range jobs {
				for i := 0; i < 200; i++ {
					sink[n] = make([]byte, 1000+job%100)
				}
			}
		}()
	}
	for job := 0; job < 2000; job++ {
		jobs <- job
	}
	close(jobs)
	group.Wait()
	fmt.Println("done")
}
