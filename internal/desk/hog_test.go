package desk

import (
	"context"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// A lease is in the way of those who could have its devices, and of nobody else.
func TestTroublesFindWhoIsInTheWay(t *testing.T) {
	o := open(t, "2xrtx-4090")
	by := self(t)
	devices := o.parts.Monitor.Readings()
	if _, err := o.Leases.Acquire(t.Context(), by, api.LeaseRequest{ID: "big", Memory: 20 << 10, GPU: gpu.Ref(devices[0].Device.UUID), Binding: "named", Timeout: gpu.Some(0.0)}); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Leases.Acquire(t.Context(), by, api.LeaseRequest{ID: "full", Memory: 20 << 10, GPU: gpu.Ref(devices[1].Device.UUID), Binding: "named", Timeout: gpu.Some(0.0)}); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{}, 2)
	defer func() { leave(); <-left; <-left }()
	waiting := make(chan struct{}, 2)
	o.listen(func(e gpu.Event) {
		if e.Code == gpu.EventWaiting {
			waiting <- struct{}{}
		}
	})
	defer o.listen(nil)
	for id, on := range map[string]gpu.Ref{"anywhere": "", "there": gpu.Ref(devices[1].Device.UUID)} {
		go func() {
			_, _ = o.Leases.Acquire(ctx, by, api.LeaseRequest{ID: id, Memory: 10 << 10, GPU: on, Binding: "named", Timeout: gpu.Some(3600.0)})
			left <- struct{}{}
		}()
		<-waiting
	}
	if found := o.Attention.Troubles(time.Now()).Hogs; len(found) != 0 {
		t.Errorf("at once: %+v", found)
	}
	found := o.Attention.Troubles(time.Now().Add(time.Hour)).Hogs
	if len(found) != 2 {
		t.Fatalf("after an hour: %+v", found)
	}
	for _, h := range found {
		if want := map[string]int{"big": 1, "full": 2}[h.ID]; len(h.Waiting) != want {
			t.Errorf("%d wait for what %s holds, want %d", len(h.Waiting), h.ID, want)
		}
	}
}

// What leases have taken from a pool is in use, whatever they do with it.
func TestUnusedPool(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		pool api.Pool
		want string
	}{
		{api.Pool{Left: 20 << 10}, "has nobody who takes from it"},
		{api.Pool{Taken: 4 << 10, Left: 16 << 10, Leases: 1}, "has given out 4 GiB of its 20 GiB"},
		{api.Pool{Taken: 8 << 10, Left: 12 << 10, Leases: 1}, ""},
	} {
		l := api.Lease{
			ID: "render", State: "active", Granted: now.Add(-time.Hour), Parts: []api.LeasePart{{GPU: "GPU-0", Memory: 20 << 10}}, Pool: &c.pool,
			Idle: &api.Idle{Since: now.Add(-time.Hour)},
		}
		if got := Unused(&l, 0, now); got != c.want {
			t.Errorf("%+v: %q, want %q", c.pool, got, c.want)
		}
		if next := hogNext(&Hog{Lease: l, Yours: true}, now); c.pool.Taken > 0 && next != resizeTo("render", c.pool.Taken+c.pool.Taken/4+1) && c.want != "" {
			t.Errorf("%+v: %s", c.pool, next)
		}
	}
}
