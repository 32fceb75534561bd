package pace

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// nest has a lease and a child of it, each with one process.
type nest struct {
	book
	outer, inner *lease.Lease
	launcher     process.ID
	worker       process.ID
}

func (n *nest) Lease(_ lease.Key, fence uint64) *lease.Lease {
	switch fence {
	case n.outer.Fence:
		return n.outer
	case n.inner.Fence:
		return n.inner
	}
	return nil
}

func (n *nest) Family(_ lease.Key, fence uint64) []process.ID {
	if fence == n.outer.Fence {
		return []process.ID{n.launcher, n.worker}
	}
	return []process.ID{n.worker}
}

// A child that is held like its parent stops in the cycles of one of them alone: in those of
// the lower share, or of the parent.
func TestNestedLeasesStopOnce(t *testing.T) {
	orders := filepath.Join(t.TempDir(), "orders")
	t.Setenv("PACER_ORDERS", orders)
	n := &nest{outer: someLease(), inner: someLease(), launcher: spin(t).id, worker: spin(t).id}
	n.inner.ID, n.inner.Fence, n.inner.Parent, n.inner.ParentFence = "worker", 8, n.outer.ID, n.outer.Fence
	p, _ := New(Options{Leases: n, Devices: noDevices{}, Event: func(gpu.Event) {}, Log: slog.New(slog.DiscardHandler), Guardian: guardianCommand(), Boot: "this"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hold := func(l *lease.Lease, share float64) {
		t.Helper()
		if err := p.Hold(Hold{Key: l.Key(), Fence: l.Fence, Share: share, Source: ByThrottle}); err != nil {
			t.Fatal(err)
		}
	}
	hold(n.outer, 0.5)
	hold(n.inner, 0.5)
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	for _, l := range []*lease.Lease{n.outer, n.inner} {
		until(t, "it has cycles", func() bool { told, _ := p.Of(l.Fence); return told.Cycles >= 2 })
	}
	p.mu.Lock()
	outer, inner := p.leases[7], p.leases[8]
	p.mu.Unlock()
	text, err := os.ReadFile(orders)
	if err != nil || !strings.Contains(string(text), `"lease":7,`) || strings.Contains(string(text), `"lease":8,`) {
		t.Errorf("ordered: %s, %v", text, err)
	}
	if inner.stoppedFor() == 0 {
		t.Error("nothing makes up for the time that the child is stopped")
	}
	for _, c := range []struct {
		outer, inner float64
		with         uint64 // in whose cycles the worker stops
	}{{0.5, 0.5, 7}, {0.3, 0.5, 7}, {0.5, 0.3, 8}} {
		hold(n.outer, c.outer)
		hold(n.inner, c.inner)
		for _, l := range []*paced{outer, inner} {
			list, _ := p.elsewhere(l, n.Lease(lease.Key{}, l.Fence))
			if list[n.worker] == (l.Fence == c.with) || l == outer && list[n.launcher] {
				t.Errorf("%+v: of lease %d these stop with another one: %v", c, l.Fence, list)
			}
		}
	}
	cancel()
	<-done
}
