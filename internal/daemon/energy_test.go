package daemon

import (
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/inventory"
)

const threePrograms = `
devices: 1xh200
timeline:
  - {at: 60s, for: 180s, device: 0, process: {pid: 5000001, name: train, memory_mb: 3000, load: 60, uid: 1000, cgroup: /train.service}}
  - {at: 60s, for: 180s, device: 0, process: {pid: 5000002, name: serve, memory_mb: 3000, load: 20, uid: 1000, cgroup: /serve.service}}
  - {at: 120s, for: 60s, device: 0, process: {pid: 5000003, name: stray, memory_mb: 300, load: 10}}
`

// meter runs what measures energy beside a daemon, and returns what ends it.
func (w *world) meter(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.energy.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		w.stop()
	}
}

// What leases used, what others used and idle power add up to what the driver of
// a device counted, and are there after a restart.
func TestEnergy(t *testing.T) {
	p := newPlace(t, scenario(t, threePrograms))
	p.flags["energy.price_per_kwh"] = "0.5"
	synctest.Test(t, func(t *testing.T) {
		w := p.live(t)
		stop := w.meter(t)
		ctx := t.Context()
		leases := map[string]api.Lease{}
		for _, name := range []string{"train", "serve"} {
			l, err := w.Acquire(ctx, api.LeaseRequest{ID: name, Memory: 4096, Scope: []string{name + ".service"}, Service: name, Binding: "named"})
			if err != nil {
				t.Fatal(err)
			}
			leases[name] = l
		}
		first := counted(t, w)
		time.Sleep(299*time.Second + 500*time.Millisecond) // simulated
		counts := counted(t, w) - first

		e, err := w.Energy(ctx)
		if err != nil || len(e.GPUs) != 1 {
			t.Fatalf("%+v, %v", e, err)
		}
		d := e.GPUs[0]
		if sum := d.Leases + d.Others + d.Idle; math.Abs(float64(sum-d.Total)) > 1e-3 {
			t.Errorf("the parts are %v of %v", sum, d.Total)
		}
		if off := float64(d.Total)/counts - 1; math.Abs(off) > 0.02 {
			t.Errorf("the driver counted %.0f J, and berth %.0f J: %.1f %% off", counts, float64(d.Total), 100*off)
		}
		if d.Source != "counter" || d.IdlePower < 50 || d.IdlePower > 120 || d.Others == 0 || d.Unmeasured != 0 {
			t.Errorf("the device has %+v", d)
		}
		if e.Price != gpu.Some(0.5) || e.Currency != "EUR" || len(e.Used) != 2 || e.Used[0].Service != "train" {
			t.Errorf("the answer is %+v", e)
		}
		var train, serve gpu.Joules
		for name, into := range map[string]*gpu.Joules{"train": &train, "serve": &serve} {
			ended, err := w.Release(ctx, name, leases[name].Fence)
			if err != nil {
				t.Fatal(err)
			}
			*into = ended.Lease.Energy.Or(-1)
		}
		if ratio := float64(train / serve); ratio < 2.7 || ratio > 3.3 {
			t.Errorf("loads of 60 and 20 used %v and %v", train, serve)
		}
		if math.Abs(float64(train+serve-d.Leases)) > 1 {
			t.Errorf("the leases used %v of %v", train+serve, d.Leases)
		}
		past, err := w.PastLeases(ctx, client.PastQuery{})
		if err != nil || len(past.Leases) != 2 || !past.Leases[0].Energy.Known() {
			t.Errorf("the past has %+v, %v", past.Leases, err)
		}
		events, _ := w.events.Kept(0)
		billed := 0.0
		for _, event := range events {
			if event.Code == gpu.EventReleased {
				billed += event.Data["energy_joules"].(float64)
			}
		}
		if math.Abs(billed-float64(train+serve)) > 1 {
			t.Errorf("events say %v J", billed)
		}
		stop()

		w = p.live(t) // the simulated driver begins to count anew, too
		defer w.meter(t)()
		again, err := w.Energy(ctx)
		if err != nil || len(again.GPUs) != 1 || again.GPUs[0].Total < d.Total || again.GPUs[0].Total > d.Total*1.01 || len(again.Used) != 2 {
			t.Errorf("after a restart: %+v, %v; before %+v", again, err, d)
		}
		time.Sleep(50 * time.Second) // simulated
		later, err := w.Energy(ctx)
		if err != nil || later.GPUs[0].Total < again.GPUs[0].Total+50*60 {
			t.Errorf("50 s after it: %+v, %v", later, err)
		}
		err = file.NewState[json.RawMessage](filepath.Join(p.flags["daemon.state_dir"], inventory.Energy), file.StateOptions{}).Read(func(kept json.RawMessage) error {
			return json.Unmarshal(kept, &struct{}{})
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// counted returns what the simulated driver counts now.
func counted(t *testing.T, w *world) float64 {
	t.Helper()
	var slow gpu.Slow
	devices, err := w.backends[0].Scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := devices[0].Slow(t.Context(), &slow); err != nil {
		t.Fatal(err)
	}
	return slow.Energy.Or(-1)
}
