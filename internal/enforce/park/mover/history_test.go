package mover_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/lease"
)

// rounds is how often TestHistories lets rapid play histories for a day of simulated
// time.
var rounds = flag.Int("parking.histories", 1, "rounds of random histories of parked leases")

// undated hides the deadline of a test, which means nothing where time is not real.
type undated struct{ rapid.TB }

// history is a random history of a machine: programs come and go, people park and
// resume them, helpers fail, daemons are killed.
type history struct {
	*rapid.T
	*world
	programs map[string]*program
	asked    int
}

func (h *history) draw(name string, least, most int) int {
	return rapid.IntRange(least, most).Draw(h.T, name)
}

// some returns one of the programs that have a lease; nil: there is none.
func (h *history) some() *program {
	for id := range 5 { // in an order that can be repeated
		if p := h.programs[fmt.Sprintf("p%d", (id+h.draw("program", 0, 4))%5)]; p != nil && p.lease.Load() != nil {
			return p
		}
	}
	return nil
}

func (h *history) step() {
	d := h.now
	switch h.draw("step", 0, 15) {
	case 0, 1, 2:
		id := fmt.Sprintf("p%d", h.draw("id", 0, 4))
		if h.programs[id] == nil {
			parkable, priority := h.draw("parkable", 0, 5) > 0, h.draw("priority", 0, 1)
			h.programs[id] = h.launch(id, gpu.MiB(h.draw("memory", 10, 70))*gib, func(r *lease.Request) {
				r.Parkable, r.AskedPriority = parkable, gpu.Some(priority)
			})
		}
	case 3:
		if p := h.some(); p != nil {
			h.end(p)
			delete(h.programs, p.id)
		}
	case 4:
		if p := h.some(); p != nil {
			h.asked++
			go func() { _ = d.Park(context.Background(), p.lease.Load().Key(), p.lease.Load().Fence, byU, "", false) }()
		}
	case 5, 6:
		if p := h.some(); p != nil {
			h.asked++
			wait := gpu.Some(time.Duration(h.draw("wait", 0, 60)) * time.Second)
			go func() {
				_ = d.Resume(context.Background(), p.lease.Load().Key(), p.lease.Load().Fence, byU, "", wait)
			}()
		}
	case 7:
		if p := h.some(); p != nil {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(h.draw("patience", 0, 60))*time.Second)
			go func() { defer cancel(); _ = d.Wake(ctx, p.lease.Load().Key(), p.lease.Load().Fence) }()
		}
	case 8:
		if p := h.some(); p != nil {
			fence := p.lease.Load().Fence
			h.setMu.Lock()
			if _, idle := h.idle[fence]; idle {
				delete(h.idle, fence)
			} else {
				h.idle[fence] = time.Now().Add(-time.Minute)
			}
			h.setMu.Unlock()
		}
	case 9: // one of its processes dies
		if p := h.some(); p != nil {
			if list := h.of(p.lease.Load().Fence); len(list) > 0 {
				h.End(list[0].PID)
			}
		}
	case 10, 11:
		faults := []string{"hang", "break before", "break within", "break after", "refuse", "deny", "die before", "die within", "die after"}
		fault, after := rapid.SampledFrom(faults).Draw(h.T, "fault"), h.draw("after", 0, 3)
		h.faultMu.Lock()
		h.fault = func(move.Step) string {
			h.faultMu.Lock()
			defer h.faultMu.Unlock()
			if after--; after == -1 {
				return fault
			}
			return ""
		}
		h.faultMu.Unlock()
	case 12:
		if h.draw("killed", 0, 1) == 1 {
			d.die()
		}
		h.restart()
	default:
		h.run(time.Duration(h.draw("seconds", 1, 400)) * time.Second)
	}
	synctest.Wait()
	h.revive()
	h.check()
	h.whole()
}

// whole fails if the book has sold more than there is.
func (h *history) whole() {
	sold := gpu.MiB(0)
	for _, l := range h.now.book.View().Leases {
		if l.State == lease.Active {
			sold += l.Parts[0].Memory
		}
	}
	if sold > h.total {
		h.Fatalf("%s of %s are leased", sold, h.total)
	}
	if c := h.now.Counts(); c.Host > h.settings.ParkHost.Or(1<<40) {
		h.Fatalf("%s of the machine are taken, and %s may be", c.Host, h.settings.ParkHost.Or(0))
	}
}

// finish lets everything come to an end: then nobody is stuck.
func (h *history) finish() {
	h.faultMu.Lock()
	h.fault = func(move.Step) string { return "" }
	h.faultMu.Unlock()
	h.run(40 * time.Minute)
	h.check()
	var list []*program
	for _, p := range h.programs {
		list = append(list, p)
	}
	h.settled(list...)
	// They leave one after the other, and whoever has room then comes back.
	slices.SortFunc(list, func(a, b *program) int { return strings.Compare(a.id, b.id) })
	for i, p := range list {
		if l := p.lease.Load(); i == len(list)-1 {
			h.run(10 * time.Minute)
			if l = p.lease.Load(); l == nil {
				h.Fatalf("%s is alone, and was not granted its lease", p.id)
			}
			if s, _ := h.now.Of(l.Fence); h.state(l) == lease.Parked && !s.Returns { // by hand
				if err := h.now.Resume(context.Background(), l.Key(), l.Fence, byU, "", gpu.Some(time.Minute)); err != nil {
					h.Fatalf("resume %s: %v", l.ID, err)
				}
			}
			h.active(l)
		}
		h.end(p)
	}
	h.run(2 * time.Minute)
	if c := h.now.Counts(); c.Host != 0 || c.Parked != 0 {
		h.Fatalf("all programs have ended, and there is left %+v", c)
	}
	h.stop()
	synctest.Wait()
}

// Over all histories: memory is never sold twice while leases are parked, on their
// way or back; no process is lost; the memory of the machine is never taken beyond
// its limit; and no lease is stuck.
func TestHistories(t *testing.T) {
	folder := t.TempDir()
	for range *rounds {
		synctest.Test(t, func(t *testing.T) {
			rapid.Check(undated{t}, func(t *rapid.T) {
				w := newWorld(t, folder, 100*gib)
				w.set(func() { w.settings.ParkHost = gpu.Some[gpu.MiB](150 * gib) })
				h := &history{T: t, world: w, programs: map[string]*program{}}
				for range 40 - h.draw("shorter", 0, 30) {
					h.step()
				}
				h.finish()
			})
		})
	}
}

// Services of equal rank that do not fit together have the card for the same time
// each, give or take a slice, and each gets its turn before the others have had two.
func TestServicesTakeTurns(t *testing.T) {
	for _, x := range []struct{ n, users int }{{2, 1}, {4, 1}, {2, 2}, {3, 2}, {3, 3}} {
		n := x.n
		t.Run(fmt.Sprintf("%d services of %d users", n, x.users), func(t *testing.T) {
			inWorld(t, 100*gib, func(t *testing.T, w *world) {
				var all []*program
				for i := range n {
					all = append(all, w.launch(fmt.Sprintf("p%d", i), gpu.MiB(55+10*i)*gib, func(r *lease.Request) {
						r.Holder.UID = 1000 + i%x.users
						r.By.UID = r.Holder.UID
					}))
				}
				had, starts, on := map[string]int{}, map[string]int{}, ""
				const seconds = 2 * 3600
				for range seconds {
					time.Sleep(time.Second)
					for _, p := range all {
						if l := p.lease.Load(); l != nil && w.states(l.Fence)[move.Running] == 1 && w.state(l) == lease.Active {
							had[p.id]++
							if on != p.id {
								on = p.id
								starts[p.id]++
							}
						}
					}
					for _, p := range all {
						for _, q := range all {
							if starts[p.id] > starts[q.id]+1 {
								t.Fatalf("%s had %d turns, and %s %d", p.id, starts[p.id], q.id, starts[q.id])
							}
						}
					}
				}
				sum := 0
				for _, s := range had {
					sum += s
				}
				for id, s := range had {
					if s < sum/n-300 || s > sum/n+300 {
						t.Errorf("%s had the card for %d s of %d, of %d services", id, s, sum, n)
					}
				}
				if sum < seconds*3/4 {
					t.Errorf("the card was used for %d s of %d", sum, seconds)
				}
			})
		})
	}
}

// A service whose user has something else on the machine, and so a larger share than
// others, gets its turn as they do.
func TestNobodyStarves(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		w.launch("keep", 5*gib, func(r *lease.Request) { r.Parkable = false })
		var all []*program
		for i := range 3 {
			all = append(all, w.launch(fmt.Sprintf("p%d", i), gpu.MiB(55+10*i)*gib, func(r *lease.Request) { r.Holder.UID = 1000 + i; r.By.UID = 1000 + i }))
		}
		had := map[string]int{}
		for range 2 * 3600 {
			time.Sleep(time.Second)
			for _, p := range all {
				if l := p.lease.Load(); l != nil && w.states(l.Fence)[move.Running] == 1 && w.state(l) == lease.Active {
					had[p.id]++
				}
			}
		}
		for id, s := range had {
			if s < 1500 {
				t.Errorf("%s had the card for %d s of two hours: %v", id, s, had)
			}
		}
	})
}
