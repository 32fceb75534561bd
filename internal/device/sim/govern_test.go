package sim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// A lower power limit makes a loaded GPU cooler, and the limit shows.
func TestPowerLimitActs(t *testing.T) {
	at := time.Unix(0, 0)
	b, err := Open(written(t, "devices: rtx-4060\ntimeline: [{device: 0, load: 100}, {at: 20m, device: 0, power_limit_watts: 100}]"), Options{Clock: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	c := b.cards[0]
	after := func(d time.Duration) (celsius, watts float64) {
		at = at.Add(d)
		var s gpu.Sample
		if err := c.Fast(t.Context(), &s); err != nil {
			t.Fatal(err)
		}
		return float64(s.Temperature.Or(0)), float64(s.Power.Or(0))
	}
	hot, full := after(5 * time.Minute)
	limits, err := c.PowerLimits(t.Context())
	if err != nil || limits.Now != 115 || limits.Default != 115 || limits.Most != 115 || limits.Least >= 60 {
		t.Fatalf("limits %+v, %v", limits, err)
	}
	if err := c.SetPowerLimit(t.Context(), 60); err != nil {
		t.Fatal(err)
	}
	cool, less := after(5 * time.Minute)
	if less > 60 || full < 110 || cool > hot-15 {
		t.Errorf("%g °C at %g W, and with a limit of 60 W %g °C at %g W", hot, full, cool, less)
	}
	if got := c.Describe().PowerLimit.Or(0); got != 60 {
		t.Errorf("the description says %g W", got)
	}
	after(15 * time.Minute)
	if limits, _ := c.PowerLimits(t.Context()); limits.Now != 100 {
		t.Errorf("somebody set 100 W, and the limit is %g W", limits.Now)
	}
	for _, bad := range []gpu.Watts{0, -5, limits.Least - 1, 116} {
		if err := c.SetPowerLimit(t.Context(), bad); err == nil {
			t.Errorf("a limit of %g W is taken", bad)
		}
	}
}

// A faster fan makes a loaded GPU cooler, and gives it back when released.
func TestFanActs(t *testing.T) {
	at := time.Unix(0, 0)
	b, err := Open(written(t, "devices: [{model: rtx-4060}, {model: h200}]\ntimeline: [{device: all, load: 100}]"), Options{Clock: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	c := b.cards[0]
	after := func(set error) (celsius, fan float64) {
		if set != nil {
			t.Fatal(set)
		}
		at = at.Add(10 * time.Minute)
		var s gpu.Sample
		if err := errors.Join(c.Fast(t.Context(), &s), c.Slow(t.Context(), &s.Slow)); err != nil {
			t.Fatal(err)
		}
		return float64(s.Temperature.Or(0)), float64(s.Fan.Or(0))
	}
	usual, own := after(nil)
	fast, full := after(c.SetFan(t.Context(), 100))
	slow, _ := after(c.SetFan(t.Context(), 10))
	again, back := after(c.ReleaseFan(t.Context()))
	if full != 100 || fast > usual-3 || slow < usual+3 || again != usual || back != own {
		t.Errorf("%g °C at %g %% of the fan, %g at %g, %g at 10, and again %g at %g", usual, own, fast, full, slow, again, back)
	}
	fanless := b.cards[1]
	for _, err := range []error{fanless.SetFan(context.Background(), 50), fanless.ReleaseFan(context.Background())} {
		if !errors.Is(err, device.ErrUnsupported) {
			t.Errorf("a GPU without a fan answers %v", err)
		}
	}
	if err := c.SetFan(t.Context(), 101); err == nil {
		t.Error("101 % is taken")
	}
}

// written returns the path of a scenario file.
func written(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
