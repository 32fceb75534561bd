package programs

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// ErrReaderLeft means that nobody reads the outcomes any more.
var ErrReaderLeft = errors.New("the reader of standard output left")

// watchReader cancels a run when the reader of its pipe leaves, even if there is
// nothing to write at that moment: workers must not compute for nobody. Call stop when
// the run has ended.
func watchReader(pipe io.Writer, cancel context.CancelCauseFunc) (stop func()) {
	file, ok := pipe.(*os.File)
	if !ok {
		return func() {}
	}
	// The signal would end this process before its workers.
	came := make(chan os.Signal, 1)
	signal.Notify(came, unix.SIGPIPE)
	wake, stopped, err := os.Pipe()
	if err != nil {
		return func() { signal.Stop(came) }
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if awaitReader(int(file.Fd()), int(wake.Fd())) {
			cancel(ErrReaderLeft)
		}
	}()
	return func() {
		_ = stopped.Close()
		<-done
		_ = wake.Close()
		signal.Stop(came)
	}
}

// awaitReader waits until the reader of a pipe leaves or the other end of wake is
// closed. It reports whether the reader left.
func awaitReader(pipe, wake int) (left bool) {
	fds := []unix.PollFd{{Fd: int32(pipe)}, {Fd: int32(wake)}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil, fds[1].Revents != 0:
			return false
		case fds[0].Revents != 0:
			return true
		}
	}
}
