package sim

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func models(t testing.TB) []*model {
	t.Helper()
	known, err := builtIn()
	if err != nil {
		t.Fatal(err)
	}
	return known.Models
}

func drives() *rapid.Generator[drive] {
	return rapid.Custom(func(t *rapid.T) drive {
		return drive{
			load:    rapid.SampledFrom([]float64{0, 0.1, 0.5, 1}).Draw(t, "load"),
			ambient: rapid.Float64Range(10, 90).Draw(t, "ambient"),
			cooling: rapid.Float64Range(0.05, 2).Draw(t, "cooling"),
		}
	})
}

// However often somebody looks, the state is the same: the property that lets
// the simulation advance only when it is read.
func TestStateDoesNotDependOnLooking(t *testing.T) {
	all := models(t)
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(all).Draw(t, "model")
		once, often := newPlant(m), newPlant(m)
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			d := drives().Draw(t, "drive")
			until := once.now + time.Duration(rapid.Int64Range(1, int64(2*time.Minute)).Draw(t, "lasts"))
			once.advance(until, d)
			for often.now < until {
				step := time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(time.Minute)).Draw(t, "step"))
				often.advance(min(until, often.now+step), d)
			}
		}
		for what, pair := range map[string][2]float64{
			"temperature": {once.celsius(), often.celsius()},
			"memory":      {once.memoryCelsius(), often.memoryCelsius()},
			"power":       {once.sensor, often.sensor},
			"clock":       {once.governor, often.governor},
			"energy":      {once.joules / 1000, often.joules / 1000},
		} {
			if math.Abs(pair[0]-pair[1]) > 1e-6 {
				t.Errorf("%s: %g in few steps and %g in many", what, pair[0], pair[1])
			}
		}
	})
}

// Whatever is done to it, a GPU stays within the physical world.
func TestStateStaysInBounds(t *testing.T) {
	all := models(t)
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(all).Draw(t, "model")
		p := newPlant(m)
		for range rapid.IntRange(1, 10).Draw(t, "changes") {
			d := drives().Draw(t, "drive")
			before := p.joules
			p.advance(p.now+time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "lasts")), d)
			if w := p.sensor; !(w >= m.Power.Idle-0.01 && w <= m.Power.Cap) {
				t.Fatalf("power is %g W, outside %g to %g", w, m.Power.Idle, m.Power.Cap)
			}
			if c := p.clock(d.load); !(c > 0 && c <= 1) {
				t.Fatalf("clock is %g of full", c)
			}
			// With a twentieth of its cooling in air of 90 °C, a card rests near 300 °C.
			if !(p.celsius() > 0 && p.celsius() < 400) || !(p.joules > before) {
				t.Fatalf("temperature is %g °C, energy went from %g to %g J", p.celsius(), before, p.joules)
			}
		}
	})
}

// A hot GPU settles: the governor neither swings nor lets it run away.
func TestGovernorHoldsTheSlowdownTemperature(t *testing.T) {
	for _, m := range models(t) {
		t.Run(m.Name, func(t *testing.T) {
			slowdown := float64(m.Limits.Slowdown)
			// Heat the air until full load would rest ten degrees too hot.
			rise := restingAt(m.Die, m.Power.watts(1, m.Power.capped(1, m.Power.Cap))).sum()
			d := drive{load: 1, ambient: slowdown + 10 - rise, cooling: 1}
			p := newPlant(m)
			p.advance(time.Hour, d)
			low, high := math.Inf(1), math.Inf(-1)
			for range 600 {
				p.advance(p.now+tick, d)
				low, high = min(low, p.celsius()), max(high, p.celsius())
			}
			if high-low > 0.1 {
				t.Errorf("temperature swings between %.2f and %.2f °C", low, high)
			}
			if low < slowdown || high > slowdown+governorBand {
				t.Errorf("temperature rests at %.1f °C; want %.0f to %.0f", high, slowdown, slowdown+governorBand)
			}
			if p.governor >= 1 {
				t.Errorf("the clock is full at %.1f °C", high)
			}

			p.advance(p.now+time.Hour, drive{ambient: m.Ambient, cooling: 1})
			if p.governor != 1 || !p.asleep(0) {
				t.Errorf("after an hour of idling the clock is %g of full, asleep %v; want 1, true", p.governor, p.asleep(0))
			}
		})
	}
}

func TestIdleAndFullLoadAreWhereSuchCardsAre(t *testing.T) {
	for _, m := range models(t) {
		idle := m.Ambient + restingAt(m.Die, m.Power.Idle).sum()
		full := m.Ambient + restingAt(m.Die, m.Power.watts(1, m.Power.capped(1, m.Power.Cap))).sum()
		if idle < 28 || idle > 48 || full < 58 || full > 80 {
			t.Errorf("%s rests at %.0f °C idle and %.0f °C under full load", m.Name, idle, full)
		}
		if !(m.Limits.Max <= m.Limits.Slowdown && m.Limits.Slowdown < m.Limits.Shutdown) {
			t.Errorf("%s: limits %+v are out of order", m.Name, m.Limits)
		}
		if p := m.Power; !(p.Idle < p.Awake && p.Awake < p.Cap && p.Cap <= p.Demand && p.SensorSeconds > 0) {
			t.Errorf("%s: power %+v is out of order", m.Name, p)
		}
		if m.Memory <= m.DriverMemory || m.Clocks.SM <= m.Clocks.SMIdle || m.Title == "" || m.Link.Kind.Closeness() == 0 {
			t.Errorf("%s: incomplete: %+v", m.Name, m)
		}
	}
}

func TestBlockedFanHeatsUp(t *testing.T) {
	for _, m := range models(t) {
		rest := func(cooling float64) float64 {
			p := newPlant(m)
			p.advance(time.Hour, drive{load: 0.3, ambient: m.Ambient, cooling: cooling})
			return p.celsius()
		}
		if open, blocked := rest(1), rest(0.5); blocked <= open {
			t.Errorf("%s: %.1f °C with the air blocked, %.1f °C without", m.Name, blocked, open)
		}
	}
}

func TestFan(t *testing.T) {
	f := fanModel{Start: 50, Floor: 30, Full: 90}
	for celsius, want := range map[float64]float64{20: 0, 49.9: 0, 50: 30, 70: 65, 90: 100, 120: 100} {
		if got := f.speed(celsius); got != want {
			t.Errorf("at %g °C the fan runs at %g %%; want %g", celsius, got, want)
		}
	}
}
