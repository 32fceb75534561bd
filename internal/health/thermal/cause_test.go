package thermal_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health/thermal"
)

// The cause of a state is what crossed its threshold, for as long as the device
// keeps the state.
func TestCause(t *testing.T) {
	type step struct {
		at              int
		celsius, memory float64 // NaN: not measured
		state           gpu.State
		cause           string
	}
	for name, steps := range map[string][]step{
		"nothing":                  {{0, 50, 10, gpu.Optimal, ""}},
		"heat":                     {{0, 70, 10, gpu.Normal, "temperature"}, {1, 80, 90, gpu.Throttled, "temperature"}, {2, 88, 10, gpu.Critical, "temperature"}},
		"memory":                   {{0, 50, 75, gpu.Normal, "memory"}, {1, 70, 90, gpu.Throttled, "memory"}, {2, 80, 97, gpu.Critical, "memory"}},
		"both":                     {{0, 70, 75, gpu.Normal, "temperature"}, {1, 88, 97, gpu.Critical, "temperature"}},
		"memory alone is measured": {{0, none, 97, gpu.Critical, "memory"}},
		"heat alone is measured":   {{0, 88, none, gpu.Critical, "temperature"}},
		"neither is measured":      {{0, none, none, gpu.Unavailable, "silent"}},
		"heat that is over, in its cooldown": {
			{0, 88, 10, gpu.Critical, "temperature"}, {1, 50, 10, gpu.Critical, "temperature"}, {60, 50, 10, gpu.Critical, "temperature"}, {61, 50, 10, gpu.Optimal, ""},
		},
		"heat that is over before the memory is": {
			{0, 88, 97, gpu.Critical, "temperature"}, {1, 50, 97, gpu.Critical, "temperature"}, {61, 50, 97, gpu.Critical, "memory"},
			{62, 50, 10, gpu.Critical, "memory"}, {122, 50, 10, gpu.Optimal, ""},
		},
		"from one to the other": {
			{0, 88, 80, gpu.Critical, "temperature"}, {1, 50, 80, gpu.Critical, "temperature"}, {61, 50, 80, gpu.Normal, "memory"},
			{62, 66, 80, gpu.Normal, "temperature"},
		},
		"away in between": {
			{0, 88, 10, gpu.Critical, "temperature"}, {1, none, none, gpu.Unavailable, "silent"}, {2, 50, 97, gpu.Critical, "temperature"}, {61, 50, 97, gpu.Critical, "memory"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var tracker thermal.Tracker
			for _, s := range steps {
				if v := tracker.Observe(thermal.DefaultRules(), at(s.at), sample(s.celsius, s.memory)); v.State != s.state || v.Cause != s.cause {
					t.Errorf("after %d s: %s by %q, want %s by %q", s.at, v.State, v.Cause, s.state, s.cause)
				}
			}
		})
	}
	blind := sample(none, none)
	blind.Blind = true
	if v := new(thermal.Tracker).Observe(thermal.DefaultRules(), at(0), blind); v.State != gpu.Normal || v.Cause != "" {
		t.Errorf("a driver that tells neither: %s by %q", v.State, v.Cause)
	}
}

// A device that is not OPTIMAL always has a cause, and what crosses no threshold
// now and has not for longer than any cooldown never is one.
func TestCauseFollowsWhatIsMeasured(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tracker thermal.Tracker
		rules := thermal.DefaultRules()
		now, hot, full := 0, -1000, -1000 // when each last crossed a threshold
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += rapid.IntRange(1, 50).Draw(t, "later")
			celsius, memory := rapid.Float64Range(30, 95).Draw(t, "celsius"), rapid.Float64Range(0, 100).Draw(t, "memory")
			if celsius >= float64(rules.TempOptimal) {
				hot = now
			}
			if memory >= float64(rules.MemoryOptimal) {
				full = now
			}
			v := tracker.Observe(rules, at(now), sample(celsius, memory))
			// A device goes at most three steps down, each after a cooldown that begins with the next sample.
			const longest = 3 * (60 + 50)
			switch {
			case (v.Cause == "") != (v.State == gpu.Optimal):
				t.Fatalf("%s has the cause %q", v.State, v.Cause)
			case v.Cause == gpu.CauseTemperature && now-hot > longest, v.Cause == gpu.CauseMemory && now-full > longest:
				t.Fatalf("after %d s: %s by %s, at %v °C (hot %d s ago) and %v %% (full %d s ago)", now, v.State, v.Cause, celsius, now-hot, memory, now-full)
			case v.State == gpu.Critical && v.Cause == gpu.CauseMemory && celsius > float64(rules.TempThrottle):
				t.Fatalf("CRITICAL by memory at %v °C", celsius)
			}
		}
	})
}
