package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api/wire"
)

const (
	// streamIdle is how long an unused stream stays open.
	streamIdle = 90 * time.Second
	// streamStuck is how long a daemon may read nothing of what is sent.
	streamStuck = 10 * time.Second
)

// stream is one connection with the calls that are under way on it. Only callers that
// wait for an answer read it: one of them at a time reads, and hands the others their
// answers. A goroutine that only reads would have to be woken for every answer, and would
// have to wake the caller.
type stream struct {
	conn net.Conn
	idle *time.Timer

	reading chan struct{} // has room for one: the goroutine that reads from in
	in      *wire.Reader

	// writing guards the sending half of conn, and out.
	writing sync.Mutex
	out     []byte

	// mu guards what follows.
	mu      sync.Mutex
	last    uint32 // number of the newest call
	seen    uint32 // value of last when rest last checked for use
	calls   map[uint32]*pending
	broken  error // why the connection has ended; nil while it is open
	retired bool  // takes no more calls, and ends with the last one
}

// pending is a call that has no answer yet.
type pending struct {
	kind   wire.Kind
	answer quick      // where to put the answer
	done   chan error // has room for one
	left   bool       // nobody waits for it any more
}

// errTooLarge reports that a call does not fit into a frame; nothing was sent.
var errTooLarge = errors.New("the request is too large for a frame")

// unsentError means that the daemon has not seen the call.
type unsentError struct{ cause error }

func (e *unsentError) Error() string { return fmt.Sprintf("the connection broke: %v", e.cause) }
func (e *unsentError) Unwrap() error { return e.cause }

// unansweredError means that the connection broke after the call was sent.
type unansweredError struct{ cause error }

func (e *unansweredError) Error() string {
	return fmt.Sprintf("no answer came, and what became of the call is not known: %v", e.cause)
}
func (e *unansweredError) Unwrap() error { return e.cause }

func newStream(conn net.Conn, in *bufio.Reader) *stream {
	s := &stream{
		conn: conn, reading: make(chan struct{}, 1), in: wire.NewReader(in, wire.MaxAnswer), calls: map[uint32]*pending{},
	}
	s.idle = time.AfterFunc(streamIdle, s.rest)
	return s
}

func (s *stream) usable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken == nil && !s.retired
}

// call sends a call and waits for its answer until ctx ends.
func (s *stream) call(ctx context.Context, kind wire.Kind, asked wire.Body, answer quick) error {
	p := &pending{kind: kind, answer: answer, done: make(chan error, 1)}
	number, err := s.add(p)
	if err != nil {
		return err
	}
	if err := s.send(kind, number, asked); err != nil {
		return s.unsent(number, err)
	}
	if came, err := s.await(ctx, p); came {
		return err
	}
	if s.leave(number) {
		return context.Cause(ctx)
	}
	return <-p.done // it has just come
}

// await waits for the answer of a call until ctx ends. If no other goroutine reads
// answers, it does.
func (s *stream) await(ctx context.Context, p *pending) (came bool, err error) {
	select {
	case err := <-p.done:
		return true, err
	case <-ctx.Done():
		return false, nil
	case s.reading <- struct{}{}:
	}
	defer func() { <-s.reading }() // let the next one read
	interrupt := context.AfterFunc(ctx, func() { _ = s.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer interrupt()
	for {
		select {
		case err := <-p.done:
			return true, err
		default:
		}
		f, err := s.in.Next()
		switch {
		case err == nil && f.Number == 0: // about the whole connection, which then ends
			s.fail(read(wire.Frame{Kind: wire.Refused, Body: f.Body}, nil))
		case err == nil:
			s.deliver(f)
		case errors.Is(err, os.ErrDeadlineExceeded):
			// The deadline was set for this call, or for an earlier reader whose answer
			// came in the same moment.
			_ = s.conn.SetReadDeadline(time.Time{})
			if ctx.Err() != nil {
				return false, nil
			}
		default:
			s.fail(err)
		}
	}
}

// add gives a call its number.
func (s *stream) add(p *pending) (uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil || s.retired && !p.left {
		return 0, &unsentError{errors.Join(s.broken, net.ErrClosed)}
	}
	for s.last++; s.last == 0 || s.calls[s.last] != nil; s.last++ {
	}
	s.calls[s.last] = p
	return s.last, nil
}

func (s *stream) send(kind wire.Kind, number uint32, body wire.Body) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.out = wire.Append(s.out[:0], kind, number, body)
	if len(s.out) > wire.Overhead+wire.MaxRequest {
		s.out = nil
		return errTooLarge
	}
	if err := s.conn.SetWriteDeadline(time.Now().Add(streamStuck)); err != nil {
		return err
	}
	_, err := s.conn.Write(s.out)
	return err
}

// unsent returns the error of a call that the daemon has not seen: at most a part of a
// frame got through, which the daemon ignores.
func (s *stream) unsent(number uint32, err error) error {
	if errors.Is(err, errTooLarge) {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calls, number)
		return err
	}
	s.fail(err)
	return &unsentError{err}
}

// tell sends a message for which the caller does not wait, even if the daemon hangs, and
// reads until the answer of a call is there.
func (s *stream) tell(kind wire.Kind, number uint32, body wire.Body, until *pending) {
	go func() {
		if err := s.send(kind, number, body); err != nil {
			s.fail(err)
		}
		_, _ = s.await(context.Background(), until)
	}()
}

// leave tells the daemon that nobody waits for a call any more. It reports
// false if the answer is there.
func (s *stream) leave(number uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.calls[number]
	if p == nil {
		return false
	}
	p.left = true
	s.tell(wire.Cancel, number, nil, p)
	return true
}

// deliver hands out one answer. An unknown number belongs to a call that was never made,
// so deliver drops it.
func (s *stream) deliver(f wire.Frame) {
	s.mu.Lock()
	p := s.calls[f.Number]
	delete(s.calls, f.Number)
	left := p != nil && p.left
	s.mu.Unlock()
	switch {
	case p != nil && !left:
		p.done <- read(f, p.answer)
	case left:
		if p.kind == wire.Acquire && f.Kind == wire.Done {
			s.giveBack(f)
		}
		p.done <- nil
	}
	s.endIfOver()
}

// giveBack releases a lease that was granted after its caller had left.
func (s *stream) giveBack(f wire.Frame) {
	var l wire.LeaseBody
	if read(f, &l) != nil {
		return // no lease was granted
	}
	p := &pending{kind: wire.Release, left: true, done: make(chan error, 1)}
	if number, err := s.add(p); err == nil {
		s.tell(wire.Release, number, &wire.ReleaseBody{ID: l.ID, Fence: l.Fence}, p)
	}
}

// fail ends the stream. Waiting calls get an error that says that their outcome is not
// known.
func (s *stream) fail(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(cause)
}

// end closes the connection. The caller holds mu.
func (s *stream) end(cause error) {
	if s.broken != nil {
		return
	}
	if errors.Is(cause, io.EOF) {
		cause = errors.New("the daemon ended the connection")
	}
	s.broken = cause
	for _, p := range s.calls {
		p.done <- &unansweredError{cause}
	}
	clear(s.calls)
	s.idle.Stop()
	_ = s.conn.Close()
}

// retire lets the stream take no more calls, and ends it with the last one.
func (s *stream) retire() {
	s.mu.Lock()
	s.retired = true
	s.mu.Unlock()
	s.endIfOver()
}

func (s *stream) endIfOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired && len(s.calls) == 0 {
		s.end(net.ErrClosed)
	}
}

// rest retires a stream that was not used for a while.
func (s *stream) rest() {
	s.mu.Lock()
	used := s.last != s.seen || len(s.calls) > 0
	s.seen = s.last
	if used && s.broken == nil {
		s.idle.Reset(streamIdle)
	}
	s.mu.Unlock()
	if !used {
		s.retire()
	}
}
