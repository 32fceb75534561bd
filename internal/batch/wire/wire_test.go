package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// end is one end of a link, with what it hears.
type end struct {
	*Link
	heard chan string
}

// pair returns the two ends of a link.
func pair(t *testing.T, silence time.Duration) (a, b end) {
	t.Helper()
	one, other := net.Pipe()
	made := func(c net.Conn) end {
		e := end{heard: make(chan string, 100)}
		e.Link = New(c, c, silence, func(m []byte) error { e.heard <- string(m); return nil }, func() { _ = c.Close() })
		return e
	}
	a, b = made(one), made(other)
	t.Cleanup(func() { a.End(io.EOF); b.End(io.EOF); <-a.Done(); <-b.Done() })
	return a, b
}

func TestMessagesComeInOrder(t *testing.T) {
	a, b := pair(t, time.Hour)
	for i := range 50 {
		if err := a.Say(i); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 50 {
		if got := <-b.heard; got != fmt.Sprint(i) {
			t.Fatalf("message %d is %s", i, got)
		}
	}
	if err := a.Say(strings.Repeat("x", messageBytes)); err == nil || !errors.Is(a.Err(), err) {
		t.Errorf("a message that is too long: %v, and the link says %v", err, a.Err())
	}
}

// Both ends send at the same time on several streams, much more than a window, and
// everything arrives as it was sent, compressed or not.
func TestStreams(t *testing.T) {
	a, b := pair(t, time.Hour)
	text := bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog "), 3*window/44)
	var all sync.WaitGroup
	for number := range uint32(3) {
		for _, ends := range [][2]end{{a, b}, {b, a}} {
			id := 10 + 2*number
			if ends[0].Link == b.Link {
				id++
			}
			from, to := ends[0].Open(id), ends[1].Open(id)
			all.Go(func() {
				if _, err := from.Write(text); err != nil {
					t.Error(err)
				}
				if err := from.End(); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				if got, err := io.ReadAll(to); err != nil || !bytes.Equal(got, text) {
					t.Errorf("stream %d: %d bytes of %d, %v", id, len(got), len(text), err)
				}
				_ = to.Close()
			})
		}
	}
	all.Wait()
}

// A stream that nobody reads takes as much as its window, and holds up no other.
func TestStreamThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, time.Hour)
		stuck, other := a.Open(20), a.Open(21)
		unread, read := b.Open(20), b.Open(21)
		if err := stuck.Send(make([]byte, window+1), time.Second); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("more than the window was taken: %v", err)
		}
		go func() { _, _ = other.Write([]byte("passes")); _ = other.End() }()
		if got, err := io.ReadAll(read); string(got) != "passes" || err != nil {
			t.Errorf("the other stream: %q, %v", got, err)
		}
		// Once it is read, there is room.
		go func() { _, _ = io.Copy(io.Discard, unread) }()
		if err := stuck.Send(make([]byte, window), time.Minute); err != nil {
			t.Error(err)
		}
		_, _ = stuck.Close(), unread.Close()
		if err := stuck.Send([]byte("x"), time.Minute); !errors.Is(err, os.ErrClosed) {
			t.Errorf("a closed stream: %v", err)
		}
		a.End(io.EOF)
		b.End(io.EOF)
		synctest.Wait()
	})
}

// An end that is silent for too long is gone, and whoever waits for it hears so. One that
// answers is not, and its distance is known.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, 10*time.Second)
		time.Sleep(time.Hour)
		if a.Err() != nil || b.Err() != nil {
			t.Errorf("ends that answer: %v, %v", a.Err(), b.Err())
		}
		one, other := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, other) }() // hears, and says nothing
		deaf := New(one, one, 10*time.Second, nil, func() { _ = one.Close() })
		s := deaf.Open(20)
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, ErrSilent) {
			t.Errorf("a read from a silent end: %v", err)
		}
		if err := s.Send([]byte("x"), 0); !errors.Is(err, ErrSilent) {
			t.Errorf("a write to a silent end: %v", err)
		}
		if deaf.Say("x") == nil {
			t.Error("a message to a silent end")
		}
		_ = other.Close()
		a.End(io.EOF)
		b.End(io.EOF)
		synctest.Wait()
	})
}

// What an end counts does not follow a clock that is set, or that goes on while the machine
// sleeps: a clock that shows the date may.
func TestTimesFollowNoDate(t *testing.T) {
	one, other := net.Pipe()
	l := New(one, one, time.Hour, nil, func() { _ = one.Close() })
	defer func() { l.End(io.EOF); <-l.Done() }()
	var probe [headBytes + 8]byte
	if _, err := io.ReadFull(other, probe[:]); err != nil || probe[0] != framePing {
		t.Fatalf("the first frame is of kind %d: %v", probe[0], err)
	}
	if at := time.Duration(binary.BigEndian.Uint64(probe[headBytes:])); at > 365*24*time.Hour {
		t.Errorf("a probe was sent at %v, which is a date", at)
	}
	if _, err := other.Write([]byte{frameEnd}); err != nil {
		t.Fatal(err)
	}
	_ = other.Close()
	<-l.Done()
	if at := time.Duration(l.from.at.Load()); at <= 0 || at > 365*24*time.Hour {
		t.Errorf("something was heard at %v, which is a date", at)
	}
}

// slow is a pipe on which everything takes a while.
type slow struct {
	io.ReadWriteCloser
	each time.Duration
}

func (s slow) Write(p []byte) (int, error) {
	time.Sleep(s.each)
	return s.ReadWriteCloser.Write(p)
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other := net.Pipe()
		a := New(one, slow{one, 20 * time.Millisecond}, time.Hour, nil, func() { _ = one.Close() })
		b := New(other, slow{other, 30 * time.Millisecond}, time.Hour, nil, func() { _ = other.Close() })
		time.Sleep(time.Second)
		if got := a.Latency(); got < 50*time.Millisecond || got > 200*time.Millisecond { // the head and the rest of a frame are written one by one
			t.Errorf("there and back takes %s", got)
		}
		a.End(io.EOF)
		b.End(io.EOF)
		synctest.Wait()
	})
}

// What is not the protocol ends the link, and takes no memory.
func TestNonsenseEndsTheLink(t *testing.T) {
	frame := func(kind byte, stream, length uint32, payload string) []byte {
		head := binary.BigEndian.AppendUint32([]byte{kind}, stream)
		return append(binary.BigEndian.AppendUint32(head, length), payload...)
	}
	for name, bytes := range map[string][]byte{
		"an unknown kind":     frame(99, 0, 0, ""),
		"a frame of 4 GB":     frame(frameData, 20, 1<<32-1, ""),
		"a message of 4 GB":   frame(frameMessage, 0, 1<<32-1, ""),
		"a broken frame":      frame(frameData, 20, 100, "short"),
		"what is not packed":  frame(framePacked, 20, 5, "plain"),
		"a shell that greets": []byte("Welcome to Debian GNU/Linux!\n"),
	} {
		r, w := io.Pipe()
		l := New(r, io.Discard, time.Hour, func([]byte) error { return nil }, func() { _ = r.Close() })
		l.Open(20)
		go func() { _, _ = w.Write(bytes); _ = w.Close() }()
		<-l.Done()
		if l.Err() == nil || errors.Is(l.Err(), io.EOF) && name != "a broken frame" {
			t.Errorf("%s: %v", name, l.Err())
		}
	}
}

// Frames are compressed while that saves time: on a slow wire if they get shorter, and
// never on a fast one but to measure.
func TestPacking(t *testing.T) {
	text, noise := bytes.Repeat([]byte("record "), 10_000), make([]byte, 70_000)
	for i, x := 0, uint32(1); i < len(noise); i++ {
		x = x*1664525 + 1013904223
		noise[i] = byte(x >> 24)
	}
	for _, c := range []struct {
		name        string
		frame       []byte
		perSecond   float64 // bytes that the wire takes
		least, most int     // frames of 640 that are compressed
	}{
		{"text on a slow wire", text, 1e6, 600, 640},
		{"text on a fast wire", text, 1e12, 1, 20},
		{"noise on a slow wire", noise, 1e6, 0, 20},
	} {
		var p packer
		clock := time.Unix(0, 0)
		packed := 0
		for range 640 {
			n := len(c.frame)
			if out := p.packed(c.frame, func() time.Time { clock = clock.Add(time.Duration(len(c.frame)) / 2); return clock }); out != nil { // 2 GB/s
				packed++
				n = len(out)
				if back, err := unpack(out); err != nil || !bytes.Equal(back, c.frame) {
					t.Fatalf("%s: %v", c.name, err)
				}
			}
			p.wrote(n, time.Duration(float64(n)/c.perSecond*1e9))
		}
		if packed < c.least || packed > c.most {
			t.Errorf("%s: %d of 640 frames are compressed", c.name, packed)
		}
	}
	var p packer
	if p.packed(make([]byte, worthPacking-1), time.Now) != nil {
		t.Error("a short frame is compressed")
	}
}
