package batch

import "runtime"

// spawner starts processes from one thread. The signal that ends a worker when
// the runner dies is sent when the thread that started it ends, and the Go
// runtime ends threads as it likes, except one that a goroutine is locked to.
type spawner struct {
	requests chan func()
	ended    chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan func()), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for f := range s.requests {
			f()
		}
	}()
	return s
}

// do calls start on the thread.
func (s *spawner) do(start func() error) error {
	result := make(chan error, 1)
	s.requests <- func() { result <- start() }
	return <-result
}

// close ends the thread; no process that it started may be alive.
func (s *spawner) close() {
	close(s.requests)
	<-s.ended
}
