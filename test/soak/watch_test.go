package main

import (
	"math"
	"testing"
	"time"
)

// seen returns looks at a quantity that grows by slope in an hour, with noise around it.
func seen(level, slope, noise float64) (looks []look) {
	for i := range 720 {
		one := look{at: time.Duration(i) * 5 * time.Second}
		one.values[memory] = level + slope*one.at.Hours() + noise*math.Sin(float64(i)*1.7)
		looks = append(looks, one)
	}
	return looks
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		name                       string
		level, slope, noise, bound float64
		want                       string
	}{
		{"noise alone", 60, 0, 5, 0, "flat"},
		{"a slope within the noise", 60, 0.4, 5, 0, "flat"},
		{"less than before", 60, -10, 1, 0, "flat"},
		{"a leak", 60, 10, 1, 0, "GROWS, to 305 in a day"},
		{"a ring that fills", 60, 10, 1, 1024, "fills, to 1024 at most"},
		{"more than there may be", 2000, 100, 1, 1024, "GROWS, to 4450 in a day"},
	} {
		l := fit(means(seen(c.level, c.slope, c.noise)), memory)
		if math.Abs(l.slope-c.slope) > l.error+1e-9 {
			t.Errorf("%s: the slope is %.3f ± %.3f, want %.3f", c.name, l.slope, l.error, c.slope)
		}
		if got, _ := l.verdict(c.bound); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// What stays for a while and goes is no growth.
func TestNoiseThatLasts(t *testing.T) {
	for _, period := range []float64{4, 11, 40, 90} { // looks
		looks := seen(60, 0, 0)
		for i := range looks {
			looks[i].values[memory] += 5 * math.Sin(2*math.Pi*float64(i)/period)
		}
		if got, _ := fit(means(looks), memory).verdict(0); got != "flat" {
			t.Errorf("noise with a period of %.0f looks: %s", period, got)
		}
	}
}

func TestTooShort(t *testing.T) {
	if err := judge(seen(1, 0, 0)[:5]); err == nil {
		t.Error("five looks are enough")
	}
}
