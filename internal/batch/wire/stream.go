package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// Stream carries bytes in both directions. Both ends open it with the same number, before
// its first byte comes.
type Stream struct {
	link   *Link
	number uint32

	mu      sync.Mutex
	changed sync.Cond
	chunks  [][]byte // that came and were not read
	offset  int      // in the first of them
	waiting int      // bytes in them
	taken   int      // bytes that were read and not credited
	noMore  bool     // the other end has ended the stream
	credit  int      // bytes that may be sent
	closed  bool
}

// Open opens a stream. The caller has to close it.
func (l *Link) Open(number uint32) *Stream {
	s := &Stream{link: l, number: number, credit: window}
	s.changed.L = &s.mu
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams[number] = s
	return s
}

// Close forgets the stream: what still comes is dropped, and reads and writes fail.
func (s *Stream) Close() error {
	s.link.mu.Lock()
	delete(s.link.streams, s.number)
	s.link.mu.Unlock()
	s.mu.Lock()
	s.closed = true
	s.chunks, s.waiting = nil, 0
	s.mu.Unlock()
	s.changed.Broadcast()
	return nil
}

func (s *Stream) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Broadcast()
}

// came takes bytes of the other end, which keeps to the window.
func (s *Stream) came(chunk []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(chunk) == 0 {
		free(chunk)
		return nil
	}
	if s.waiting+len(chunk) > window {
		return errors.New("more bytes than were asked for: this is not the protocol")
	}
	s.chunks = append(s.chunks, chunk)
	s.waiting += len(chunk)
	s.changed.Broadcast()
	return nil
}

func (s *Stream) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noMore = true
	s.changed.Broadcast()
}

func (s *Stream) credited(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.credit = min(s.credit+n, window)
	s.changed.Broadcast()
}

// Read reads what came. It returns io.EOF after the end of the stream, and the reason of
// the link's end if that came first.
func (s *Stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	for len(s.chunks) == 0 {
		err := s.why()
		if s.noMore && !s.closed {
			err = io.EOF
		}
		if err != nil {
			s.mu.Unlock()
			return 0, err
		}
		s.changed.Wait()
	}
	n := copy(p, s.chunks[0][s.offset:])
	if s.offset += n; s.offset == len(s.chunks[0]) {
		free(s.chunks[0])
		s.chunks[0] = nil
		s.chunks, s.offset = s.chunks[1:], 0
	}
	s.waiting -= n
	s.taken += n
	credit := 0
	if s.taken >= window/8 {
		credit, s.taken = s.taken, 0
	}
	s.mu.Unlock()
	if credit > 0 {
		_ = s.link.send(frameCredit, s.number, binary.BigEndian.AppendUint32(nil, uint32(credit))) // an error ends the link
	}
	return n, nil
}

// why returns why nothing can be read or written any more. The caller holds the lock.
func (s *Stream) why() error {
	if s.closed {
		return os.ErrClosed
	}
	select {
	case <-s.link.done:
		return s.link.Err()
	default:
		return nil
	}
}

// Send writes bytes. It returns os.ErrDeadlineExceeded if the other end does not take all
// of them in time; a time of 0 is any.
func (s *Stream) Send(p []byte, within time.Duration) error {
	var late bool
	if within > 0 {
		timer := time.AfterFunc(within, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			late = true
			s.changed.Broadcast()
		})
		defer timer.Stop()
	}
	for len(p) > 0 {
		s.mu.Lock()
		for s.credit == 0 && !late && s.why() == nil {
			s.changed.Wait()
		}
		err := s.why()
		if err == nil && s.credit == 0 {
			err = os.ErrDeadlineExceeded
		}
		n := min(s.credit, len(p), frameBytes)
		s.credit -= n
		s.mu.Unlock()
		if err == nil {
			err = s.link.send(frameData, s.number, p[:n])
		}
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// Write writes bytes, and waits for the other end as long as it takes.
func (s *Stream) Write(p []byte) (int, error) {
	if err := s.Send(p, 0); err != nil {
		return 0, err
	}
	return len(p), nil
}

// End tells the other end that no more bytes come.
func (s *Stream) End() error { return s.link.send(frameEnd, s.number, nil) }
