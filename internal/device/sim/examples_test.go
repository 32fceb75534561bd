package sim_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/sim"
)

const examples = "../../../examples/scenarios/"

// band is the state by temperature alone, without the daemon's patience.
func band(c gpu.Celsius) gpu.State {
	switch limits := gpu.DefaultThresholds(); {
	case c < limits.TempOptimal:
		return gpu.Optimal
	case c < limits.TempNormal:
		return gpu.Normal
	case c <= limits.TempThrottle:
		return gpu.Throttled
	}
	return gpu.Critical
}

func TestHotAfternoon(t *testing.T) {
	clock := newHand()
	devices := scan(t, open(t, examples+"hot-afternoon.yaml", sim.Options{Clock: clock.Now}))
	var states []gpu.State
	slowed := false
	for range 180 {
		s := fast(t, devices[0])
		states = append(states, band(s.Temperature.Or(0)))
		slowed = slowed || slices.Contains(s.Throttle, gpu.ThrottleThermal)
		for _, dev := range devices[1:] {
			if other := band(fast(t, dev).Temperature.Or(0)); other != gpu.Optimal {
				t.Fatalf("%s is %s; want the others untouched", dev.Describe().UUID, other)
			}
		}
		clock.pass(time.Second)
	}
	want := []gpu.State{gpu.Optimal, gpu.Normal, gpu.Throttled, gpu.Critical, gpu.Throttled, gpu.Normal, gpu.Optimal}
	if got := slices.Compact(states); !slices.Equal(got, want) {
		t.Errorf("GPU 0 went through %v; want %v", got, want)
	}
	if !slowed {
		t.Error("GPU 0 never slowed itself down")
	}
}

// The temperature crosses a threshold in every burst. What the state makes of that
// is tested with the monitor.
func TestFlapping(t *testing.T) {
	clock := newHand()
	devices := scan(t, open(t, examples+"flapping.yaml", sim.Options{Clock: clock.Now}))
	var states []gpu.State
	for range 11 * 60 {
		states = append(states, band(fast(t, devices[0]).Temperature.Or(0)))
		clock.pass(time.Second)
	}
	if n := len(slices.Compact(states)); n < 40 {
		t.Errorf("it crossed thresholds %d times; want it to flap", n)
	}
}

// The demo has ten seconds to tell its story.
func TestDemo(t *testing.T) {
	clock := newHand()
	devices := scan(t, open(t, examples+"demo.yaml", sim.Options{Clock: clock.Now}))
	var states []gpu.State
	for range 100 {
		states = append(states, band(fast(t, devices[2]).Temperature.Or(0)))
		for _, dev := range devices[:2] {
			if other := band(fast(t, dev).Temperature.Or(0)); other != gpu.Optimal {
				t.Fatalf("%s is %s; want the others untouched", dev.Describe().UUID, other)
			}
		}
		clock.pass(time.Second / 10)
	}
	want := []gpu.State{gpu.Optimal, gpu.Normal, gpu.Throttled, gpu.Critical}
	if got := slices.Compact(states); !slices.Equal(got, want) {
		t.Errorf("GPU 2 went through %v; want %v", got, want)
	}
}

func TestHangAndLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, examples+"hang-and-lost.yaml")
		start := time.Now()
		var guards []*device.Guard
		for _, dev := range scan(t, b) {
			guards = append(guards, device.NewGuard(dev))
		}
		var faults []string
		watched := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { watched <- b.Watch(ctx, func(f device.Fault) { faults = append(faults, f.Code) }) }()

		time.Sleep(time.Second / 2) // read between the seconds at which things happen
		for second := range 100 {
			for i, g := range guards {
				var want error
				switch {
				case i == 1 && second >= 20 && second < 50:
					want = device.ErrHung
				case i == 2 && second >= 40 && second < 80:
					want = device.ErrLost
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				if _, err := g.Fast(ctx); !errors.Is(err, want) {
					t.Errorf("after %v GPU %d: %v; want %v", time.Since(start), i, err, want)
				}
				cancel()
			}
			time.Sleep(time.Until(start.Add(time.Duration(second+1)*time.Second + time.Second/2)))
		}
		cancel()
		if err := <-watched; err != nil {
			t.Errorf("Watch: %v", err)
		}
		if want := []string{"XID 79", "XID 31", ""}; !slices.Equal(faults, want) {
			t.Errorf("faults with codes %v were reported; want %v", faults, want)
		}
	})
}

func BenchmarkFast(b *testing.B) {
	backend, err := sim.Open("", sim.Options{})
	if err != nil {
		b.Fatal(err)
	}
	devices, _ := backend.Scan(b.Context())
	b.ReportAllocs()
	for b.Loop() {
		var s gpu.Sample
		if err := devices[0].Fast(b.Context(), &s); err != nil {
			b.Fatal(err)
		}
	}
}
