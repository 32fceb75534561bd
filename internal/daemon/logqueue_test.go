package daemon

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// stallingFile takes lines, and stalls while gate is not nil and open.
type stallingFile struct {
	mu    sync.Mutex
	lines []string
	gate  chan struct{}
}

func (f *stallingFile) Write(p []byte) (int, error) {
	if f.gate != nil {
		<-f.gate
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, string(p))
	return len(p), nil
}

func (f *stallingFile) written() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.lines)
}

func note(n uint64) []byte { return fmt.Appendf(nil, "%d dropped\n", n) }

func TestLinesAreWrittenInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &stallingFile{}
		q := NewLogQueue(f, note)
		line := []byte("0\n")
		for i := range byte(10) {
			line[0] = '0' + i // a logger uses its buffer again
			if n, err := q.Write(line); n != 2 || err != nil {
				t.Fatalf("Write = %d, %v", n, err)
			}
		}
		if !q.Close(time.Second) {
			t.Error("Close left lines behind")
		}
		if got := strings.Join(f.written(), ""); got != "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n" || q.Dropped() != 0 {
			t.Errorf("%d lines dropped, written:\n%s", q.Dropped(), got)
		}
		_, _ = q.Write(line)
		if q.Dropped() != 1 {
			t.Errorf("%d lines dropped, want the one after Close", q.Dropped())
		}
	})
}

// A file that stalls holds nobody up, what is queued for it is bounded, and
// when it takes lines again one of them says at the right place how many are
// missing.
func TestStalledFile(t *testing.T) {
	for name, c := range map[string]struct{ size, fits int }{
		"many lines": {10, maxLines},
		"long lines": {4096, maxBytes / 4096},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &stallingFile{gate: make(chan struct{})}
				q := NewLogQueue(f, note)
				line := bytes.Repeat([]byte{'x'}, c.size)
				begun := time.Now()
				for range c.fits + 7 {
					_, _ = q.Write(line)
				}
				if took := time.Since(begun); took != 0 || q.Dropped() != 7 {
					t.Errorf("after %v %d lines are dropped, want 7 at once", took, q.Dropped())
				}
				if len(q.lines) > maxLines || q.bytes > maxBytes {
					t.Errorf("%d lines of %d bytes are queued", len(q.lines), q.bytes)
				}
				f.gate <- struct{}{}
				synctest.Wait()
				_, _ = q.Write(line) // there is room for it, but not half of the queue
				if q.Dropped() != 8 {
					t.Errorf("%d lines dropped, want 8", q.Dropped())
				}
				close(f.gate)
				synctest.Wait()
				_, _ = q.Write([]byte("after\n"))
				if !q.Close(time.Second) {
					t.Error("Close left lines behind")
				}
				got := f.written()
				if len(got) != c.fits+2 || got[c.fits] != "8 dropped\n" || got[c.fits+1] != "after\n" {
					t.Errorf("%d lines were written, the last two %q", len(got), got[len(got)-2:])
				}
			})
		})
	}
}

func TestNoteComesBeforeTheNextLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &stallingFile{gate: make(chan struct{})}
		q := NewLogQueue(f, note)
		for range maxLines + 3 {
			_, _ = q.Write([]byte("x\n"))
		}
		for range maxLines/2 + 1 {
			f.gate <- struct{}{}
			synctest.Wait()
		}
		_, _ = q.Write([]byte("after\n"))
		close(f.gate)
		if !q.Close(time.Second) {
			t.Error("Close left lines behind")
		}
		if got := f.written(); !slices.Equal(got[maxLines:], []string{"3 dropped\n", "after\n"}) {
			t.Errorf("after the gap: %q", got[maxLines:])
		}
	})
}

func TestCloseDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &stallingFile{gate: make(chan struct{})}
		q := NewLogQueue(f, note)
		_, _ = q.Write([]byte("x\n"))
		begun := time.Now()
		if q.Close(time.Second) {
			t.Error("Close says that everything was written")
		}
		if took := time.Since(begun); took != time.Second {
			t.Errorf("Close took %v, want its limit", took)
		}
		close(f.gate)
	})
}

func TestLineThatNeverFits(t *testing.T) {
	f := &stallingFile{}
	q := NewLogQueue(f, note)
	_, _ = q.Write(make([]byte, maxBytes+1))
	_, _ = q.Write([]byte("after\n"))
	if !q.Close(time.Minute) {
		t.Error("Close left lines behind")
	}
	if got := f.written(); !slices.Equal(got, []string{"1 dropped\n", "after\n"}) {
		t.Errorf("written: %q", got)
	}
}
