package daemon

import (
	"io"
	"slices"
	"sync"
	"time"
)

const (
	maxLines = 1024
	maxBytes = 1 << 20
)

// LogQueue is an io.Writer that stands between a logger and the file that it writes to. A
// file can stall: a pipe that nobody reads, a disk that hangs. Writing to the queue never
// waits for the file; lines that do not fit are dropped and counted. A goroutine of its
// own writes the queued lines, one at a time.
type LogQueue struct {
	to   io.Writer
	note func(dropped uint64) []byte
	wake chan struct{} // has room for one

	mu      sync.Mutex // guards what follows; not held while writing
	lines   [][]byte   // the goroutine may be writing the first one
	bytes   int        // in lines
	dropped uint64     // lines, in all
	untold  uint64     // dropped lines that no note has counted yet
	closed  bool

	done chan struct{} // closed when the goroutine has ended
}

// NewLogQueue returns a queue in front of a file. note returns the line that says, at its place
// in the log, how many lines were dropped.
func NewLogQueue(to io.Writer, note func(dropped uint64) []byte) *LogQueue {
	q := &LogQueue{to: to, note: note, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go q.run()
	return q
}

// Write queues one line. It drops the line if there is no room, or after Close.
// It never fails, so that a logger does not either.
func (q *LogQueue) Write(line []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.room(len(line)) {
		q.dropped++
		q.untold++
		q.signal()
		return len(line), nil
	}
	q.tell()
	q.push(slices.Clone(line))
	return len(line), nil
}

// room reports whether a line of this size may be queued. After a line was dropped, half
// of the queue must be empty first: otherwise a slow file would get a note between any
// two lines. The caller holds mu.
func (q *LogQueue) room(size int) bool {
	part := 1
	if q.untold > 0 {
		part = 2
	}
	return !q.closed && len(q.lines) < maxLines/part && q.bytes+size <= maxBytes/part
}

// tell queues a note about dropped lines, if there are any without a note. The
// caller holds mu.
func (q *LogQueue) tell() {
	if q.untold > 0 {
		q.push(q.note(q.untold))
		q.untold = 0
	}
}

// push queues a line. The caller holds mu.
func (q *LogQueue) push(line []byte) {
	q.lines = append(q.lines, line)
	q.bytes += len(line)
	q.signal()
}

func (q *LogQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default: // the goroutine is already going to look
	}
}

// Dropped returns how many lines were dropped so far.
func (q *LogQueue) Dropped() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// Close writes the queued lines, for at most the limit, and reports whether it wrote all
// of them. Later writes to the queue are dropped.
func (q *LogQueue) Close(limit time.Duration) bool {
	q.mu.Lock()
	q.closed = true
	q.signal()
	q.mu.Unlock()
	select {
	case <-q.done:
		return true
	case <-time.After(limit):
		return false
	}
}

// run writes lines until the queue is closed and empty.
func (q *LogQueue) run() {
	defer close(q.done)
	for {
		line, more := q.first()
		switch {
		case line != nil:
			_, _ = q.to.Write(line) // there is no other place to report a failure
			q.pop()
		case more:
			<-q.wake
		default:
			return
		}
	}
}

// first returns the next line to write, or nil, and whether there may be more. After the
// last line, it returns a note about dropped lines.
func (q *LogQueue) first() (line []byte, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) == 0 {
		q.tell()
	}
	if len(q.lines) == 0 {
		return nil, !q.closed
	}
	return q.lines[0], true
}

// pop removes the line that was written.
func (q *LogQueue) pop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= len(q.lines[0])
	q.lines[0] = nil
	if q.lines = q.lines[1:]; len(q.lines) == 0 {
		q.lines = nil
	}
}
