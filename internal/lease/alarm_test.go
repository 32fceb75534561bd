package lease

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestAlarms holds the heap against a plain list.
func TestAlarms(t *testing.T) {
	noon := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		var h alarms
		var all []*alarm
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			at := noon.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "at")) * time.Second)
			switch step := rapid.IntRange(0, 3).Draw(t, "step"); {
			case step < 2 || len(all) == 0:
				a := &alarm{at: at}
				h.add(a)
				all = append(all, a)
			case step == 2:
				h.move(all[rapid.IntRange(0, len(all)-1).Draw(t, "which")], at)
			default:
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				h.remove(all[i])
				h.remove(all[i]) // nothing happens
				if all[i].isSet() {
					t.Fatal("a removed alarm is set")
				}
				all = slices.Delete(all, i, i+1)
			}
			due := 0
			for _, a := range all {
				if !a.at.After(at) {
					due++
				}
			}
			if got := h.due(at); len(got) != due || slices.ContainsFunc(got, func(a *alarm) bool { return a.at.After(at) || !slices.Contains(all, a) }) {
				t.Fatalf("%d are due, and %d should be", len(got), due)
			}
			next, any := h.next()
			if !h.ordered() || any != (len(all) > 0) || slices.ContainsFunc(all, func(a *alarm) bool { return a.at.Before(next) || !a.isSet() }) {
				t.Fatalf("%s is said to be the next", next)
			}
		}
	})
}
