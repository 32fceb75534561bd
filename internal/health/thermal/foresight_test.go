package thermal_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health/thermal"
)

// ahead is a forecast that temperatures pass temp_normal in some seconds, and
// temp_throttle in some more; a negative number is never.
func ahead(normal, throttle int) []thermal.Crossing {
	all := thermal.Crossings(gpu.DefaultThresholds())
	for i, in := range []int{normal, throttle} {
		c := &all[i]
		c.Ever, c.Sure, c.Power, c.Settles = in >= 0, in >= 0, 110, 88
		c.In, c.Passed = time.Duration(in)*time.Second, in == 0
		c.Soonest, c.Latest = c.In, c.In
	}
	return all[:]
}

func TestForesight(t *testing.T) {
	const never = -1
	unsure, late := ahead(20, never), ahead(50, never)
	unsure[0].Sure = false
	late[0].Latest = 90 * time.Second
	for name, steps := range map[string][]struct {
		second int
		sees   []thermal.Crossing
		want   gpu.State
		reason string
	}{
		"nothing is known": {{0, nil, gpu.Optimal, ""}},
		"nothing is ahead": {{0, ahead(never, never), gpu.Optimal, ""}},
		"not sure":         {{0, unsure, gpu.Optimal, ""}},
		"perhaps too late": {{0, late, gpu.Optimal, ""}},
		"too far ahead":    {{0, ahead(61, 300), gpu.Optimal, ""}},
		"within a minute":  {{0, ahead(60, 300), gpu.Throttled, "passes temp_normal 75 °C in 60 s at 110 W, and settles at 88 °C"}},
		"it passed":        {{0, ahead(0, never), gpu.Throttled, "stays above temp_normal 75 °C at 110 W: it settles at 88 °C"}},
		"the worst counts": {{0, ahead(2, 9), gpu.Critical, "passes 85 °C, where CRITICAL begins, in 9 s at 110 W, and settles at 88 °C"}},
		"half the speed first": {
			{0, ahead(30, 50), gpu.Throttled, "temp_normal"}, {20, ahead(10, 30), gpu.Throttled, "temp_normal"}, {41, ahead(0, 9), gpu.Critical, "where CRITICAL begins"},
		},
		"better after the cooldown": {
			{0, ahead(2, 9), gpu.Critical, "where CRITICAL begins"},
			{1, ahead(never, never), gpu.Critical, "was about to pass temp_throttle 85 °C; the forecast has to stay better for 30 s"},
			{30, ahead(never, never), gpu.Critical, "was about"},
			{31, ahead(never, never), gpu.Optimal, ""},
		},
		"a step at a time": {
			{0, ahead(2, 9), gpu.Critical, ""}, {1, ahead(2, 12), gpu.Critical, ""}, {20, ahead(never, never), gpu.Critical, ""},
			{31, ahead(never, never), gpu.Throttled, ""}, {60, ahead(never, never), gpu.Throttled, ""}, {61, ahead(never, never), gpu.Optimal, ""},
		},
		"worse again begins anew": {
			{0, ahead(10, never), gpu.Throttled, ""}, {1, ahead(never, never), gpu.Throttled, ""}, {29, ahead(10, never), gpu.Throttled, "passes"},
			{31, ahead(never, never), gpu.Throttled, ""}, {60, ahead(never, never), gpu.Throttled, ""}, {61, ahead(never, never), gpu.Optimal, ""},
		},
		"the power is not measured any more": {
			{0, ahead(10, never), gpu.Throttled, ""}, {1, nil, gpu.Throttled, ""}, {31, nil, gpu.Optimal, ""},
		},
		"the clock is set back": {
			{100, ahead(10, never), gpu.Throttled, ""}, {0, ahead(never, never), gpu.Throttled, ""}, {129, ahead(never, never), gpu.Throttled, ""}, {130, ahead(never, never), gpu.Optimal, ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var f thermal.Foresight
			for _, s := range steps {
				got := f.Look(thermal.DefaultRules(), at(s.second), s.sees)
				if got.State != s.want || !strings.Contains(got.Reason, s.reason) || (got.Reason == "") != (s.want == gpu.Optimal) {
					t.Errorf("after %d s: %s because it %q, want %s because it %q", s.second, got.State, got.Reason, s.want, s.reason)
				}
			}
		})
	}
}

func TestForesightThatIsOff(t *testing.T) {
	var f thermal.Foresight
	rules := thermal.DefaultRules()
	f.Look(rules, at(0), ahead(2, 9))
	rules.Forecast = false
	if got := f.Look(rules, at(1), ahead(2, 9)); got.State != gpu.Optimal || f != (thermal.Foresight{}) {
		t.Errorf("turned off, it still holds the device to %s", got.State)
	}
}

// Whatever a forecast says, work slows down at once, and speeds up only after a
// cooldown of better forecasts.
func TestForesightDoesNotFlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f thermal.Foresight
		rules, now := thermal.DefaultRules(), 0
		before, changed := gpu.Optimal, -1000
		for range rapid.IntRange(1, 60).Draw(t, "looks") {
			now += rapid.IntRange(0, 20).Draw(t, "pause")
			sees := ahead(rapid.IntRange(-1, 70).Draw(t, "normal"), rapid.IntRange(-1, 20).Draw(t, "throttle"))
			needs := gpu.Optimal
			if c := sees[0]; c.Sure && c.In <= time.Minute {
				needs = gpu.Throttled
			}
			if c := sees[1]; c.Sure && c.In <= 10*time.Second {
				needs = gpu.Critical
			}
			got := f.Look(rules, at(now), sees).State
			switch {
			case needs.Worse(got):
				t.Fatalf("%s where %s is ahead", got, needs)
			case before.Worse(got) && now-changed < 30:
				t.Fatalf("from %s to %s after %d s", before, got, now-changed)
			}
			if got != before {
				before, changed = got, now
			}
		}
	})
}
