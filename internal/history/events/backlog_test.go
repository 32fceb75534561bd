package events

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
)

// toy does what a Backlog does, in the simplest way.
type toy struct {
	limits Limits
	events []gpu.Event
	gone   []uint64
}

func (m *toy) part(e gpu.Event) string {
	user, owned := Owner(&e)
	switch {
	case !e.Severity.AtLeast(gpu.Warning):
		return "notes."
	case !owned:
		return "daemon."
	}
	return "user " + user + "."
}

// sums returns how many events there are whose part begins with prefix, and how
// many bytes they take.
func (m *toy) sums(prefix string) (count, bytes int) {
	for _, e := range m.events {
		if strings.HasPrefix(m.part(e), prefix) {
			count++
			bytes += memoryOf(&e)
		}
	}
	return count, bytes
}

func (m *toy) drop(part string) {
	i := slices.IndexFunc(m.events, func(e gpu.Event) bool { return m.part(e) == part })
	m.gone = append(m.gone, m.events[i].ID)
	m.events = slices.Delete(m.events, i, i+1)
}

func (m *toy) shrink(part string, most int) {
	for {
		count, bytes := m.sums(part)
		if count <= most && (bytes <= m.limits.Bytes || count == 1) {
			return
		}
		m.drop(part)
	}
}

func (m *toy) largest() string {
	parts := []string{}
	for _, e := range m.events {
		if part := m.part(e); strings.HasPrefix(part, "user ") && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return slices.MaxFunc(parts, func(a, b string) int { // the first of those that are equal
		_, x := m.sums(a)
		_, y := m.sums(b)
		return cmp.Compare(x, y)
	})
}

func (m *toy) add(e gpu.Event) {
	m.events = append(m.events, e)
	switch part := m.part(e); part {
	case "notes.":
		m.shrink(part, m.limits.Notes)
	case "daemon.":
		m.shrink(part, m.limits.Warnings)
	default:
		m.shrink(part, m.limits.Share)
		for {
			count, bytes := m.sums("user ")
			if count <= m.limits.Warnings && (bytes <= m.limits.Bytes || count == 1) {
				return
			}
			m.drop(m.largest())
		}
	}
}

func drawEvent(t *rapid.T, id uint64) gpu.Event {
	return gpu.Event{
		ID: id, Severity: rapid.SampledFrom([]gpu.Severity{gpu.Note, gpu.Warning, gpu.Serious}).Draw(t, "severity"),
		User: rapid.SampledFrom([]string{"", "", "ada", "bob", "eve"}).Draw(t, "user"),
		Code: rapid.SampledFrom([]gpu.EventCode{gpu.EventExpired, gpu.EventForeignUse}).Draw(t, "code"),
		Text: strings.Repeat("x", rapid.SampledFrom([]int{0, 1, 300, 900}).Draw(t, "length")),
	}
}

func ids(events []gpu.Event) []uint64 {
	list := []uint64{}
	for _, e := range events {
		list = append(list, e.ID)
	}
	return list
}

func TestKeepsWhatTheToyKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{
			Notes: rapid.IntRange(1, 5).Draw(t, "notes"), Warnings: rapid.IntRange(1, 6).Draw(t, "warnings"),
			Share: rapid.IntRange(1, 4).Draw(t, "share"), Bytes: rapid.IntRange(1, 6000).Draw(t, "bytes"),
		}
		model, gone, id := &toy{limits: limits}, []uint64(nil), uint64(100)
		b := NewBacklog(limits, func(e gpu.Event) { gone = append(gone, e.ID) })
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if rapid.IntRange(0, 5).Draw(t, "take") == 0 {
				first, any := b.Oldest()
				got, found := b.Take()
				if found != (len(model.events) > 0) || any != found || first.ID != got.ID || found && got.ID != model.events[0].ID {
					t.Fatalf("took %d, %v; the toy has %v", got.ID, found, ids(model.events))
				}
				if found {
					model.events = model.events[1:]
				}
				continue
			}
			id += uint64(rapid.IntRange(1, 3).Draw(t, "step"))
			e := drawEvent(t, id)
			b.Add(&e, e)
			model.add(e)
			after := uint64(rapid.IntRange(0, int(id)+2).Draw(t, "after"))
			want := slices.DeleteFunc(ids(model.events), func(id uint64) bool { return id <= after })
			if diff := gocmp.Diff(want, ids(all(b, after))); diff != "" {
				t.Fatalf("after %d (-toy +backlog):\n%s", after, diff)
			}
			if diff := gocmp.Diff(model.gone, gone); diff != "" {
				t.Fatalf("displaced (-toy +backlog):\n%s", diff)
			}
		}
	})
}

// 4,200 ordinary calls in half a second once pushed out every warning.
func TestNobodyDisplacesWhatIsNotTheirs(t *testing.T) {
	limits := Limits{Notes: 64, Warnings: 64, Share: 16, Bytes: 1 << 20}
	b := NewBacklog(limits, func(gpu.Event) {})
	id := uint64(0)
	add := func(e gpu.Event) {
		id++
		e.ID = id
		b.Add(&e, e)
	}
	add(gpu.Event{Code: gpu.EventDeviceLost, Severity: gpu.Serious, Text: "device"})
	add(gpu.Event{Code: gpu.EventExpired, Severity: gpu.Warning, User: "ada", Text: "of ada"})
	add(gpu.Event{Code: gpu.EventExpired, Severity: gpu.Warning, Lease: "old", Text: "of nobody known"})
	for i := range 10_000 {
		add(gpu.Event{Code: gpu.EventGranted, Severity: gpu.Note, User: "eve"})
		add(gpu.Event{Code: gpu.EventExpired, Severity: gpu.Warning, User: "eve", Text: strings.Repeat("x", 1000)})
		add(gpu.Event{Code: gpu.EventForeignUse, Severity: gpu.Warning, User: fmt.Sprintf("eve%d", i%3)})
	}
	var kept []string
	for _, e := range all(b, 0) {
		if strings.HasPrefix(e.Text, "of ") || e.Text == "device" {
			kept = append(kept, e.Text)
		}
	}
	if diff := gocmp.Diff([]string{"device", "of ada", "of nobody known"}, kept); diff != "" {
		t.Errorf("still kept (-want +got):\n%s", diff)
	}
	if n := len(all(b, 0)); n > 64+64+64 {
		t.Errorf("%d events are kept", n)
	}
	if len(b.slots) > 4*limits.Notes+128+64 {
		t.Errorf("%d slots for %d events", len(b.slots), b.kept)
	}
}

func TestSize(t *testing.T) {
	small := memoryOf(&gpu.Event{Text: "a"})
	long := strings.Repeat("x", 100)
	for name, data := range map[string]map[string]any{
		"key": {long: 1}, "text": {"a": long}, "named": {"a": gpu.State(long)}, "list": {"a": []string{long}},
		"any list": {"a": []any{long}}, "map": {"a": map[string]any{"b": long}},
	} {
		if got := memoryOf(&gpu.Event{Text: "a", Data: data}); got < small+100 {
			t.Errorf("%s: %d bytes, and %d without", name, got, small)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	log := NewBacklog(Limits{Notes: 4096, Warnings: 4096, Share: 256, Bytes: 4 << 20}, func(gpu.Event) {})
	e := gpu.Event{Severity: gpu.Note, Text: "train-7 holds 8192 MiB", Data: map[string]any{"fence": uint64(17), "memory_mb": int64(8192), "slots": 1}}
	b.ReportAllocs()
	for b.Loop() {
		e.ID++
		log.Add(&e, e)
	}
}

// all is everything that is kept after an id.
func all[T any](b *Backlog[T], after uint64) []T {
	found, _ := b.After(after, math.MaxInt)
	return found
}

func TestAfterIsLimited(t *testing.T) {
	b := NewBacklog[uint64](Limits{Notes: 8, Warnings: 8, Share: 8, Bytes: 1 << 20}, func(uint64) {})
	for id := range uint64(20) {
		b.Add(&gpu.Event{ID: id + 1}, id+1)
	}
	for _, c := range []struct {
		after uint64
		most  int
		first uint64
		found int
		all   int
	}{{0, 3, 13, 3, 8}, {15, 3, 16, 3, 5}, {18, 3, 19, 2, 2}, {20, 3, 0, 0, 0}} {
		found, all := b.After(c.after, c.most)
		if len(found) != c.found || all != c.all || len(found) > 0 && found[0] != c.first {
			t.Errorf("after %d: %v of %d", c.after, found, all)
		}
	}
}
