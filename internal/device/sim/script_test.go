package sim

import (
	"math"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/text/words"
)

func scriptOf(t *testing.T, timeline string) script {
	t.Helper()
	s, err := parse(t, "devices: h200\ntimeline:\n"+timeline)
	if err != nil {
		t.Fatal(err)
	}
	return s.scripts[0]
}

func TestLoadInForce(t *testing.T) {
	m := h200(t)
	for _, c := range []struct {
		name, timeline string
		want           map[float64]float64 // percent at seconds
	}{
		{"nothing", "", map[float64]float64{0: 0, 100: 0}},
		{"until changed", `
  - {at: 10s, device: 0, load: 40}
  - {at: 20s, device: 0, load: 60}`,
			map[float64]float64{9.999: 0, 10: 40, 19.999: 40, 20: 60, 1e6: 60}},
		{"what was before comes back", `
  - {at: 0s, device: 0, load: 20}
  - {at: 10s, for: 5s, device: 0, load: 90}`,
			map[float64]float64{0: 20, 10: 90, 14.999: 90, 15: 20}},
		{"of two at once the later line counts", `
  - {at: 1s, device: 0, load: 20}
  - {at: 1s, device: 0, load: 30}`,
			map[float64]float64{1: 30}},
		{"repeated", `
  - {at: 5s, for: 2s, repeat: 10s, device: 0, load: 50}`,
			map[float64]float64{4: 0, 5: 50, 6.999: 50, 7: 0, 15: 50, 17: 0, 100_005: 50, 100_007: 0}},
		{"repeated without end", `
  - {at: 0s, repeat: 10s, device: 0, load: 10}
  - {at: 5s, repeat: 10s, device: 0, load: 70}`,
			map[float64]float64{0: 10, 5: 70, 10: 10, 15: 70}},
		{"ramp", `
  - {at: 10s, device: 0, load: 80, ramp: 10s}`,
			map[float64]float64{9: 0, 10.05: 0.4, 15.05: 40.4, 20: 80, 30: 80}},
		{"ramp from what was before", `
  - {at: 0s, device: 0, load: 20}
  - {at: 10s, device: 0, load: 80, ramp: 10s}`,
			map[float64]float64{9: 20, 15.05: 50.3, 20: 80}},
		{"ramp from where a ramp was heading", `
  - {at: 0s, device: 0, load: 100, ramp: 10s}
  - {at: 5s, device: 0, load: 0, ramp: 10s}`,
			map[float64]float64{4.95: 49.5, 10.05: 49.5, 15: 0}},
		{"processes add up", `
  - {at: 0s, device: 0, load: 20}
  - {at: 5s, for: 5s, device: 0, process: {pid: 1, load: 30}}
  - {at: 6s, for: 1s, device: 0, process: {pid: 2, load: 90}}`,
			map[float64]float64{0: 20, 5: 50, 6: 100, 7: 50, 10: 20}},
		{"nothing runs on what is lost", `
  - {at: 0s, device: 0, load: 20}
  - {at: 5s, for: 5s, device: 0, lost: true}`,
			map[float64]float64{4: 20, 5: 0, 9.9: 0, 10: 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scriptOf(t, c.timeline)
			for seconds, want := range c.want {
				at := time.Duration(seconds * float64(time.Second))
				d, until := s.drive(at, m, nil)
				if math.Abs(100*d.load-want) > 1e-6 {
					t.Errorf("at %gs: %g %%; want %g", seconds, 100*d.load, want)
				}
				if until <= at {
					t.Errorf("at %gs: holds until %v, which is over", seconds, until)
				}
			}
		})
	}
}

// A drive must hold for as long as it says.
func TestDriveHoldsUntilItSays(t *testing.T) {
	m := h200(t)
	s := scriptOf(t, `
  - {at: 1s, for: 2500ms, repeat: 7s, device: 0, load: 50, ramp: 1s}
  - {at: 3s, for: 4s, repeat: 11s, device: 0, process: {pid: 1, load: 30}}
  - {at: 5s, for: 1s, repeat: 13s, device: 0, lost: true}
  - {at: 20s, for: 10s, device: 0, ambient_celsius: 50}
  - {at: 25s, device: 0, cooling: 0.5}`)
	const step = 10 * time.Millisecond
	held, until := s.drive(0, m, nil)
	for at := step; at < time.Minute; at += step {
		now, next := s.drive(at, m, nil)
		if at < until && now != held {
			t.Fatalf("at %v: %+v; %+v was to hold until %v", at, now, held, until)
		}
		if at >= until {
			held, until = now, next
		}
	}
}

func TestHungUntil(t *testing.T) {
	s := scriptOf(t, `
  - {at: 10s, for: 5s, repeat: 20s, device: 0, hang: true}
  - {at: 100s, device: 0, hang: true}`)
	for at, want := range map[time.Duration]time.Duration{
		0: 0, 9 * time.Second: 0, 10 * time.Second: 15 * time.Second, 15 * time.Second: 0,
		34 * time.Second: 35 * time.Second, 107 * time.Second: never,
	} {
		until, hung := s.hungUntil(at)
		if hung != (want != 0) || until != want {
			t.Errorf("at %v: hung %v until %v; want until %v", at, hung, until, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"load", "laod", 1}, {"h20", "h200", 1}, {"kitten", "sitting", 3}} {
		if got := words.Distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d; want %d", c.a, c.b, got, c.want)
		}
	}
}
