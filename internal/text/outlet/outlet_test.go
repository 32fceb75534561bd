package outlet

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Who writes waits for the reader, and not beyond the end of the program.
func TestWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		w := New(write, 5*time.Second)
		first := make(chan error, 1)
		go func() {
			_, err := w.Write([]byte("first"))
			first <- err
		}()
		time.Sleep(24 * time.Hour)
		select {
		case err := <-first:
			t.Fatalf("it gave up on a slow reader: %v", err)
		default:
		}
		begun := time.Now()
		w.Hurry()
		w.Hurry()
		if err := <-first; !errors.Is(err, ErrUnread) || time.Since(begun) != 5*time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		if _, err := w.Write([]byte("second")); !errors.Is(err, ErrUnread) || time.Since(begun) != 5*time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		_ = read.Close() // lets the first write end
	})
}

// A reader that still reads gets all, also at the end of the program.
func TestWriterOfALateReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		w := New(write, 5*time.Second)
		w.Hurry()
		var got strings.Builder
		done := make(chan struct{})
		go func() {
			defer close(done)
			time.Sleep(4 * time.Second)
			_, _ = io.Copy(&got, read)
		}()
		for _, text := range []string{"one ", "two"} {
			if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		}
		_ = write.Close()
		<-done
		if got.String() != "one two" {
			t.Errorf("it read %q", got.String())
		}
	})
}
