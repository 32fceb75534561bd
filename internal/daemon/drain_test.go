package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
)

// world is a daemon in simulated time, without its doors.
type world struct {
	*Daemon
	*client.Client
	begun time.Time
	stop  func()
}

// live opens a daemon and runs what a drain and a check need of it.
func (p *place) live(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	d := p.open(t, ctx)
	c := d.inside(t)
	var running parts
	running.run("monitor", func() { _ = d.monitor.Run(ctx) })
	running.run("ledger", func() { _ = d.ledger.Run(ctx) })
	running.run("drains", func() { d.drains.Run(ctx) })
	running.run("checks", func() { d.checkup.Run(ctx) })
	running.run("standings", func() { d.part("quarantine").do(ctx) })
	return &world{d, c, time.Now(), func() { cancel(); running.wait(time.Hour); _ = d.Close() }}
}

// codes returns the codes of the events about devices.
func (w *world) codes() (list []gpu.EventCode) {
	events, _ := w.events.Kept(0)
	for _, e := range events {
		if e.GPU != "" {
			list = append(list, e.Code)
		}
	}
	return list
}

// refusal returns why the daemon does not lease memory of a device.
func (w *world) refusal(t *testing.T, ref gpu.Ref) string {
	t.Helper()
	id := fmt.Sprintf("try-%d", time.Now().UnixNano())
	_, err := w.Allocate(t.Context(), api.Allocate{ID: id, Memory: 64, GPU: ref})
	var refused *api.Problem
	switch {
	case err == nil:
		if _, err := w.Deallocate(t.Context(), id); err != nil {
			t.Error(err)
		}
		return ""
	case errors.As(err, &refused):
		return fmt.Sprint(refused.Extra["devices"])
	}
	t.Fatal(err)
	return ""
}

// A drain closes a device at once and nothing else: leases there go on, a
// restart does not end it, and its time does.
func TestDrain(t *testing.T) {
	p := newPlace(t, "sim:2")
	synctest.Test(t, func(t *testing.T) {
		w := p.live(t)
		ctx := t.Context()
		if _, err := w.Allocate(ctx, api.Allocate{ID: "work", Memory: 64, GPU: "1", Binding: "named"}); err != nil {
			t.Fatal(err)
		}
		until := time.Now().Add(time.Hour)
		drained, err := w.Drain(ctx, api.DrainRequest{GPU: "1", Until: &until, Reason: "new fan"})
		if err != nil || !drained.Changed || len(drained.Leases) != 1 || drained.Leases[0].ID != "work" {
			t.Fatalf("%+v, %v", drained, err)
		}
		if why := w.refusal(t, "1"); !strings.Contains(why, "it is drained until") || !strings.Contains(why, "new fan") {
			t.Errorf("refused because %q", why)
		}
		if why := w.refusal(t, "0"); why != "" {
			t.Errorf("the other device is closed, too: %s", why)
		}
		s, err := w.Status(ctx, "1")
		if err != nil || s.State != gpu.Optimal || s.Health != gpu.Healthy || s.Drain == nil || s.Drain.Reason != "new fan" {
			t.Errorf("status %+v, %v; want its state and health as they were", s, err)
		}
		available, err := w.Available(ctx)
		if err != nil || available.GPUs[1].Available != 0 || !strings.Contains(available.GPUs[1].Reason, "drained") {
			t.Errorf("available %+v, %v", available, err)
		}
		if e, err := w.Explain(ctx, api.LeaseRequest{Memory: 64, GPU: "1"}); err != nil || e.Fits || !e.Possible || e.Devices[1].Code != "closed" {
			t.Errorf("explained by %+v, %v; want that it can wait", e, err)
		}
		w.stop()

		w = p.live(t)
		if why := w.refusal(t, "1"); !strings.Contains(why, "it is drained until") {
			t.Errorf("after a restart: %q", why)
		}
		granted := make(chan error, 1)
		go func() {
			_, err := w.Acquire(ctx, api.LeaseRequest{ID: "waits", Memory: 64, GPU: "1", Timeout: gpu.Some(7200.0), Binding: "named"})
			granted <- err
		}()
		time.Sleep(30 * time.Minute)
		if e, err := w.ExplainWaiting(ctx, "waits"); err != nil || e.Position != 1 || !strings.Contains(fmt.Sprint(e.Devices), "it is drained") {
			t.Errorf("the one who waits is told %+v, %v", e, err)
		}
		time.Sleep(31 * time.Minute)
		if err := <-granted; err != nil {
			t.Errorf("after the drain: %v", err)
		}
		if _, err := w.Drain(ctx, api.DrainRequest{GPU: "1"}); err != nil {
			t.Error(err)
		}
		for _, changed := range []bool{true, false} {
			if u, err := w.Undrain(ctx, api.UndrainRequest{GPU: "1"}); err != nil || u.Changed != changed {
				t.Errorf("undrain: %+v, %v", u, err)
			}
		}
		if got := fmt.Sprint(w.codes()); !strings.Contains(got, "device_undrained lease_granted device_drained device_undrained") {
			t.Errorf("told %s", got)
		}
		w.stop()
	})
}

// A fault while somebody drains the device: both hold, and each ends by itself.
func TestFaultWhileDraining(t *testing.T) {
	p := newPlace(t, scenario(t, "devices: [{model: h200}]\ntimeline: [{at: 5s, device: 0, xid: 48}]\n"))
	p.flags["gpu.check"] = "off"
	synctest.Test(t, func(t *testing.T) {
		w := p.live(t)
		if _, err := w.Drain(t.Context(), api.DrainRequest{GPU: "0"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if s, err := w.Status(t.Context(), "0"); err != nil || s.Drain == nil || s.Trust == nil || s.Trust.Phase != "quarantine" {
			t.Errorf("status %+v, %v; want it drained and in quarantine", s, err)
		}
		time.Sleep(2 * time.Minute)
		if why := w.refusal(t, "0"); !strings.Contains(why, "it is drained") {
			t.Errorf("after the quarantine: %q, want the drain", why)
		}
		if _, err := w.Undrain(t.Context(), api.UndrainRequest{GPU: "0"}); err != nil {
			t.Fatal(err)
		}
		if why := w.refusal(t, "0"); why != "" {
			t.Errorf("after both: %q", why)
		}
		w.stop()
	})
}

func TestDrainRefusals(t *testing.T) {
	p := newPlace(t, "sim:1")
	synctest.Test(t, func(t *testing.T) {
		w := p.live(t)
		past := time.Now().Add(-time.Second)
		for code, r := range map[string]api.DrainRequest{
			"unknown_device": {GPU: "7"}, "invalid_request": {}, "invalid_request ": {GPU: "0", Until: &past}, "invalid_request  ": {GPU: "0", Reason: strings.Repeat("x", 201)},
		} {
			_, err := w.Drain(t.Context(), r)
			var refused *api.Problem
			if !errors.As(err, &refused) || refused.Code != strings.TrimSpace(code) {
				t.Errorf("%+v: %v, want %s", r, err, code)
			}
		}
		w.stop()
	})
}
