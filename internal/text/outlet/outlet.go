// Package outlet writes to readers who may stop reading.
//
// A pipe that nobody reads holds whoever writes to it, and with it whatever that one
// holds: a lock, a lease, the end of the program. As long as the program works, that is
// right: it is as fast as its reader. Once the program is to end, it is not.
package outlet

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"
)

// ErrUnread means that the reader did not take what was written, and that nobody waits
// for it any more.
var ErrUnread = errors.New("nobody reads it")

// Writer is a writer whose writes wait for their reader until Hurry is called. From then
// on each write waits for a while, and after the first that waited in vain none does. Any
// goroutine may use it.
type Writer struct {
	to      io.Writer
	grace   time.Duration
	hurried chan struct{}
	once    sync.Once

	mu  sync.Mutex // held during a write, so that what is written stays in order; guards err
	err error
}

// New returns a Writer to another one. After Hurry, a write takes as long as grace at most.
func New(to io.Writer, grace time.Duration) *Writer {
	return &Writer{to: to, grace: grace, hurried: make(chan struct{})}
}

// Hurry says that the program is to end.
func (w *Writer) Hurry() { w.once.Do(func() { close(w.hurried) }) }

// Write writes data, or returns ErrUnread.
func (w *Writer) Write(data []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	data = bytes.Clone(data) // the write may outlive this call
	var n int
	var err error
	written := make(chan struct{})
	go func() {
		defer close(written)
		n, err = w.to.Write(data)
	}()
	select {
	case <-written:
		return n, err
	case <-w.hurried:
	}
	select {
	case <-written:
		return n, err
	case <-time.After(w.grace):
		w.err = ErrUnread
		return 0, w.err
	}
}
