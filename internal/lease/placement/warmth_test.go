package placement

import (
	"math"
	"slices"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

func TestWarmthSaysWhereItEnds(t *testing.T) {
	for _, c := range []struct {
		w    Warmth
		more gpu.Watts
		want string
	}{
		{Warmth{Settles: 60, PerWatt: 0.08, Limit: 75}, 300, "it would settle at 84 °C, above temp_normal 75 °C"},
		{Warmth{Settles: 84, PerWatt: 0.08, Limit: 75}, 0, "it would settle at 84 °C, above temp_normal 75 °C"},
		{Warmth{Settles: 75.2, PerWatt: 0.08, Limit: 75}, 0, "it would settle at 75 °C, at temp_normal 75 °C"},
	} {
		if got := c.w.Text(c.more); got != c.want {
			t.Errorf("%+v with %v: %q, want %q", c.w, c.more, got, c.want)
		}
	}
}

// A number that is none keeps no device from work.
func TestWarmthThatIsNoNumber(t *testing.T) {
	none := gpu.Celsius(math.NaN())
	for _, w := range []Warmth{{Settles: none, PerWatt: 1, Limit: 75}, {Settles: 20, PerWatt: math.NaN(), Limit: 75}, {Settles: 20, PerWatt: -1, Limit: 75}} {
		s := machine(with(warmth(w)), with(active(1)))
		if got := chosen(t, s, &lease.Request{Slots: 1, Draw: gpu.Some(gpu.Watts(50))}); got != uuid(0) {
			t.Errorf("%+v: chose %s", w, got)
		}
	}
}

// TestSetsStayCool has more devices than are searched exactly, and one request
// that there are too few cool devices for.
func TestSetsStayCool(t *testing.T) {
	s := busy(40)
	for i := range 40 {
		u := idle()
		if i%2 == 0 {
			u.Warmth = gpu.Some(Warmth{Settles: 80, PerWatt: 0.1, Limit: 75})
		}
		s.Update(uuid(i), u)
	}
	for _, count := range []int{4, 12, 20, 24} {
		got, fits := Choose(s, &lease.Request{Slots: 1, GPUs: count}, nil, nil)
		hot := 0
		for _, id := range got {
			if i := slices.IndexFunc(s.devices, func(d gpu.Device) bool { return d.UUID == id }); i%2 == 0 {
				hot++
			}
		}
		if !fits || hot != max(count-20, 0) {
			t.Errorf("%d of 40, of which 20 stay cool: %d get too hot", count, hot)
		}
	}
}
