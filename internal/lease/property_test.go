package lease

import (
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease/stored"
	"pgregory.net/rapid"
)

// check runs a property over random histories.
func check(t *testing.T, property func(h *history)) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) { property(newHistory(t)) })
}

func TestMemoryIsNeverSoldTwice(t *testing.T) {
	check(t, func(h *history) {
		h.after = func(h *history, e Effect, before map[string]gpu.MiB) {
			if e.Kind != Granted && e.Kind != Resumed && e.Kind != Resized {
				return
			}
			for i, p := range e.After.Parts {
				if e.Kind == Resized && p.Memory <= e.Before.Parts[i].Memory {
					continue // it gave back
				}
				// Observations may have taken a device below zero; a sale never does.
				// Only what was on the device already can be put under a lease then.
				if now := h.toy.available(p.GPU); now < 0 && now != before[p.GPU] {
					h.Fatalf("%s of %s were sold with %s available", p.Memory, p.GPU, before[p.GPU])
				}
			}
		}
		h.run(60)
	})
}

func TestSlotsAreNeverExceeded(t *testing.T) {
	check(t, func(h *history) {
		h.after = func(h *history, e Effect, _ map[string]gpu.MiB) {
			if e.Kind != Granted && e.Kind != Resumed {
				return
			}
			for _, p := range e.After.Parts {
				if n := h.toy.active(p.GPU); p.Slots > 0 && n > h.toy.capacity[p.GPU].Usable {
					h.Fatalf("%d of %d slots of %s are in use", n, h.toy.capacity[p.GPU].Usable, p.GPU)
				}
			}
		}
		h.run(60)
	})
}

func TestFencesOnlyGrow(t *testing.T) {
	check(t, func(h *history) {
		var last uint64
		h.after = func(h *history, e Effect, _ map[string]gpu.MiB) {
			switch {
			case e.Kind == Granted && e.After.Fence <= last:
				h.Fatalf("fence %d was given after %d", e.After.Fence, last)
			case e.Kind == Granted:
				last = e.After.Fence
			case e.Before != nil && e.After != nil && e.Before.Fence != e.After.Fence:
				h.Fatalf("%s changed the fence", e.Kind)
			}
		}
		h.run(60)
	})
}

func TestEveryRequestEnds(t *testing.T) {
	check(t, func(h *history) {
		h.run(60)
		h.now = h.now.Add(MaxWait)
		h.due()
		if _, waiting := h.book.Len(); waiting != 0 || len(h.book.Waiting()) != 0 {
			h.Fatalf("%d still wait", waiting)
		}
		for _, e := range h.effects {
			if _, ended := h.ended[e.Request]; e.Kind == Asked && !ended {
				h.Fatalf("request %s never ended", e.Request.ID)
			}
		}
	})
}

func TestReplayGivesTheSameBook(t *testing.T) {
	check(t, func(h *history) {
		h.run(60)
		again := New()
		for _, line := range h.journal {
			r, err := stored.Decode(line)
			if err != nil {
				h.Fatal(err)
			}
			if err := again.Replay(&r); err != nil {
				h.Fatal(err)
			}
		}
		if err := again.Check(); err != nil {
			h.Fatal(err)
		}
		if a, b := h.book.Dump(), again.Dump(); a != b {
			h.Fatalf("the book is\n%s\nand its replay\n%s", a, b)
		}
		compacted := New()
		replayText(h, compacted, h.book.Dump())
		if a, b := h.book.Dump(), compacted.Dump(); a != b {
			h.Fatalf("the book is\n%s\nand its compacted replay\n%s", a, b)
		}
	})
}

// What could not be written down is taken back, and it is as if it had not
// happened, except for the fences.
func TestRevertTakesBack(t *testing.T) {
	check(t, func(h *history) {
		h.run(30)
		before, fence, waiting := h.book.Dump(), h.book.Fence(), len(h.toy.waiting)
		var sums [toyDevices]gpu.MiB
		for i := range sums {
			sums[i] = h.toy.available(dev(i))
		}
		h.effects = nil
		for range 10 {
			switch h.draw("step", 0, 13) {
			case 0:
				h.grant(h.drawRequest(), false)
			case 1:
				h.end()
			case 2:
				h.renew()
			case 3:
				h.ask(h.drawRequest())
			case 4:
				h.bind()
			case 5:
				h.resize()
			case 6:
				h.imply()
			case 7:
				h.child()
			case 8:
				h.park()
			case 9:
				h.want()
			case 10:
				h.shrink()
			case 11:
				h.cancel()
			case 12:
				h.rescope()
			case 13:
				h.claim()
			}
		}
		// Measurements of a lease that ended are gone until the next one.
		measured := false
		for _, e := range h.effects {
			measured = measured || e.After == nil && e.Before != nil
		}
		h.book.Revert(h.effects...)
		if err := h.book.Check(); err != nil {
			h.Fatal(err)
		}
		h.book.fence = fence
		if after := h.book.Dump(); after != before {
			h.Fatalf("the book was\n%s\nand is\n%s", before, after)
		}
		if _, n := h.book.Len(); n != waiting {
			h.Fatalf("%d waited, and now %d", waiting, n)
		}
		for i := range sums {
			if s, _ := h.book.Sum(dev(i)); !measured && s.Available() != sums[i] {
				h.Fatalf("%s had %s and has %s", dev(i), sums[i], s.Available())
			}
		}
	})
}
