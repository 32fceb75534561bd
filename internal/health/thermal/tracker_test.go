package thermal_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health/thermal"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// observe feeds a temperature, or a miss for NaN.
func observe(tr *thermal.Tracker, seconds int, celsius float64) thermal.Verdict {
	if celsius != celsius {
		return tr.Missed(at(seconds), "gone")
	}
	return tr.Observe(thermal.DefaultRules(), at(seconds), sample(celsius, none))
}

func TestTracker(t *testing.T) {
	type step struct {
		at      int
		celsius float64 // NaN: no answer
		want    gpu.State
		until   int // 0: no cooldown
	}
	for name, steps := range map[string][]step{
		"worse at once": {
			{0, 50, gpu.Optimal, 0}, {1, 70, gpu.Normal, 0}, {2, 80, gpu.Throttled, 0}, {3, 88, gpu.Critical, 0},
		},
		"better after the cooldown": {
			{0, 80, gpu.Throttled, 0}, {1, 60, gpu.Throttled, 31}, {30, 60, gpu.Throttled, 31},
			{31, 60, gpu.Normal, 61}, {60, 60, gpu.Normal, 61}, {61, 60, gpu.Optimal, 0},
		},
		"an interruption starts the cooldown anew": {
			{0, 80, gpu.Throttled, 0}, {1, 60, gpu.Throttled, 31}, {20, 76, gpu.Throttled, 0},
			{21, 60, gpu.Throttled, 51}, {50, 60, gpu.Throttled, 51}, {51, 60, gpu.Normal, 81}, {81, 60, gpu.Optimal, 0},
		},
		"to the worst seen while waiting, then on": {
			{0, 80, gpu.Throttled, 0}, {1, 60, gpu.Throttled, 31}, {15, 70, gpu.Throttled, 31},
			{31, 60, gpu.Normal, 61}, {60, 60, gpu.Normal, 61}, {61, 60, gpu.Optimal, 0},
		},
		"worse on the way": {
			{0, 80, gpu.Throttled, 0}, {1, 60, gpu.Throttled, 31}, {31, 60, gpu.Normal, 61}, {40, 70, gpu.Normal, 0},
			{50, 60, gpu.Normal, 80}, {60, 80, gpu.Throttled, 0},
		},
		"worse while waiting is taken at once": {
			{0, 70, gpu.Normal, 0}, {1, 60, gpu.Normal, 31}, {2, 80, gpu.Throttled, 0},
		},
		"critical waits longer": {
			{0, 88, gpu.Critical, 0}, {1, 60, gpu.Critical, 61}, {60, 60, gpu.Critical, 61}, {61, 60, gpu.Optimal, 0},
		},
		"critical by way of throttled": {
			{0, 88, gpu.Critical, 0}, {1, 84, gpu.Critical, 61}, {61, 84, gpu.Throttled, 0},
		},
		"away at once, back at once": {
			{0, 60, gpu.Optimal, 0}, {1, none, gpu.Unavailable, 0}, {2, none, gpu.Unavailable, 0}, {3, 70, gpu.Normal, 0},
		},
		"back long after is judged afresh": {
			{0, 88, gpu.Critical, 0}, {1, none, gpu.Unavailable, 0}, {100, 60, gpu.Optimal, 0},
		},
		"away from throttled, for one cooldown and for two": {
			{0, 80, gpu.Throttled, 0}, {1, none, gpu.Unavailable, 0}, {35, 60, gpu.Normal, 65}, {64, 60, gpu.Normal, 65}, {65, 60, gpu.Optimal, 0},
			{70, 80, gpu.Throttled, 0}, {71, none, gpu.Unavailable, 0}, {131, 60, gpu.Normal, 161}, {161, 60, gpu.Optimal, 0},
		},
		"falling off does not shorten the pause": {
			{0, 88, gpu.Critical, 0}, {10, none, gpu.Unavailable, 0}, {11, 60, gpu.Critical, 70},
			{12, none, gpu.Unavailable, 0}, {69, 60, gpu.Critical, 70}, {70, 60, gpu.Optimal, 0},
		},
		"a clock set back does not shorten the pause": {
			{100, 88, gpu.Critical, 0}, {40, 60, gpu.Critical, 160}, {110, 60, gpu.Critical, 160}, {160, 60, gpu.Optimal, 0},
		},
		"first of all no answer": {
			{0, none, gpu.Unavailable, 0}, {1, 80, gpu.Throttled, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var tr thermal.Tracker
			from := gpu.Unavailable
			for _, s := range steps {
				v := observe(&tr, s.at, s.celsius)
				until := time.Time{}
				if s.until != 0 {
					until = at(s.until)
				}
				if v.State != s.want || !v.Until.Equal(until) {
					t.Errorf("at %d s, %g °C: %s until %v, want %s until %v", s.at, s.celsius, v.State, v.Until, s.want, until)
				}
				if v.From != from || v.Changed != (v.State != from) {
					t.Errorf("at %d s: from %s, changed %v; want from %s", s.at, v.From, v.Changed, from)
				}
				from = v.State
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	var tr thermal.Tracker
	if v := observe(&tr, 0, 92); !v.Stop || !v.Since.Equal(at(0)) {
		t.Errorf("92 °C: stop %v since %v, want stop since the start", v.Stop, v.Since)
	}
	v := observe(&tr, 5, 60)
	if v.Stop || !v.Since.Equal(at(0)) {
		t.Errorf("60 °C after 92: stop %v since %v, want no stop, CRITICAL since the start", v.Stop, v.Since)
	}
	const why = "60 °C is below temp_optimal 65 °C, which has to hold for 1m0s before the state gets better"
	if v.Reason != why {
		t.Errorf("reason %q, want %q", v.Reason, why)
	}
	if v := observe(&tr, 6, none); v.Stop || v.Reason != "gone" || !v.Since.Equal(at(6)) {
		t.Errorf("no answer: %+v, want no stop, the reason given, since 6 s", v)
	}
	if v := tr.Observe(thermal.DefaultRules(), at(7), &gpu.Sample{}); v.State != gpu.Unavailable || v.Reason != "nothing measured" {
		t.Errorf("an empty sample: %+v, want UNAVAILABLE", v)
	}
}

func TestRulesMayChangeInFlight(t *testing.T) {
	var tr thermal.Tracker
	observe(&tr, 0, 80)
	observe(&tr, 1, 60)
	short := thermal.DefaultRules()
	short.Cooldown = 5 * time.Second
	if v := tr.Observe(short, at(6), sample(60, none)); v.State != gpu.Normal {
		t.Errorf("after 5 s under a cooldown of 5 s: %s", v.State)
	}
	short.Steps = false
	if v := tr.Observe(short, at(7), sample(80, none)); v.State != gpu.Throttled {
		t.Errorf("when it is hot again: %s", v.State)
	}
	tr.Observe(short, at(8), sample(60, none))
	if v := tr.Observe(short, at(13), sample(60, none)); v.State != gpu.Optimal {
		t.Errorf("after 5 s, without steps: %s", v.State)
	}
}

// The promises of the tracker, over random walks of readings, misses, pauses
// and clocks set back.
func TestTrackerProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := thermal.DefaultRules()
		rules.Cooldown = time.Duration(rapid.IntRange(0, 40).Draw(t, "cooldown")) * time.Second
		rules.CriticalPause = time.Duration(rapid.IntRange(0, 80).Draw(t, "pause")) * time.Second
		hold := func(s gpu.State) time.Duration {
			if s == gpu.Critical {
				return max(rules.CriticalPause, rules.Cooldown)
			}
			return rules.Cooldown
		}
		var tr thermal.Tracker
		rules.Steps = rapid.Bool().Draw(t, "in steps")
		state, now, newest, since := gpu.Unavailable, start, time.Time{}, time.Time{}
		seen := map[gpu.State]time.Time{} // when each state was last read
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(-5, 40).Draw(t, "step")) * time.Second)
			if now.After(newest) {
				newest = now
			}
			s := sample(rapid.Float64Range(50, 95).Draw(t, "celsius"), rapid.Float64Range(60, 100).Draw(t, "percent"))
			raw, _ := thermal.Classify(rules.Thresholds, s)
			var v thermal.Verdict
			if miss := rapid.IntRange(0, 4).Draw(t, "miss") == 0; miss {
				raw = gpu.Unavailable
				v = tr.Missed(now, "gone")
			} else {
				v = tr.Observe(rules, now, s)
				seen[raw] = newest
			}
			if raw.Worse(v.State) {
				t.Fatalf("%s is better than the reading, %s", v.State, raw)
			}
			if raw.Worse(state) && v.State != raw {
				t.Fatalf("%s, though the reading became worse: %s", v.State, raw)
			}
			if v.From != state || v.Changed != (v.State != state) || v.Since.After(newest) {
				t.Fatalf("verdict %+v after %s", v, state)
			}
			if rules.Steps && state == gpu.Throttled && v.State == gpu.Optimal && v.Since.Sub(since) < 2*rules.Cooldown {
				t.Fatalf("from THROTTLED to OPTIMAL after %v", v.Since.Sub(since))
			}
			since = v.Since
			if v.Changed && !v.Since.Equal(newest) {
				t.Fatalf("changed now, but since %v", v.Since)
			}
			for worse, last := range seen {
				if worse.Worse(v.State) && newest.Sub(last) < hold(worse) {
					t.Fatalf("%s only %v after a reading of %s", v.State, newest.Sub(last), worse)
				}
			}
			if !v.Until.IsZero() && v.Until.Before(newest) {
				t.Fatalf("until %v, which is over", v.Until)
			}
			state = v.State
		}
		// What is measured long enough is what counts in the end.
		s := sample(60, 10)
		for range 4 {
			newest = newest.Add(80 * time.Second)
			state = tr.Observe(rules, newest, s).State
		}
		if state != gpu.Optimal {
			t.Fatalf("%s after minutes of OPTIMAL readings", state)
		}
	})
}
