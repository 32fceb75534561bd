package events

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
)

var start = time.UnixMicro(1000)

func publish(l *Log, texts ...string) {
	for _, text := range texts {
		l.Publish(gpu.Event{Code: gpu.EventConfig, Text: text})
	}
}

func texts(events []gpu.Event) []string {
	var out []string
	for _, e := range events {
		if e.Code == gpu.EventGap {
			out = append(out, "(gap)")
		} else {
			out = append(out, e.Text)
		}
	}
	return out
}

func TestKept(t *testing.T) {
	l := New(3, start)
	publish(l, "a", "b", "c", "d") // ids 1000 to 1003; a is gone
	for _, test := range []struct {
		name  string
		after uint64
		want  []string
	}{
		{"from the beginning", 0, []string{"b", "c", "d"}},
		{"after one that is kept", 1001, []string{"c", "d"}},
		{"just before the oldest", 1000, []string{"b", "c", "d"}},
		{"after the newest", 1003, nil},
		{"after one that is gone", 999, []string{"(gap)", "b", "c", "d"}},
		{"from an earlier daemon", 17, []string{"(gap)", "b", "c", "d"}},
		{"from the future", 5000, []string{"(gap)", "b", "c", "d"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			found, _ := l.Kept(test.after)
			if diff := cmp.Diff(test.want, texts(found)); diff != "" {
				t.Errorf("after %d (-want +got):\n%s", test.after, diff)
			}
		})
	}
}

func TestIDsGrowAcrossRestarts(t *testing.T) {
	before := New(10, start)
	publish(before, "a", "b")
	last, _ := before.Kept(0)
	after := New(10, start.Add(time.Second))
	publish(after, "c")
	found, _ := after.Kept(last[1].ID)
	if diff := cmp.Diff([]string{"(gap)", "c"}, texts(found)); diff != "" {
		t.Errorf("resuming after a restart (-want +got):\n%s", diff)
	}
	again, _ := after.Kept(found[0].ID)
	if diff := cmp.Diff([]string{"c"}, texts(again)); diff != "" {
		t.Errorf("resuming from the gap (-want +got):\n%s", diff)
	}
}

// follow calls f for every event of a log until ctx ends, as readers that follow it do.
func follow(ctx context.Context, l *Log, f func(gpu.Event)) {
	for after := uint64(0); ; {
		found, more := l.Kept(after)
		for _, e := range found {
			f(e)
			after = e.ID
		}
		select {
		case <-ctx.Done():
			return
		case <-more:
		}
	}
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(10, start)
		publish(l, "a")
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			follow(ctx, l, func(e gpu.Event) { got = append(got, e.Text) })
		}()
		synctest.Wait()
		publish(l, "b", "c")
		synctest.Wait()
		cancel()
		<-done
		if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
			t.Errorf("followed (-want +got):\n%s", diff)
		}
	})
}

// A reader that does not read holds nothing up: publishing ten rings' worth
// beside it ends, and it is then told that it missed something.
func TestSlowReaderMissesInsteadOfBlocking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(4, start)
		ctx, cancel := context.WithCancel(t.Context())
		reading, read := make(chan struct{}), make(chan struct{})
		var got []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			follow(ctx, l, func(e gpu.Event) {
				got = append(got, texts([]gpu.Event{e})...)
				if len(got) == 1 {
					close(reading)
					<-read
				}
			})
		}()
		publish(l, "first")
		<-reading
		for range 40 {
			publish(l, "x")
		}
		close(read)
		synctest.Wait()
		cancel()
		<-done
		if diff := cmp.Diff([]string{"first", "(gap)", "x", "x", "x", "x"}, got); diff != "" {
			t.Errorf("slow reader saw (-want +got):\n%s", diff)
		}
	})
}
