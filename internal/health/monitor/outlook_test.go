package monitor_test

import (
	"encoding/json"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/health/heat"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/health/thermal"
)

// oven is a device whose temperature follows its power with one time constant.
type oven struct {
	watts   func(seconds float64) float64
	celsius float64
	begun   time.Time
	last    float64
}

const (
	ovenAir     = 30.0 // degrees without power
	ovenPerWatt = 0.3
	ovenSeconds = 25.0
)

// fast reads the oven as a card does: in whole degrees.
func (o *oven) fast(s *gpu.Sample) error {
	if o.begun.IsZero() {
		o.begun, o.celsius = time.Now(), ovenAir+ovenPerWatt*o.watts(0)
	}
	now := time.Since(o.begun).Seconds()
	for ; o.last < now; o.last += 0.1 {
		o.celsius += (ovenAir + ovenPerWatt*o.watts(o.last) - o.celsius) * 0.1 / ovenSeconds
	}
	s.Temperature, s.Power = gpu.Some(gpu.Celsius(math.Round(o.celsius))), gpu.Some(gpu.Watts(o.watts(now)))
	return nil
}

// practice is five minutes of varied work that keeps an oven below 66 °C, and
// then a power of its own.
func practice(then float64) func(float64) float64 {
	return func(t float64) float64 {
		if t >= 300 {
			return then
		}
		return []float64{20, 110, 60, 20, 90}[int(t/20)%5]
	}
}

// moment is a reading at a second.
type moment struct {
	second int
	monitor.Reading
}

// watch returns the readings of a device, one a second.
func watch(t *testing.T, m *monitor.Monitor, seconds int) []moment {
	t.Helper()
	var all []moment
	for i := range seconds {
		settle(1)
		all = append(all, moment{i + 1, find(t, m, "")})
	}
	return all
}

// first returns the first second at which something is so; -1: it never is.
func first(all []moment, from int, is func(monitor.Reading) bool) int {
	for _, m := range all {
		if m.second >= from && is(m.Reading) {
			return m.second
		}
	}
	return -1
}

func slowed(r monitor.Reading) bool { return r.Cause == monitor.CauseForecast }

// forecasts counts the events that a forecast began and ended.
func (n *notes) forecasts() (begun, over int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.events {
		switch {
		case e.Code == gpu.EventForecast && e.Severity == gpu.Warning:
			begun++
		case e.Code == gpu.EventForecast:
			over++
		}
	}
	return begun, over
}

// A desktop card works as hard as it can in a warm case. Each time, work slows
// down before the temperature crosses a threshold, while the state is better.
func TestForecastSlowsAConsumerCard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n, stop := simulate(t, "heating.yaml")
		all := watch(t, m, 1060)
		stop()
		full := 600 // seconds, from when on it works as hard as it can
		throttled := first(all, full, func(r monitor.Reading) bool { return r.State == gpu.Throttled })
		critical := first(all, full, func(r monitor.Reading) bool { return r.State == gpu.Critical })
		half := first(all, full, func(r monitor.Reading) bool { return slowed(r) && r.Multiplier == 0.5 && r.State == gpu.Normal })
		if half < 0 || !(half < throttled && throttled < critical) {
			t.Errorf("half the speed from %d s on, THROTTLED at %d s, CRITICAL at %d s", half, throttled, critical)
		}
		for _, at := range all {
			r := at.Reading
			if want := r.State.Multiplier(); r.Multiplier > want || r.Cause == monitor.CauseState && r.Multiplier != want {
				t.Fatalf("after %d s: %s at %v because of %s", at.second, r.State, r.Multiplier, r.Cause)
			}
			if slowed(r) != (r.Slower != "") {
				t.Fatalf("after %d s: because of %s, with the words %q", at.second, r.Cause, r.Slower)
			}
		}
		if begun, over := n.forecasts(); over == 0 || begun < over {
			t.Errorf("a forecast began %d times and was over %d times", begun, over)
		}
		if r := all[len(all)-1]; r.Multiplier != 1 || r.Outlook == nil {
			t.Errorf("in the end it runs at %v", r.Multiplier)
		}
	})
}

// Work around a threshold begins and stops again and again. Whatever the forecast
// says, work never speeds up within a cooldown after it has slowed down.
func TestForecastDoesNotFlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		warm := practice(0)
		o := &oven{watts: func(t float64) float64 {
			if t < 300 {
				return warm(t)
			}
			return []float64{150, 90}[int(t/7)%2] // settles at 75 °C and at 57 °C
		}}
		var n notes
		m := told([]device.Backend{with(&card{fast: o.fast})}, monitor.Settings{}, n.hooks())
		stop := start(t, m)
		all := watch(t, m, 1500)
		stop()
		changed, before := -100, 1.0
		for _, at := range all {
			if r := at.Reading; r.Multiplier != before {
				if r.Multiplier > before && at.second-changed < 30 {
					t.Errorf("from %v to %v %d s after the change before", before, r.Multiplier, at.second-changed)
				}
				changed, before = at.second, r.Multiplier
			}
		}
	})
}

// A device that passes temp_normal in a while is slowed down a minute before, and
// one that settles below it never.
func TestForecastKnowsWhereItEnds(t *testing.T) {
	for name, c := range map[string]struct {
		watts float64 // from 300 s on
		slows bool
	}{"too hot": {200, true}, "warm": {130, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &oven{watts: practice(c.watts)}
				var n notes
				m := told([]device.Backend{with(&card{fast: o.fast})}, monitor.Settings{}, n.hooks())
				stop := start(t, m)
				all := watch(t, m, 480)
				stop()
				passes := first(all, 300, func(r monitor.Reading) bool { return r.Sample.Temperature.Or(0) >= 75 })
				slows := first(all, 300, slowed)
				if c.slows && !(slows > 0 && slows < passes) || !c.slows && slows > 0 {
					t.Errorf("it passes temp_normal after %d s, and work slows down after %d s", passes, slows)
				}
				end := all[len(all)-1]
				if got, want := float64(end.Outlook.Settles.Mean), ovenAir+ovenPerWatt*c.watts; math.Abs(got-want) > 3 {
					t.Errorf("it settles at %.1f °C, want %.1f °C", got, want)
				}
				if got := end.Outlook.PerWatt; math.Abs(got-ovenPerWatt) > 0.1 {
					t.Errorf("a watt adds %.2f °C, want %.2f", got, ovenPerWatt)
				}
			})
		})
	}
}

// gpu.forecast: off keeps the outlook and changes no multiplier.
func TestForecastThatIsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &oven{watts: practice(200)}
		var n notes
		settings := monitor.Settings{Rules: func(string) thermal.Rules {
			r := thermal.DefaultRules()
			r.Forecast = false
			return r
		}}
		m := told([]device.Backend{with(&card{fast: o.fast})}, settings, n.hooks())
		stop := start(t, m)
		all := watch(t, m, 400)
		if at := first(all, 0, slowed); at > 0 {
			t.Errorf("work slows down after %d s", at)
		}
		if begun, over := n.forecasts(); begun+over > 0 || find(t, m, "").Outlook == nil {
			t.Errorf("%d events, outlook %v", begun+over, find(t, m, "").Outlook)
		}
		// Turned on, it acts with the next sample; with higher thresholds, nothing is
		// ahead of the device any more, and the cooldown runs.
		m.Configure(monitor.Settings{})
		settle(2)
		if r := find(t, m, ""); r.Multiplier > 0.5 {
			t.Errorf("turned on: %v in %s", r.Multiplier, r.State)
		}
		m.Configure(monitor.Settings{Rules: func(string) thermal.Rules {
			r := thermal.DefaultRules()
			r.TempOptimal, r.TempNormal, r.TempThrottle, r.TempCritical = 100, 110, 115, 120
			return r
		}})
		settle(120) // out of CRITICAL, and then on
		if r := find(t, m, ""); r.Multiplier != 1 || r.Outlook.Crossings[0].Limit != 110 {
			t.Errorf("with thresholds above where it ends: %v because of %s", r.Multiplier, r.Cause)
		}
		stop()
	})
}

// A device that does not measure its power, and one that stops to, has no outlook.
func TestOutlookWithoutPower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &oven{watts: practice(60)}
		var silent atomic.Bool
		c := &card{fast: func(s *gpu.Sample) error {
			err := o.fast(s)
			if silent.Load() {
				s.Power = gpu.Opt[gpu.Watts]{}
			}
			return err
		}}
		var n notes
		m := told([]device.Backend{with(c, &card{index: 1})}, monitor.Settings{}, n.hooks())
		stop := start(t, m)
		settle(320)
		if find(t, m, "0").Outlook == nil || find(t, m, "1").Outlook != nil {
			t.Error("the one with power has no outlook, or the one without has one")
		}
		silent.Store(true)
		settle(2)
		if r := find(t, m, "0"); r.Outlook != nil || r.Multiplier != r.State.Multiplier() {
			t.Errorf("without power: %+v", r.Outlook)
		}
		stop()
	})
}

// A sensor that jumps to 0 and 255 changes neither the state nor what is ahead.
func TestSensorThatJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &oven{watts: practice(60)}
		reads := 0
		c := &card{fast: func(s *gpu.Sample) error {
			err := o.fast(s)
			if reads++; reads > 100 && reads%7 == 0 {
				s.Temperature = gpu.Some(gpu.Celsius(255 * (reads % 2)))
			}
			s.MemoryTotal, s.MemoryUsed = gpu.Some(gpu.MiB(100)), gpu.Some(gpu.MiB(1))
			return err
		}}
		var n notes
		m := told([]device.Backend{with(c)}, monitor.Settings{}, n.hooks())
		stop := start(t, m)
		for _, at := range watch(t, m, 420) {
			if at.State.Worse(gpu.Normal) || slowed(at.Reading) || at.Stop {
				t.Fatalf("after %d s: %s at %v because %s %s", at.second, at.State, at.Multiplier, at.Reason, at.Slower)
			}
		}
		settle(3)
		if got := find(t, m, "").Outlook; got == nil || math.Abs(float64(got.Settles.Mean)-48) > 4 {
			t.Errorf("it settles at %+v, want 48 °C", got)
		}
		stop()
	})
}

// A device whose power limit is lowered draws less, and is let go.
func TestPowerLimitEndsAForecast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limit atomic.Int64
		limit.Store(170)
		busy := practice(170)
		o := &oven{watts: func(t float64) float64 { return min(busy(t), float64(limit.Load())) }}
		var n notes
		m := told([]device.Backend{with(&card{fast: o.fast})}, monitor.Settings{}, n.hooks())
		stop := start(t, m)
		all := watch(t, m, 350)
		if first(all, 300, slowed) < 0 {
			t.Fatal("work at 170 W, which ends at 81 °C, was not slowed down")
		}
		limit.Store(100)
		all = watch(t, m, 120)
		if r := all[len(all)-1]; r.Multiplier != 1 {
			t.Errorf("at 100 W, which ends at 60 °C: %v because of %s: %s", r.Multiplier, r.Cause, r.Slower)
		}
		stop()
	})
}

// What was learned is there after a restart, by the UUID of the device.
func TestModelsSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &oven{watts: practice(60)}
		backend := with(&card{fast: o.fast})
		m := monitor.New([]device.Backend{backend}, monitor.Settings{}, monitor.Keepers{})
		stop := start(t, m)
		settle(330)
		stop()
		text, err := json.Marshal(m.Models())
		if err != nil {
			t.Fatal(err)
		}
		known := map[string]heat.Model{}
		if err := json.Unmarshal(text, &known); err != nil {
			t.Fatal(err)
		}
		known["GPU-gone"] = heat.Model{}
		settle(5)
		m = monitor.New([]device.Backend{backend}, monitor.Settings{}, monitor.Keepers{Heat: known})
		stop = start(t, m)
		settle(3)
		if r := find(t, m, ""); r.Outlook == nil || math.Abs(float64(r.Outlook.Settles.Mean)-48) > 4 {
			t.Errorf("three seconds after a restart: %+v, want an end at 48 °C", r.Outlook)
		}
		if _, kept := m.Models()["GPU-gone"]; !kept {
			t.Error("what was known about a device that is not there now is lost")
		}
		stop()
	})
}

// BenchmarkOutlook is what a sample costs beyond the driver: learning, and asking
// the model.
func BenchmarkOutlook(b *testing.B) {
	var m heat.Model
	now, watts := time.Now(), practice(60)
	learn := func() {
		now = now.Add(time.Second)
		m.Learn(now, gpu.Some(gpu.Celsius(50)), gpu.Some(gpu.Watts(watts(float64(now.Second())))))
	}
	for range 600 {
		learn()
	}
	b.Run("learn", func(b *testing.B) {
		for b.Loop() {
			learn()
		}
	})
	b.Run("settle", func(b *testing.B) {
		for b.Loop() {
			m.Settle(60)
		}
	})
	b.Run("reach", func(b *testing.B) {
		for b.Loop() {
			m.Reach(85, 60)
		}
	})
	b.Run("copy", func(b *testing.B) {
		var c heat.Model
		for b.Loop() {
			c = m
		}
		_ = c
	})
}
