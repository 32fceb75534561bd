package oversight

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health/heat"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/health/thermal"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// What is known is written now and then, and when the daemon stops.
func TestModelsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "heat.json")
	synctest.Test(t, func(t *testing.T) {
		var m heat.Model
		for range 120 {
			m.Learn(time.Now(), gpu.Some(gpu.Celsius(50)), gpu.Some(gpu.Watts(100)))
			time.Sleep(time.Second) // simulated
		}
		known := map[string]heat.Model{"GPU-a": m}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); KeepModels(ctx, path, func() map[string]heat.Model { return known }) }()
		time.Sleep(modelsPeriod + time.Second) // simulated
		if read, damage := ReadModels(path); damage != nil || len(read) != 1 {
			t.Errorf("after ten minutes: %d models, %v", len(read), damage)
		}
		known["GPU-b"] = heat.Model{}
		cancel()
		<-done
		read, damage := ReadModels(path)
		if damage != nil || len(read) != 2 {
			t.Errorf("after the end: %d models, %v", len(read), damage)
		}
		again := read["GPU-a"]
		if got, want := again.Settle(100), m.Settle(100); got.Mean != want.Mean {
			t.Errorf("read again, it settles at %v, and did at %v", got.Mean, want.Mean)
		}
	})
}

// A file that cannot be understood is put aside, and stops nobody.
func TestModelsThatCannotBeRead(t *testing.T) {
	for name, text := range map[string]string{
		"cut off": `{"version":1,"mod`, "another version": `{"version":99,"models":{}}`, "another model": `{"version":1,"models":{"GPU-a":{"version":99}}}`, "a list": `[]`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "heat.json")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			read, damage := ReadModels(path)
			if damage == nil || len(read) > 0 {
				t.Fatalf("%d models, %v", len(read), damage)
			}
			if aside, err := os.ReadFile(damage.Aside); err != nil || string(aside) != text {
				t.Errorf("put aside: %q, %v", aside, err)
			}
		})
	}
	if read, damage := ReadModels(filepath.Join(t.TempDir(), "none.json")); read != nil || damage != nil {
		t.Errorf("no file: %v, %v", read, damage)
	}
}

// The book learns how fast a device may run, why, and where its temperature ends.
func TestObservationHasTheOutlook(t *testing.T) {
	r := reading()
	r.Multiplier, r.Cause, r.Slower = 0.5, monitor.CauseForecast, "it passes temp_normal"
	r.Outlook = &monitor.Outlook{Settles: heat.Guess{Mean: 84}, PerWatt: 0.1, Crossings: thermal.Crossings(gpu.DefaultThresholds())}
	o := (&world{}).oversight().observation(r)
	if o.Multiplier != gpu.Some(0.5) || o.Slower == "" || o.Warmth != gpu.Some(placement.Warmth{Settles: 84, PerWatt: 0.1, Limit: 75}) {
		t.Errorf("the book is told %v, %q and %+v", o.Multiplier, o.Slower, o.Warmth)
	}
}
