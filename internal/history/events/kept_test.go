package events

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
)

// A reader gets what is kept after its id, in order, and a gap before it
// exactly when something after its id is not kept.
func TestGapExactlyWhenSomethingIsMissed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLog(Limits{Notes: 3, Warnings: 4, Share: 2, Bytes: 3000}, start)
		gone, last := map[uint64]bool{}, uint64(start.UnixMicro()-1)
		l.Attach(func(e *Entry) {
			if e.ID() != last+1 {
				t.Fatalf("id %d comes after %d", e.ID(), last)
			}
			last = e.ID()
		}, func(e *Entry) { gone[e.ID()] = true })
		for range rapid.IntRange(0, 30).Draw(t, "events") {
			l.Publish(gpu.Event{
				Time: start, User: rapid.SampledFrom([]string{"", "ada", "bob", "eve"}).Draw(t, "user"),
				Severity: rapid.SampledFrom([]gpu.Severity{gpu.Note, gpu.Note, gpu.Warning}).Draw(t, "severity"),
			})
		}
		after := uint64(rapid.IntRange(990, 1035).Draw(t, "after"))
		want, missed := []uint64{}, after > last || after < 999 // 999 is the one before the first
		for id := uint64(1000); id <= last; id++ {
			if id > after || after > last {
				missed = missed || gone[id]
				if !gone[id] {
					want = append(want, id)
				}
			}
		}
		found, _ := l.Kept(after)
		if gap := len(found) > 0 && found[0].Code == gpu.EventGap; gap != missed {
			t.Fatalf("after %d of %d, gap is %v; displaced %v", after, last, gap, gone)
		}
		resume := after
		if missed {
			resume, found = found[0].ID, found[1:]
		}
		got := []uint64{}
		for _, e := range found {
			got = append(got, e.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("after %d (-want +got):\n%s", after, diff)
		}
		again, _ := l.Kept(resume)
		again = slices.DeleteFunc(again, func(e gpu.Event) bool { return e.Code == gpu.EventGap })
		if len(again) != len(want) {
			t.Fatalf("resuming from the gap loses some: %d of %d", len(again), len(want))
		}
	})
}

// 4,200 notes in half a second once pushed out the loss of a device.
func TestNotesDoNotDisplaceWarnings(t *testing.T) {
	l := New(4096, start)
	l.Publish(gpu.Event{Code: gpu.EventDeviceLost, Severity: gpu.Serious, GPU: "GPU-a", Text: "lost"})
	for range 5000 {
		l.Publish(gpu.Event{Code: gpu.EventGranted, Severity: gpu.Note, Lease: "x", User: "eve", Text: "noise"})
		l.Publish(gpu.Event{Code: gpu.EventExpired, Severity: gpu.Warning, Lease: "x", User: "eve", Text: "noise"})
	}
	found, _ := l.Kept(0)
	if found[0].Text != "lost" || len(found) != 1+4096+share {
		t.Errorf("%d are kept, the first is %q", len(found), found[0].Text)
	}
}

func TestOnlyEarlyLossesCount(t *testing.T) {
	l := New(1, start)
	lost := 0
	l.Attach(nil, func(*Entry) { lost++ })
	l.Publish(gpu.Event{Time: start, Severity: gpu.Note})
	l.Publish(gpu.Event{Time: start.Add(early), Severity: gpu.Note})
	if lost != 0 {
		t.Error("an event that was kept for long counts as lost")
	}
	l.Publish(gpu.Event{Time: start.Add(early + time.Second), Severity: gpu.Note})
	if lost != 1 {
		t.Error("an event that was displaced at once does not count as lost")
	}
}

func TestOneEncodingForAllReaders(t *testing.T) {
	l := New(4*recent, start)
	l.Publish(gpu.Event{Severity: gpu.Note, Text: "secret", Public: "public"})
	entries, _ := l.Entries(0, math.MaxInt)
	first := entries[0]
	var shown atomic.Int32
	hide := func(e gpu.Event) gpu.Event {
		shown.Add(1)
		e.Text = e.Public
		return e
	}
	for range 3 {
		whole := first.JSON(0, nil)
		if want, _ := json.Marshal(first.Event()); !bytes.Equal(whole, want) {
			t.Errorf("whole: %s", whole)
		}
		if hidden := first.JSON(1, hide); bytes.Contains(hidden, []byte("secret")) {
			t.Errorf("hidden: %s", hidden)
		}
	}
	if n := shown.Load(); n != 1 {
		t.Errorf("encoded %d times for three readers", n)
	}
	for range recent {
		l.Publish(gpu.Event{Severity: gpu.Note})
	}
	if text := first.JSON(1, hide); bytes.Contains(text, []byte("secret")) || first.encoded[0].Load() != nil || first.encoded[1].Load() != nil {
		t.Errorf("an old entry remembers its encoding: %s", text)
	}
}

func BenchmarkPublish(b *testing.B) {
	l := New(4096, start)
	b.ReportAllocs()
	for b.Loop() {
		l.Publish(gpu.Event{
			Time: start, Code: gpu.EventGranted, Severity: gpu.Note, GPU: "GPU-a", Lease: "train-7", User: "ada", Text: "train-7 holds 8192 MiB",
		})
	}
}

func BenchmarkKeptALittleBehind(b *testing.B) {
	l := New(4096, start)
	for range 10_000 {
		l.Publish(gpu.Event{Time: start, Severity: gpu.Note})
	}
	b.ReportAllocs()
	for b.Loop() {
		l.Kept(l.next - 5)
	}
}

// The sentence of a late event is made for its first reader, once, within bounds, and
// never for an event that nobody reads.
func TestLateEvents(t *testing.T) {
	l := New(2, start)
	made := map[string]int{}
	l.Attach(func(e *Entry) {
		if e.Head().Lease == "hooked" && e.Event().Text != "hooked holds 1 GiB" {
			t.Errorf("a hook gets %+v", e.Event())
		}
	}, nil)
	for _, lease := range []string{"displaced", "hooked", "read"} {
		l.PublishLate(gpu.Event{Code: gpu.EventGranted, Severity: gpu.Note, Lease: lease}, func(e *gpu.Event) {
			made[lease]++
			e.Text, e.Data = lease+" holds 1 GiB", map[string]any{"long": strings.Repeat("x", 2*gpu.MaxEventJSON), "slots": 2}
		})
	}
	for range 2 {
		found, _ := l.Kept(0)
		if len(found) != 2 || found[1].Text != "read holds 1 GiB" || found[1].Data["slots"] != 2 || len(found[1].Data["long"].(string)) > gpu.MaxEventJSON {
			t.Errorf("%+v", found)
		}
	}
	if diff := cmp.Diff(map[string]int{"hooked": 1, "read": 1}, made); diff != "" {
		t.Errorf("sentences made (-want +got):\n%s", diff)
	}
}

func TestLateEventsHaveManyReaders(t *testing.T) {
	l := New(64, start)
	var made atomic.Int32
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for len(l.mustText(t)) < 64 {
			}
		})
	}
	for range 200 {
		l.PublishLate(gpu.Event{Time: start, Severity: gpu.Note}, func(e *gpu.Event) { e.Text = "a"; made.Add(1) })
	}
	readers.Wait()
	if n := made.Load(); n < 64 || n > 200 {
		t.Errorf("%d sentences for 200 events, of which 64 are kept", n)
	}
}

// mustText returns the sentences of all kept events.
func (l *Log) mustText(t *testing.T) []string {
	found, _ := l.Kept(0)
	if i := slices.IndexFunc(found, func(e gpu.Event) bool { return e.Text == "" }); i >= 0 {
		t.Errorf("%+v has no sentence", found[i])
	}
	return texts(found)
}
