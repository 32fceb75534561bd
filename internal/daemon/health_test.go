package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health/monitor"
)

const twoFail = `
devices:
  - {model: h200, count: 2}
timeline:
  - {at: 5s, device: 0, xid: 48}
  - {at: 6s, device: 1, xid: 31}
`

// A fault of a device closes it and tells who holds it; a fault of a program
// is put down to its lease. What was learned is in the state folder
// while the daemon still runs, for the next one.
func TestFaults(t *testing.T) {
	p := newPlace(t, scenario(t, twoFail))
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := p.open(t, ctx)
		c := d.inside(t)
		done := make(chan struct{})
		go func() { defer close(done); _ = d.monitor.Run(ctx) }()
		go func() { _ = d.ledger.Run(ctx) }()
		kept := make(chan struct{})
		go func() { defer close(kept); d.part("quarantine").do(ctx) }()
		for _, ref := range []string{"0", "1"} {
			if _, err := c.Allocate(ctx, api.Allocate{ID: "work-" + ref, Memory: 1024, GPU: gpu.Ref(ref)}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second) // simulated

		told := map[gpu.EventCode]gpu.Event{}
		events, _ := d.events.Kept(0)
		for _, e := range events {
			told[e.Code+gpu.EventCode(e.Lease)] = e
		}
		if e := told[gpu.EventDeviceQuarantined]; e.Data["leases"] == nil || e.Data["leases"].([]string)[0] != "work-0" {
			t.Errorf("told of the quarantine: %+v, want who holds the device", e)
		}
		if e := told[gpu.EventDeviceFault+"work-1"]; !strings.HasSuffix(e.Text, "it is put down to work-1") {
			t.Errorf("told of the fault of a program: %+v", e)
		}
		s, err := c.Status(ctx, "0")
		if err != nil || s.State != gpu.Unavailable || s.Health != gpu.Unhealthy || s.Trust == nil || s.Trust.Phase != "quarantine" || s.Slots.Usable != 0 {
			t.Errorf("status %+v, %v; want it in quarantine", s, err)
		}
		_, err = c.Allocate(ctx, api.Allocate{ID: "more", Memory: 1024, GPU: "0"})
		var refused *api.Problem
		if !errors.As(err, &refused) || !strings.Contains(fmt.Sprint(refused.Extra["devices"]), "in quarantine until") {
			t.Errorf("asking for more of it: %+v, want the reason", err)
		}
		again, damage := monitor.OpenStandings(filepath.Join(p.flags["daemon.state_dir"], "health.json"))
		if damage != nil {
			t.Fatal(damage)
		}
		found := false
		for _, s := range again.All() {
			found = found || s.Phase == "quarantine" && strings.Contains(s.Why, "48")
		}
		if !found {
			t.Errorf("written down %+v, want a quarantine for XID 48", again.All())
		}
		cancel()
		<-done
		<-kept
	})
}
