// Package wire carries messages and streams of bytes over one pipe to another machine.
//
// A Link has two ends that speak alike. Each sends frames: messages, which arrive in
// order; bytes of streams, each with a window of its own, so that a stream that nobody
// reads holds up no other; and probes, by which each end knows how far away the other is,
// and that it is there. Frames of a stream are compressed while that saves time.
package wire

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The kinds of frames. A frame begins with its kind, the number of its stream and its
// length.
const (
	frameMessage = iota // JSON
	frameData           // bytes of a stream
	framePacked         // the same, compressed
	frameEnd            // no more bytes of a stream
	frameCredit         // the reader of a stream took as many bytes
	framePing           // the time on the sender's own clock, which framePong returns
	framePong
)

const (
	headBytes = 9
	// frameBytes is the most bytes of a stream in a frame.
	frameBytes = 256 << 10
	// messageBytes is the longest message.
	messageBytes = 4 << 20
	// window is how many bytes of a stream may be under way.
	window = 8 << 20
)

// ErrSilent means that nothing came from the other end for too long.
var ErrSilent = errors.New("no answer")

// Link is one end of a pipe.
type Link struct {
	from    *heard
	silence atomic.Int64 // see Silence
	take    func(message []byte) error
	cut     func() // ends the pipe

	writing sync.Mutex // guards what follows
	to      io.Writer
	pack    packer
	head    [headBytes]byte

	mu      sync.Mutex // guards what follows
	streams map[uint32]*Stream
	trips   []time.Duration // the last round trips
	outbox  []frame         // that no stream sends
	posted  sync.Cond       // the outbox has something, or the link has ended
	err     error           // why the link ended
	done    chan struct{}
}

// frame is what the outbox sends.
type frame struct {
	kind    byte
	payload []byte
}

// heard is a reader that knows when it last read something.
type heard struct {
	io.Reader
	began time.Time    // its times count from here, so that they do not follow a clock that is set
	at    atomic.Int64 // in nanoseconds
}

// now returns the time since the reader began.
func (h *heard) now() time.Duration { return time.Since(h.began) }

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if n > 0 {
		h.at.Store(int64(h.now()))
	}
	return n, err
}

// New returns the link over a pipe. An end from which nothing came for the time silence
// is gone. New calls take with every message, in order; a link whose take fails ends. It
// calls cut once at the end of the link, which has to end reads and writes of the pipe.
func New(from io.Reader, to io.Writer, silence time.Duration, take func(message []byte) error, cut func()) *Link {
	l := &Link{from: &heard{Reader: from, began: time.Now()}, to: to, take: take, cut: cut, streams: map[uint32]*Stream{}, done: make(chan struct{})}
	l.posted.L = &l.mu
	l.Silence(silence)
	go l.deliver()
	go func() { l.End(l.read()) }()
	go l.probe()
	return l
}

// Silence sets how long the other end may be silent.
func (l *Link) Silence(most time.Duration) { l.silence.Store(int64(most)) }

// Done is closed at the end of the link.
func (l *Link) Done() <-chan struct{} { return l.done }

// Err returns why the link ended. It is nil until then.
func (l *Link) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// End ends the link and all its streams. The first reason counts.
func (l *Link) End(why error) {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return
	}
	l.err = why
	close(l.done)
	l.posted.Broadcast()
	streams := slices.Collect(maps.Values(l.streams))
	l.mu.Unlock()
	l.cut()
	for _, s := range streams {
		s.wake()
	}
}

// Latency returns the time of a message to the other end and back: the shortest of the
// last ones, because a probe may wait behind bytes of streams.
func (l *Link) Latency() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.trips) == 0 {
		return 0
	}
	return slices.Min(l.trips)
}

// Say sends a message. It does not wait: who reads frames must not wait for the other end
// to read some, which may do the same. A message that cannot be sent ends the link: the
// other end would wait for it.
func (l *Link) Say(message any) error {
	text, err := json.Marshal(message)
	if err == nil && len(text) > messageBytes {
		err = fmt.Errorf("a message of %d bytes is too long", len(text))
	}
	if err != nil {
		l.End(err)
		return err
	}
	return l.post(frameMessage, text)
}

// post puts a frame into the outbox.
func (l *Link) post(kind byte, payload []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if kind != frameMessage && len(l.outbox) > 16 { // a probe that waits behind others measures nothing
		return nil
	}
	l.outbox = append(l.outbox, frame{kind, payload})
	l.posted.Signal()
	return nil
}

// deliver sends what is in the outbox, until the link ends.
func (l *Link) deliver() {
	for {
		l.mu.Lock()
		for len(l.outbox) == 0 && l.err == nil {
			l.posted.Wait()
		}
		frames, ended := l.outbox, l.err != nil
		l.outbox = nil
		l.mu.Unlock()
		if ended {
			return
		}
		for _, f := range frames {
			if l.send(f.kind, 0, f.payload) != nil {
				return
			}
		}
	}
}

// send writes a frame. A link that cannot be written to ends.
func (l *Link) send(kind byte, stream uint32, payload []byte) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if kind == frameData {
		if packed := l.pack.packed(payload, time.Now); packed != nil {
			kind, payload = framePacked, packed
		}
	}
	l.head[0] = kind
	binary.BigEndian.PutUint32(l.head[1:], stream)
	binary.BigEndian.PutUint32(l.head[5:], uint32(len(payload)))
	began := time.Now()
	_, err := l.to.Write(l.head[:])
	if err == nil && len(payload) > 0 {
		_, err = l.to.Write(payload)
	}
	if err != nil {
		l.End(err)
		return err
	}
	if kind == frameData || kind == framePacked {
		l.pack.wrote(len(payload), time.Since(began))
	}
	return nil
}

// probe sends a probe now and then, and ends the link if the other end is silent.
func (l *Link) probe() {
	for {
		most := time.Duration(l.silence.Load())
		_ = l.post(framePing, binary.BigEndian.AppendUint64(nil, uint64(l.from.now()))) // fails at the end only
		select {
		case <-l.done:
			return
		case <-time.After(most / 5):
		}
		if l.from.now()-time.Duration(l.from.at.Load()) > most {
			l.End(fmt.Errorf("%w for %s", ErrSilent, most))
			return
		}
	}
}

// read reads frames until the link ends.
func (l *Link) read() error {
	r := bufio.NewReaderSize(l.from, frameBytes)
	var head [headBytes]byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return err
		}
		kind, number, length := head[0], binary.BigEndian.Uint32(head[1:]), binary.BigEndian.Uint32(head[5:])
		most := uint32(frameBytes)
		if kind == frameMessage {
			most = messageBytes
		}
		if kind > framePong || length > most {
			return fmt.Errorf("a frame of kind %d with %d bytes: this is not the protocol", kind, length)
		}
		payload := buffer(int(length))
		if _, err := io.ReadFull(r, payload); err != nil {
			return fmt.Errorf("in the middle of a frame: %w", err)
		}
		if err := l.handle(kind, number, payload); err != nil {
			return err
		}
	}
}

// handle acts on a frame.
func (l *Link) handle(kind byte, number uint32, payload []byte) error {
	switch kind {
	case frameMessage:
		return l.take(payload)
	case framePing:
		_ = l.post(framePong, payload) // fails at the end only
		return nil
	case framePong:
		if len(payload) == 8 {
			trip := l.from.now() - time.Duration(binary.BigEndian.Uint64(payload))
			l.mu.Lock()
			l.trips = append(l.trips[max(0, len(l.trips)-7):], max(trip, 0))
			l.mu.Unlock()
		}
		return nil
	}
	l.mu.Lock()
	s := l.streams[number]
	l.mu.Unlock()
	if s == nil {
		return nil // it was closed here meanwhile
	}
	switch kind {
	case framePacked:
		plain, err := unpack(payload)
		free(payload)
		if err != nil {
			return fmt.Errorf("a frame that cannot be unpacked: %w", err)
		}
		return s.came(plain)
	case frameData:
		return s.came(payload)
	case frameEnd:
		s.ended()
	case frameCredit:
		if len(payload) == 4 {
			s.credited(int(binary.BigEndian.Uint32(payload)))
		}
	}
	return nil
}
