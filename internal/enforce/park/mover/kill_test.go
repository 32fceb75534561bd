package mover_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/lease"
)

// program is one that asks for a lease until it has it, and runs then.
type program struct {
	id     string
	memory gpu.MiB
	lease  atomic.Pointer[lease.Lease]
	quit   context.CancelFunc
	over   chan struct{}
}

// launch starts a program. It asks every daemon that comes.
func (w *world) launch(id string, memory gpu.MiB, change ...func(*lease.Request)) *program {
	ctx, quit := context.WithCancel(context.WithoutCancel(w.Context()))
	p := &program{id: id, memory: memory, quit: quit, over: make(chan struct{})}
	go func() {
		defer close(p.over)
		for ctx.Err() == nil {
			r := request(id, memory, change...)
			book := w.current().book
			l, err := book.Acquire(ctx, r)
			if held, found := book.Find(r.Key()); err != nil && found && errors.Is(err, lease.ErrDuplicate) && held.State == lease.Active {
				l.Lease, err = held.Lease, nil // a daemon that was killed could not answer
			}
			if err == nil && !w.current().dead.Load() {
				w.beginAs(r.Holder.UID, id, l.Fence, memory)
				p.lease.Store(l.Lease)
				return
			}
			wait(ctx, time.Second)
		}
	}()
	synctest.Wait()
	return p
}

// end ends a program and its lease.
func (w *world) end(p *program) {
	p.quit()
	<-p.over
	l := p.lease.Load()
	if l == nil {
		return
	}
	for _, proc := range w.of(l.Fence) {
		w.End(proc.PID)
	}
	for !w.ends(l) {
		time.Sleep(time.Second)
		w.revive()
	}
}

// ends ends a lease, as the end of its process would.
func (w *world) ends(l *lease.Lease) bool {
	held, found := w.now.book.Find(l.Key())
	if !found || held.Fence != l.Fence {
		return true
	}
	return w.now.book.Revoke(w.Context(), l.Key(), l.Fence, "it ended", nil) == nil && !w.now.dead.Load()
}

// revive starts a new daemon if the present one was killed.
func (w *world) revive() {
	if w.now.dead.Load() {
		w.restart()
	}
}

// run lets time pass, and starts a new daemon whenever one was killed.
func (w *world) run(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(time.Second)
		w.revive()
	}
}

// The daemon is killed at every step of parking and of resuming, and between any two
// of them. Nothing is lost, and everybody gets their turn.
func TestKilledAtEveryStep(t *testing.T) {
	points := []string{
		"before Park", "after Park", "before Return", "after Return",
		"tell lease_parking", "tell lease_parked", "tell lease_resuming", "tell lease_resumed",
	}
	for _, step := range move.Steps() {
		for _, when := range []string{"die before", "die within", "die after"} {
			points = append(points, when+" "+string(step))
		}
	}
	for _, point := range points {
		for nth := 1; nth <= 2; nth++ {
			t.Run(point, func(t *testing.T) {
				inWorld(t, 100*gib, func(t *testing.T, w *world) {
					var seen, killed atomic.Int32
					w.set(func() {
						w.point = func(name string) {
							if name == point && seen.Add(1) == int32(nth) {
								killed.Add(1)
								w.current().die()
							}
						}
					})
					w.plan(func(step move.Step) string {
						for _, when := range []string{"die before", "die within", "die after"} {
							if when+" "+string(step) == point && seen.Add(1) == int32(nth) {
								killed.Add(1)
								return when
							}
						}
						return ""
					})
					a, b := w.launch("a", 60*gib), w.launch("b", 60*gib)
					w.run(25 * time.Minute)
					if killed.Load() != 1 {
						t.Fatalf("the daemon was killed %d times", killed.Load())
					}
					for _, p := range []*program{a, b} {
						if l := p.lease.Load(); l == nil || w.now.Counts().Turns == 0 {
							t.Fatalf("%s has no lease, or there were no turns", p.id)
						}
					}
					w.settled(a, b)
					w.end(b)
					w.run(5 * time.Minute)
					w.active(a.lease.Load())
				})
			})
		}
	}
}

// settled waits until nothing moves, and fails unless every lease and its processes
// are one thing: active, or parked and about to return.
func (w *world) settled(programs ...*program) {
	w.Helper()
	for range 600 {
		synctest.Wait() // for what begins to move in this moment
		moves := false
		for _, p := range programs {
			if l := p.lease.Load(); l != nil {
				s, _ := w.now.Of(l.Fence)
				moves = moves || s.Phase == move.Parking || s.Phase == move.Resuming
			}
		}
		if !moves {
			break
		}
		w.run(time.Second)
	}
	for _, p := range programs {
		l := p.lease.Load()
		if l == nil || w.state(l) == "" {
			continue
		}
		if w.state(l) == lease.Parked {
			w.parked(l)
		} else {
			w.active(l)
		}
	}
}

// Whatever a helper process does at any step, the lease is parked or active
// afterwards, and never something between.
func TestHelperFailsAtEveryStep(t *testing.T) {
	for _, step := range move.Steps() {
		for _, fault := range []string{"hang", "break before", "break within", "break after", "refuse", "deny"} {
			t.Run(string(step)+" "+fault, func(t *testing.T) {
				inWorld(t, 100*gib, func(t *testing.T, w *world) {
					a := w.launch("a", 60*gib)
					w.run(time.Second)
					var failed atomic.Bool
					w.plan(func(s move.Step) string {
						if s == step && !failed.Swap(true) {
							return fault
						}
						return ""
					})
					l := a.lease.Load()
					parked := w.now.Park(t.Context(), l.Key(), l.Fence, byU, "", false)
					w.settled(a)
					if (parked == nil) != (w.state(l) == lease.Parked) {
						t.Fatalf("%v, and it is %s", parked, w.state(l))
					}
					if parked != nil {
						w.run(time.Hour)
						w.active(l)
						if s, _ := w.now.Of(l.Fence); s.Failed == "" {
							t.Errorf("its status says nothing: %+v", s)
						}
						return
					}
					if err := w.now.Resume(t.Context(), l.Key(), l.Fence, byU, "", forever); err != nil {
						t.Fatal(err)
					}
					w.active(l)
					if !failed.Load() {
						t.Error("nothing failed")
					}
				})
			})
		}
	}
}
