// A Go program whose main goroutine blocks in a read system call below 20 frames. Prints "ready" just
// before it blocks.
package main

import (
	"os"
	"syscall"
)

//go:noinline
func deep(n int, fd int) int {
	var room [100]byte
	room[n] = byte(n)
	if n == 0 {
		os.Stdout.WriteString("ready\n")
		got, _ := syscall.Read(fd, room[:])
		return got
	}
	return deep(n-1, fd) + int(room[n])
}

func main() {
	var fds [2]int
	syscall.Pipe(fds[:])
	os.Exit(deep(20, fds[0]))
}
