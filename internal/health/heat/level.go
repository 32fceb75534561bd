package heat

import "math"

// levels is the number of powers that a model remembers.
const levels = 16

// Constants of levels.
const (
	sameLevel = 0.02 // share of the highest power: samples within it belong to one level
	reaches   = 0.01 // share of the highest power: how far around it a level counts
	elsewhere = 0.02 // weight of a level at any other power
	adapts    = 8    // seconds at a level that replace its temperature
	trusted   = 2    // seconds at a level after which it counts in full
	fresh     = 200  // seconds after its last visit until a level counts a quarter
	turning   = 0.1  // share of the highest power: a power that changes that much within a sample counts half
)

// level is a power that the device has drawn, with its temperature then.
//
// The gains are one answer for all programs. But a watt that goes into memory warms the
// chip less than one that goes into arithmetic, and a load that swings faster than the
// samples shows them the same side of each swing. So the gains miss by some degrees, for
// as long as a program runs, and again when it returns. A program is known by its power:
// a level keeps the error of the gains there.
type level struct {
	Watts   float64
	Seconds float64 // time spent there, at most adapts
	Last    float64 // age of the fit at the last visit
	View    view
}

// surroundings are the unexplained part at each level: the temperature around the device,
// and the error of the gains. They are small numbers because every promise keeps a copy.
type surroundings [levels]struct {
	watts, celsius, weight float32
}

// at returns the surroundings at w watts. Levels near that power decide, the recent ones
// first; where there are none, all levels count alike.
func (s *surroundings) at(w, most float64) float64 {
	sum, weight := 0.0, 1e-9
	narrow := 1 / (reaches * max(most, 1))
	for i := range s {
		l := &s[i]
		if l.weight == 0 {
			continue
		}
		k := float64(l.weight) * (falls((w-float64(l.watts))*narrow) + elsewhere)
		sum += k * float64(l.celsius)
		weight += k
	}
	return sum / weight
}

// falls returns the weight of a level at a distance: all of it at 0, a quarter at 1, and
// hardly anything beyond.
func falls(distance float64) float64 {
	d := 1 + distance*distance
	return 1 / (d * d)
}

// visit adds a temperature to the level of the present power, which was before watts at
// the last sample.
func (f *fit) visit(seconds, c, before float64) {
	w := f.Lagged.Watts[0]
	l := f.levelOf(w)
	turn := (w - before) / (turning * max(f.Most, 1))
	seconds /= 1 + turn*turn
	l.Seconds = min(l.Seconds+seconds, adapts)
	share := min(1, seconds/l.Seconds)
	l.Watts += (w - l.Watts) * share
	l.View.towards(c, &f.Lagged, share)
	l.Last = f.Age
}

// levelOf returns the level of a power. If there is none, it replaces the level with the
// oldest visit.
func (f *fit) levelOf(w float64) *level {
	nearest, distance, oldest := -1, sameLevel*f.Most, 0
	for i := range f.Levels {
		l := &f.Levels[i]
		if d := math.Abs(l.Watts - w); l.Seconds > 0 && d <= distance {
			nearest, distance = i, d
		}
		if old := &f.Levels[oldest]; old.Seconds > 0 && (l.Seconds == 0 || l.Last < old.Last) {
			oldest = i
		}
	}
	if nearest >= 0 {
		return &f.Levels[nearest]
	}
	f.Levels[oldest] = level{Watts: w}
	return &f.Levels[oldest]
}

// survey finds the surroundings with the present gains.
func (f *fit) survey() {
	for i := range f.Levels {
		l, s := &f.Levels[i], &f.around[i]
		s.weight = 0
		if l.Seconds > 0 {
			s.watts = float32(l.Watts)
			s.celsius = float32(l.View.Celsius - f.rise(&l.View.Lagged))
			s.weight = float32(min(1, l.Seconds/trusted) * falls((f.Age-l.Last)/fresh))
		}
	}
}
