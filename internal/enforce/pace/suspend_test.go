package pace

import (
	"testing"

	"github.com/berth-gpu/berth/internal/process"
)

// A lease that is suspended runs when Suspend returns, and is not stopped until it
// is released as often as it was suspended.
func TestSuspend(t *testing.T) {
	p := spin(t)
	r := newRig(t, &book{lease: someLease(), members: []process.ID{p.id}}, "")
	if err := r.hold(0.5); err != nil {
		t.Fatal(err)
	}
	until(t, "it is stopped", func() bool { return stopped(t, p.id) })
	r.Suspend(7)
	r.Suspend(7)
	if stopped(t, p.id) {
		t.Error("it is stopped after Suspend")
	}
	r.Continue(7)
	r.mu.Lock()
	l := r.leases[7]
	r.mu.Unlock()
	for range 3 { // what a cycle does
		if why := r.pause(t.Context(), l, r.Leases.Lease(l.Key, l.Fence), Cycle{Pause: LongestPause}); why != "" || stopped(t, p.id) {
			t.Fatalf("it is stopped, or refused: %q", why)
		}
	}
	r.Continue(7)
	until(t, "it is stopped again", func() bool { return stopped(t, p.id) })
}
