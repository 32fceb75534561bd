package mover_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/check"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/health/drains"
	"github.com/berth-gpu/berth/internal/lease"
)

// shutters counts for how long a device is closed.
type shutters struct {
	mu     sync.Mutex
	closed time.Duration
	since  time.Time // zero: it is open
}

// changed is called when the device is closed or opened.
func (s *shutters) changed(string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		s.since = time.Now()
		return
	}
	s.closed += time.Since(s.since)
	s.since = time.Time{}
}

func (s *shutters) total() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		return s.closed
	}
	return s.closed + time.Since(s.since)
}

// A user whose programs use more than they have leased, and do not come back because
// they are stopped, does not keep others from the device.
func TestHangingDoesNotCloseTheDevice(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		doors := &shutters{}
		w.now.Closures.Tell(drains.Hooks{Changed: doors.changed})
		var leases []*lease.Lease
		for i := range 2 {
			l := w.grant(fmt.Sprint("a", i), 1*gib)
			first := w.of(l.Fence)[0]
			w.with(func() { first.memory = 2 * gib })
			if err := w.now.Park(t.Context(), l.Key(), l.Fence, byU, "", false); err != nil {
				t.Fatal(err)
			}
			leases = append(leases, l)
		}
		w.plan(func(step move.Step) string {
			if step == move.Restore {
				return "hang"
			}
			return ""
		})
		var all sync.WaitGroup
		for _, l := range leases {
			all.Go(func() { _ = w.now.Resume(t.Context(), l.Key(), l.Fence, byU, "", forever) })
		}
		time.Sleep(time.Hour)
		if most, closed := 6*time.Minute, doors.total(); closed == 0 || closed > most {
			t.Errorf("in an hour it was closed for %v; want %v at most", closed, most)
		}
		told := w.now.told(gpu.EventResumed, "a0")
		if len(told) != 1 || told[0].Public != "a0 is not back on its device, and berth tries again" {
			t.Errorf("others are told %+v", told)
		}
		w.plan(func(move.Step) string { return "" })
		all.Wait()
		for _, l := range leases {
			w.active(l)
		}
	})
}

// A user with many leases does not have the daemon start a helper for each of them at
// once, and each has its turn.
func TestSessionsOfOneUser(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		var mu sync.Mutex
		now, most := 0, 0
		open := w.now.Open
		w.now.Open = func(ctx context.Context, on gpu.Device, awake bool) (check.Session, error) {
			s, err := open(ctx, on, awake)
			mu.Lock()
			defer mu.Unlock()
			now++
			most = max(most, now)
			return &counted{Session: s, closed: func() {
				mu.Lock()
				defer mu.Unlock()
				now--
			}}, err
		}
		var leases []*lease.Lease
		for i := range 40 {
			leases = append(leases, w.grant(fmt.Sprint("a", i), 1*gib, func(r *lease.Request) { r.Slots = 0 }))
		}
		var all sync.WaitGroup
		for _, l := range leases {
			all.Go(func() {
				if err := w.now.Park(t.Context(), l.Key(), l.Fence, byU, "", false); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, l := range leases {
			w.parked(l)
		}
		synctest.Wait()
		if most != 16 || now != 0 {
			t.Errorf("%d sessions at once, and %d are left; want 16 and none", most, now)
		}
	})
}

// counted is a session that says when it is closed.
type counted struct {
	check.Session
	once   sync.Once
	closed func()
}

func (c *counted) Close() error {
	c.once.Do(c.closed)
	return c.Session.Close()
}
