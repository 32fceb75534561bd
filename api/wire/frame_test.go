package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// text is a body that is there as it is.
type text string

func (t text) Append(dst []byte) []byte { return append(dst, t...) }

func reader(data []byte, most int) *Reader {
	return NewReader(bufio.NewReaderSize(bytes.NewReader(data), 16), most)
}

// The example in the specification is what is really sent.
func TestBytesAreAsSpecified(t *testing.T) {
	spec, err := os.ReadFile("../../docs/reference/lease-protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	frame := Append([]byte("before"), Release, 3, text(`{"id":"a","fence":7}`))[len("before"):]
	want := fmt.Sprintf("% x  % x  % x  % x\n", frame[:4], frame[4:5], frame[5:9], frame[9:])
	if !strings.Contains(string(spec), want) {
		t.Errorf("the specification lacks the bytes\n%s", want)
	}
	if got := Append(nil, Cancel, 7, nil); string(got) != "\x00\x00\x00\x05\x04\x00\x00\x00\x07" {
		t.Errorf("a frame without a body is %q", got)
	}
}

func TestFramesReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		frames := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Frame {
			return Frame{Kind: Kind(rapid.Byte().Draw(t, "kind")), Number: rapid.Uint32().Draw(t, "number"),
				Body: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body")}
		})).Draw(t, "frames")
		var data []byte
		for _, f := range frames {
			data = Append(data, f.Kind, f.Number, text(f.Body))
		}
		whole := len(data)
		data = data[:rapid.IntRange(0, whole).Draw(t, "cut")]
		in := reader(data, 300)
		for i, want := range frames {
			got, err := in.Next()
			if err != nil {
				checkCut(t, err, len(data), whole)
				return
			}
			if got.Kind != want.Kind || got.Number != want.Number || !bytes.Equal(got.Body, want.Body) {
				t.Fatalf("frame %d is %+v, want %+v", i, got, want)
			}
		}
		if _, err := in.Next(); err != io.EOF {
			t.Fatalf("after the last frame comes %v", err)
		}
	})
}

// checkCut allows an end only where the data was cut: between two frames it is
// a plain one.
func checkCut(t *rapid.T, err error, cut, whole int) {
	if cut == whole || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("%d of %d bytes end with %v", cut, whole, err)
	}
}

func TestEndInTheMiddle(t *testing.T) {
	frame := Append(nil, Acquire, 1, text("{}"))
	for n := range len(frame) {
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		if _, err := reader(frame[:n], 100).Next(); err != want {
			t.Errorf("after %d bytes: %v, want %v", n, err, want)
		}
	}
}

// halting is a stream that stops with an error after every byte.
type halting struct {
	data  []byte
	stops bool
}

func (h *halting) Read(b []byte) (int, error) {
	if h.stops = !h.stops; h.stops {
		return 0, os.ErrDeadlineExceeded
	}
	if len(h.data) == 0 {
		return 0, io.EOF
	}
	b[0], h.data = h.data[0], h.data[1:]
	return 1, nil
}

// Reading goes on after a deadline, wherever in a frame that came.
func TestReadingGoesOnAfterADeadline(t *testing.T) {
	in := NewReader(bufio.NewReaderSize(&halting{data: Append(Append(nil, Acquire, 1, text("{}")), Cancel, 2, nil)}, 16), 100)
	for _, want := range []Frame{{Acquire, 1, []byte("{}")}, {Cancel, 2, nil}} {
		got, err := in.Next()
		for errors.Is(err, os.ErrDeadlineExceeded) {
			got, err = in.Next()
		}
		if err != nil || got.Kind != want.Kind || got.Number != want.Number || !bytes.Equal(got.Body, want.Body) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
}

func TestSizesThatCannotBe(t *testing.T) {
	for _, length := range []string{"\x00\x00\x00\x00", "\x00\x00\x00\x04", "\x00\x00\x00\x6a", "\xff\xff\xff\xff"} {
		_, err := reader([]byte(length), 100).Next() // said at once, whatever follows
		if size := (*SizeError)(nil); !errors.As(err, &size) || !strings.Contains(err.Error(), "from 5 to 105") {
			t.Errorf("length %q: %v", length, err)
		}
	}
	if _, err := reader(Append(nil, Acquire, 1, text(strings.Repeat("x", 100))), 100).Next(); err != nil {
		t.Errorf("a body of the largest size: %v", err)
	}
}

// A length alone does not make anybody take memory for it.
func TestLargeLengthTakesNoMemory(t *testing.T) {
	in := reader(append([]byte{0, 0xff, 0, 0, 1, 0, 0, 0, 1}, "only this"...), MaxAnswer)
	if _, err := in.Next(); err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	if cap(in.body) > 256<<10 {
		t.Errorf("%d bytes were taken for a body that never came", cap(in.body))
	}
}

func TestMore(t *testing.T) {
	in := reader(Append(Append(nil, Cancel, 1, nil), Cancel, 2, nil), 10)
	for _, want := range []bool{true, false} {
		if _, err := in.Next(); err != nil {
			t.Fatal(err)
		}
		if in.More() != want {
			t.Errorf("More is %v, want %v", !want, want)
		}
	}
}

func FuzzNext(f *testing.F) {
	f.Add(Append(nil, Acquire, 1, text("{}")))
	f.Add([]byte{0, 0, 0, 5, 4, 0, 0, 0, 1, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		in := reader(data, 64)
		var again []byte
		for {
			frame, err := in.Next()
			if err != nil {
				break
			}
			again = Append(again, frame.Kind, frame.Number, text(frame.Body))
		}
		if !bytes.HasPrefix(data, again) {
			t.Fatalf("%q was read as %q", data, again)
		}
	})
}
