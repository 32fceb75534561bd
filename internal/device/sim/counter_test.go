package sim_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/device/sim"
)

// The energy counter of a device goes on while nobody simulates it, as that of a driver
// does while the daemon is replaced: with what the device drew for a minute, then idle.
func TestTheCounterGoesOn(t *testing.T) {
	dir, clock := t.TempDir(), newHand()
	if err := os.Mkdir(filepath.Join(dir, "SIM-h200-0"), 0o700); err != nil {
		t.Fatal(err)
	}
	spec := scenario(t, "devices: h200\ntimeline: [{device: 0, load: 100}, {at: 1h, device: 0, load: 0}]")
	counted := func(between time.Duration) (first, last float64) {
		t.Helper()
		dev := scan(t, open(t, spec, sim.Options{Guests: dir, Clock: clock.Now}))[0]
		first = slow(t, dev).Energy.Or(-1)
		clock.now = clock.now.Add(between)
		return first, slow(t, dev).Energy.Or(-1)
	}
	_, last := counted(10 * time.Minute)
	watts := last / 600
	for _, c := range []struct {
		away time.Duration
		want float64
	}{{0, 0}, {10 * time.Second, 10 * watts}, {time.Minute, 60 * watts}, {time.Hour + time.Minute, 60*watts + 3600*79.4}} {
		clock.now = clock.now.Add(c.away)
		again, then := counted(10 * time.Minute)
		if grown := again - last; math.Abs(grown-c.want) > 0.05*c.want {
			t.Errorf("in %v without a simulation it grew by %.0f J, want %.0f", c.away, grown, c.want)
		}
		last = then
	}
	for _, text := range []string{"", `{"joules": -5, "at": "2026-01-01T00:00:00Z"}`, `{"joules": "x"}`} {
		if err := os.WriteFile(filepath.Join(dir, "SIM-h200-0", "counter"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if first, _ := counted(0); first != 0 {
			t.Errorf("after %q the counter is at %.0f J", text, first)
		}
	}
}
