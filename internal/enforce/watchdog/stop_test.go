package watchdog

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// Holders of a device that must not be used are told, once for as long as it
// lasts; who comes later is told too.
func TestHoldersAreToldToStop(t *testing.T) {
	world := newWorld()
	w := world.watchdog(Warn, Show)
	hot := &Halt{Reason: "92 °C is above temp_critical 90 °C", Heat: true}
	first, second := lease.Holding{Lease: &lease.Lease{ID: "train", Fence: 3}}, lease.Holding{Lease: &lease.Lease{ID: "serve", Fence: 4}}
	for _, step := range []struct {
		halt     *Halt
		holdings []lease.Holding
	}{
		{nil, []lease.Holding{first}},
		{hot, []lease.Holding{first}},
		{hot, []lease.Holding{first, second}},
		{nil, []lease.Holding{first, second}},
		{hot, []lease.Holding{second}},
		{&Halt{Reason: "in quarantine"}, []lease.Holding{second}}, // another reason
	} {
		w.Stop(gpuA, world.next(), step.halt, step.holdings)
	}
	var told []string
	for _, e := range world.events {
		told = append(told, string(e.Code)+" "+e.Lease)
	}
	if got, want := strings.Join(told, ", "), "lease_stop train, lease_stop serve, lease_stop serve, lease_stop serve"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
	if e := world.events[0]; e.Severity != gpu.Serious || e.Text != "train should stop using GPU 3 now: 92 °C is above temp_critical 90 °C" {
		t.Errorf("the event is %+v", e)
	}
}

// Heat that goes on costs a lease, if the policy says so; a quarantine never
// does.
func TestHeatRevokes(t *testing.T) {
	for name, test := range map[string]struct {
		policy string
		heat   bool
		want   string
	}{
		"told only":      {Tell, true, ""},
		"revoked":        {Revoke, true, "its GPU was too hot: 92 °C"},
		"in quarantine":  {Revoke, false, ""},
		"policy not set": {"", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world := newWorld()
				world.ends = map[process.ID]time.Duration{pid(1): time.Second}
				w := New(Options{Leases: world, Processes: world, Event: world.event, Settings: settings("", "", test.policy)})
				running(t, w)
				halt, holdings := &Halt{Reason: "92 °C", Heat: test.heat}, []lease.Holding{{Lease: &lease.Lease{ID: "train", Fence: 3}}}
				first := world.next()
				for range 10 { // one measurement, however often it is looked at
					w.Stop(gpuA, first, halt, holdings)
				}
				synctest.Wait()
				if got := world.why(); got != "" {
					t.Errorf("revoked at first sight because %q", got)
				}
				w.Stop(gpuA, world.next(), halt, holdings)
				time.Sleep(time.Minute) // simulated
				world.mu.Lock()
				defer world.mu.Unlock()
				if world.revoked != test.want {
					t.Errorf("revoked because %q, want %q", world.revoked, test.want)
				}
			})
		})
	}
}
