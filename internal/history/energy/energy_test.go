package energy

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// at returns a reading some seconds after noon.
func at(seconds float64, watts gpu.Watts, shares Shares) Reading {
	return Reading{
		At: noon.Add(time.Duration(seconds * float64(time.Second))), Power: gpu.Some(watts), Most: 700, Shares: shares, Gap: 5 * time.Second,
	}
}

// counting adds what the counter of the driver says.
func (r Reading) counting(joules gpu.Joules) Reading {
	r.Counter, r.CounterAt = gpu.Some(joules), r.At
	return r
}

func without(r Reading) Reading {
	r.Power = gpu.Opt[gpu.Watts]{}
	return r
}

// whole checks that the parts of a device add up.
func whole(t interface{ Errorf(string, ...any) }, d *Meter) {
	if sum := d.Idle + d.Others + d.Leases; sum != d.Total {
		t.Errorf("the parts add up to %d µJ, and the whole is %d µJ", sum, d.Total)
	}
}

// joules rounds for tables.
func joules(d *Meter) [4]float64 {
	r := func(a Amount) float64 { return math.Round(float64(a.Joules())) }
	return [4]float64{r(d.Total), r(d.Idle), r(d.Others), r(d.Leases)}
}

// idled returns a device that has learned that it draws 100 W by itself.
func idled() *Meter { return &Meter{Baseline: Baseline{Watts: 100, Empty: true}} }

func TestSplit(t *testing.T) {
	one, two := Shares{1: 1}, Shares{1: 3, 2: 1}
	for _, c := range []struct {
		name     string
		readings []Reading
		want     [4]float64 // total, idle, others, leases
	}{
		{"nobody", []Reading{at(0, 100, nil), at(1, 100, nil), at(2, 100, nil)}, [4]float64{200, 200, 0, 0}},
		{"one lease", []Reading{at(0, 500, one), at(1, 500, one)}, [4]float64{500, 100, 0, 400}},
		{"two leases", []Reading{at(0, 500, two), at(1, 500, two)}, [4]float64{500, 100, 0, 400}},
		{"a lease and a stranger", []Reading{at(0, 500, Shares{Others: 1, 7: 3}), at(1, 500, Shares{Others: 1, 7: 3})}, [4]float64{500, 100, 100, 300}},
		{"below the baseline", []Reading{at(0, 60, one), at(1, 60, one)}, [4]float64{60, 60, 0, 0}},
		{"it rises", []Reading{at(0, 100, nil), at(1, 500, one)}, [4]float64{300, 100, 0, 200}},
		{"the sensor says 0 once", []Reading{at(0, 500, one), at(1, 0, one), at(2, 500, one), at(3, 500, one)}, [4]float64{500, 100, 0, 400}},
		{"the sensor says 65 kW once", []Reading{at(0, 500, one), at(1, 65535, one), at(2, 500, one), at(3, 500, one)}, [4]float64{500, 100, 0, 400}},
		{"the power is not known", []Reading{without(at(0, 0, one)), without(at(1, 0, one)), without(at(2, 0, one))}, [4]float64{}},
		{"a gap", []Reading{at(0, 500, one), at(60, 500, one), at(61, 500, one)}, [4]float64{500, 100, 0, 400}},
		{"the clock is set back", []Reading{at(100, 500, one), at(50, 500, one), at(51, 500, one)}, [4]float64{500, 100, 0, 400}},
		{"the same moment twice", []Reading{at(0, 500, one), at(0, 500, one), at(1, 500, one)}, [4]float64{500, 100, 0, 400}},
		{"shares that are none", []Reading{at(0, 500, Shares{1: -1, 2: 0, 3: 1}), at(1, 500, Shares{3: 1, 4: math.NaN(), 5: math.Inf(1)})}, [4]float64{500, 100, 0, 400}},
		{"the counter says more", []Reading{at(0, 500, one).counting(7000), at(1, 500, one), at(2, 500, one).counting(8100)}, [4]float64{1100, 220, 0, 880}},
		{"the counter covers a gap", []Reading{at(0, 500, one).counting(7000), at(60, 500, one).counting(37000)}, [4]float64{30000, 6000, 0, 24000}},
		{"somebody else came in the gap", []Reading{at(0, 500, one).counting(7000), at(60, 500, Shares{2: 1}).counting(37000)}, [4]float64{30000, 6000, 24000, 0}},
		{"the counter knows when the power is not known", []Reading{without(at(0, 0, one)).counting(7000), without(at(1, 0, one)), without(at(2, 0, one)).counting(7900)}, [4]float64{900, 200, 0, 700}},
		{"the counter goes back", []Reading{at(0, 500, one).counting(7000), at(1, 500, one).counting(3), at(2, 500, one).counting(503)}, [4]float64{1000, 200, 0, 800}},
		{"the counter jumps", []Reading{at(0, 500, one).counting(7000), at(1, 500, one).counting(9e9), at(2, 500, one).counting(9e9 + 500)}, [4]float64{1000, 200, 0, 800}},
		{"the counter is no number", []Reading{at(0, 500, one).counting(gpu.Joules(math.NaN())), at(1, 500, one).counting(-5)}, [4]float64{500, 100, 0, 400}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, leased := idled(), Amount(0)
			for _, r := range c.readings {
				for _, amount := range d.Observe(r) {
					leased += amount
				}
			}
			whole(t, d)
			if got := joules(d); got != c.want {
				t.Errorf("total, idle, others and leases are %v J, want %v", got, c.want)
			}
			if leased != d.Leases {
				t.Errorf("leases got %d µJ, and the device says %d", leased, d.Leases)
			}
		})
	}
}

// A counter that says less than the samples must not take back what somebody has
// seen: the device books nothing until it is right again.
func TestNothingIsTakenBack(t *testing.T) {
	one := Shares{1: 1}
	d := idled()
	d.Observe(at(0, 500, one).counting(0))
	d.Observe(at(1, 500, one))
	d.Observe(at(2, 500, one).counting(700))
	if got := joules(d); got != [4]float64{1000, 200, 0, 800} {
		t.Errorf("right after the counter: %v", got)
	}
	d.Observe(at(3, 500, one))
	if got := joules(d); got[0] != 1200 {
		t.Errorf("a second later: %v", got)
	}
	d.Observe(at(4, 500, one).counting(1700))
	if got := joules(d); got[0] != 1700 || d.Counter.Owed != 0 {
		t.Errorf("at the next reading: %v, %d µJ owed", got, d.Counter.Owed)
	}
	whole(t, d)
}

func TestUnmeasured(t *testing.T) {
	one := Shares{1: 1}
	d := idled()
	for _, r := range []Reading{at(0, 500, one), at(60, 500, one), without(at(61, 0, one)), at(62, 500, one)} {
		d.Observe(r)
	}
	if d.Unmeasured != 62 || d.Counted {
		t.Errorf("without a counter, %v s are not measured", d.Unmeasured)
	}
	d = idled()
	for _, r := range []Reading{at(0, 500, one).counting(1), at(60, 500, one), at(61, 500, one).counting(20001)} {
		d.Observe(r)
	}
	if d.Unmeasured != 0 || !d.Counted || joules(d)[0] != 20000 {
		t.Errorf("with a counter, %v s are not measured of %v J", d.Unmeasured, joules(d))
	}
}

func TestLeave(t *testing.T) {
	d := idled()
	d.Observe(at(0, 500, Shares{1: 1, 2: 1}).counting(0))
	first := d.Observe(at(1, 500, Shares{1: 1, 2: 1}))
	last := d.Leave(1, noon.Add(1500*time.Millisecond), 5*time.Second)
	if diff := cmp.Diff(Booking{1: Of(200), 2: Of(200)}, first); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Booking{1: Of(100), 2: Of(100)}, last); diff != "" {
		t.Error(diff)
	}
	after := d.Observe(at(2, 500, Shares{2: 1}).counting(2000)) // twice what was measured
	if after[1] != 0 || after[2] == 0 || d.Total != Of(2000) || d.Others == 0 {
		t.Errorf("after its end, the lease got %v; the device has %v", after, joules(d))
	}
	whole(t, d)
}

func TestBaseline(t *testing.T) {
	d := &Meter{}
	second := 0.0
	run := func(seconds int, watts gpu.Watts, shares Shares) gpu.Watts {
		for range seconds {
			d.Observe(at(second, watts, shares))
			second++
		}
		return d.Baseline.Watts
	}
	busy := Shares{1: 1}
	if got := run(30, 600, busy); got != 70 {
		t.Errorf("a device that is busy from the start is taken to draw %v W by itself", got)
	}
	if got := run(30, 90, nil); got < 85 || got > 95 {
		t.Errorf("after half a minute without a process it is %v W", got)
	}
	if got := run(30, 80, busy); got > 81 {
		t.Errorf("a process that does less brings it to %v W", got)
	}
	if got := run(3600, 95, nil); got < 94 || got > 95 {
		t.Errorf("an hour in a warmer room brings it to %v W", got)
	}
}

// Whatever is measured, the parts add up to the whole, no sum gets smaller, and
// what is booked since the first reading of a sound counter is what it counted.
func TestPartsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := idled()
		sound := rapid.Bool().Draw(t, "the counter is sound")
		now, counted, truth := noon, 0.0, 0.0
		var before, offset, leased Amount
		began := false
		for range rapid.IntRange(1, 40).Draw(t, "readings") {
			step := rapid.SampledFrom([]float64{0.1, 1, 1, 1, 1.5, 30, 4000}).Draw(t, "seconds")
			now = now.Add(time.Duration(step * float64(time.Second)))
			truth += step * rapid.Float64Range(50, 700).Draw(t, "true power")
			shares := Shares{}
			for _, p := range rapid.SliceOfNDistinct(rapid.SampledFrom([]Party{Others, 1, 2, 3}), 0, 4, rapid.ID[Party]).Draw(t, "parties") {
				shares[p] = rapid.Float64Range(0, 1).Draw(t, "share")
			}
			r := Reading{At: now, Most: 700, Shares: shares, Gap: 5 * time.Second}
			if rapid.Bool().Draw(t, "power is known") {
				r.Power = gpu.Some(gpu.Watts(rapid.SampledFrom([]float64{0, 50, 300, 700, 690, 1e9, math.NaN(), -3}).Draw(t, "power")))
			}
			read := rapid.IntRange(0, 3).Draw(t, "counter is read") == 0
			if read {
				counted = math.Round(truth*1000) / 1000
				if !sound {
					counted = rapid.Float64Range(-1e3, 1e13).Draw(t, "counter")
				}
				r = r.counting(gpu.Joules(counted))
			}
			if !sound && rapid.IntRange(0, 9).Draw(t, "clock is set back") == 0 {
				now = now.Add(-time.Hour)
				r.At = now
			}
			for _, amount := range d.Observe(r) {
				leased += amount
			}
			if sound && read {
				if !began {
					began, offset = true, d.Total-Of(gpu.Joules(counted))
				}
				if d.Total != Of(gpu.Joules(counted))+offset+d.Counter.Owed {
					t.Fatalf("the driver counted %v J, booked are %d µJ of which %d are owed", counted, d.Total-offset, d.Counter.Owed)
				}
			}
			if rapid.IntRange(0, 5).Draw(t, "a lease ends") == 0 {
				for _, amount := range d.Leave(uint64(rapid.IntRange(1, 3).Draw(t, "fence")), now.Add(100*time.Millisecond), 5*time.Second) {
					leased += amount
				}
				now = now.Add(100 * time.Millisecond)
				truth += 0.1 * 400
			}
			if rapid.IntRange(0, 5).Draw(t, "restart") == 0 {
				text, err := json.Marshal(d)
				if err != nil {
					t.Fatal(err)
				}
				again := &Meter{}
				if err := json.Unmarshal(text, again); err != nil {
					t.Fatal(err)
				}
				again.Baseline.block = d.Baseline.block
				d = again
			}
			whole(t, d)
			if d.Total < before || leased != d.Leases {
				t.Fatalf("the total went from %d to %d µJ; leases got %d of %d", before, d.Total, leased, d.Leases)
			}
			before = d.Total
		}
	})
}
