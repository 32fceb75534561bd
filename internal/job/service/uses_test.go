package service

import (
	"fmt"
	"math"
	"testing"
	"time"
)

var dawn = time.Date(2026, 7, 1, 6, 0, 0, 0, time.UTC)

func near(a, b float64) bool { return math.Abs(a-b) < 0.01 }

// Whoever keeps a share of the machine for long has that share; it halves with each half-life,
// however often it is charged, and two who share the time have a half each.
func TestUses(t *testing.T) {
	for _, step := range []time.Duration{time.Second, 5 * time.Second} {
		var u Uses
		now := dawn
		for ; now.Before(dawn.Add(time.Hour)); now = now.Add(step) {
			u = u.Charge([]Used{{"a", 0.6, step}, {"b", 0.3, step / 2}, {"c", 0.3, step / 2}}, now)
		}
		if a, b, c := u.Share("a", now), u.Share("b", now), u.Share("c", now); !near(a, 0.6) || !near(b, 0.15) || b != c {
			t.Errorf("every %v: a has %v, b %v and c %v; want 0.6, 0.15 and 0.15", step, a, b, c)
		}
		later := now.Add(HalfLife)
		if once, twice := u.Share("a", later), u.Charge(nil, now.Add(HalfLife/3)).Share("a", later); !near(once, 0.3) || math.Abs(once-twice) > 1e-9 {
			t.Errorf("a half-life later a has %v, or %v if it was charged between; want 0.3", once, twice)
		}
		for _, test := range []struct {
			callers []string
			at      time.Time
			want    float64
		}{
			{[]string{"a"}, now, math.Sqrt2 / 2}, {[]string{"a", "b"}, now, math.Sqrt2 / 8}, {[]string{"a", "new"}, now, 0},
			{[]string{"a"}, later, math.Sqrt2 / 4}, {[]string{"a"}, now.Add(12 * HalfLife), 0},
		} {
			if got, any := u.Place(test.callers, test.at); !any || math.Abs(got-test.want) > 1e-9 {
				t.Errorf("the place of %v at %v is %v, %v; want %v", test.callers, test.at, got, any, test.want)
			}
		}
		if _, any := u.Place(nil, now); any {
			t.Error("nobody has a place")
		}
		if u = u.Charge(nil, now.Add(24*time.Hour)); len(u.Of) != 0 {
			t.Errorf("a day later there is %v", u.Of)
		}
	}
}

// A clock that is set back makes nobody's use grow, and callers without end are not kept.
func TestUsesAreBounded(t *testing.T) {
	u := Uses{}.Charge([]Used{{"a", 1, HalfLife}}, dawn)
	if before, after := u.Share("a", dawn), u.Share("a", dawn.Add(-time.Hour)); after != before {
		t.Errorf("an hour earlier a has %v, not %v", after, before)
	}
	if u = u.Charge([]Used{{"a", 1, 1000 * time.Hour}}, dawn); u.Of["a"] != 1 {
		t.Errorf("a has %v of the machine", u.Of["a"])
	}
	if least := (Uses{At: dawn, Of: map[string]float64{"b": leastUse}}).Charge(nil, dawn); len(least.Of) != 1 {
		t.Error("the least use that counts is forgotten")
	}
	if share, _ := (Uses{At: dawn, Of: map[string]float64{"b": smallUse}}).Place([]string{"b"}, dawn); share == 0 {
		t.Error("the least use that gives a place gives none")
	}
	var list []Used
	for i := range 2 * mostUses {
		list = append(list, Used{fmt.Sprint("c", i), 0.1, time.Second * time.Duration(10+i)})
	}
	if u = u.Charge(list, dawn); len(u.Of) != mostUses || u.Of["a"] == 0 || u.Of["c0"] != 0 {
		t.Errorf("%d callers are kept; want %d, with the largest", len(u.Of), mostUses)
	}
}
