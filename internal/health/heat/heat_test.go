package heat

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// card is a GPU whose response is known.
type card struct {
	around   float64
	gain     []float64 // degrees per watt
	lag      []float64 // seconds
	rise     []float64
	now      time.Time
	watts    float64
	fraction bool // shows fractions of a degree
}

// server follows its power within seconds, and boxed takes minutes.
func server() *card {
	return rested(&card{around: 34, gain: []float64{0.033, 0.005}, lag: []float64{0.3, 25}}, 120)
}

func boxed() *card {
	return rested(&card{around: 27, gain: []float64{0.03, 0.06}, lag: []float64{5, 120}}, 20)
}

func rested(c *card, watts float64) *card {
	c.now, c.watts = time.Unix(1_800_000_000, 0), watts
	c.rise = make([]float64, len(c.gain))
	for i := range c.rise {
		c.rise[i] = c.gain[i] * watts
	}
	return c
}

// draw lets the card draw so many watts for a time.
func (c *card) draw(d time.Duration, watts float64) {
	for i := range c.rise {
		c.rise[i] = approach(c.rise[i], c.gain[i]*watts, d.Seconds(), c.lag[i])
	}
	c.now, c.watts = c.now.Add(d), watts
}

func (c *card) celsius() float64 {
	sum := c.around
	for _, r := range c.rise {
		sum += r
	}
	return sum
}

func (c *card) teach(m *Model) {
	shown := c.celsius()
	if !c.fraction {
		shown = math.Round(shown)
	}
	m.Learn(c.now, gpu.Some(gpu.Celsius(shown)), gpu.Some(gpu.Watts(c.watts)))
}

// vary teaches a model a varied load of so many samples.
func (c *card) vary(m *Model, samples int, every time.Duration, seed uint64) {
	chance := rand.New(rand.NewPCG(seed, 1))
	watts, left := c.watts, time.Duration(0)
	for range samples {
		if left -= every; left <= 0 {
			left = time.Duration(5+chance.IntN(40)) * time.Second
			watts = 20 + 400*chance.Float64()
		}
		c.draw(every, watts)
		c.teach(m)
	}
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s: %.2f, want %.2f within %.2f", what, got, want, within)
	}
}

func TestLearnsCards(t *testing.T) {
	for name, c := range map[string]struct {
		card    *card
		samples int
		every   time.Duration
	}{
		"server":               {server(), 300, time.Second},
		"server, ten a second": {server(), 9000, 100 * time.Millisecond},
		"server, every 10 s":   {server(), 200, 10 * time.Second},
		"boxed":                {boxed(), 900, time.Second},
		"boxed, every 5 s":     {boxed(), 400, 5 * time.Second},
		"boxed, every minute":  {boxed(), 400, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			var m Model
			c.card.vary(&m, c.samples, c.every, 3)
			if !m.Ready() {
				t.Fatal("it is not ready")
			}
			whole := 0.0
			for _, g := range c.card.gain {
				whole += g
			}
			near(t, "degrees per watt", m.PerWatt(), whole, 0.15*whole)
			near(t, "settled at 300 W", float64(m.Settle(300).Mean), c.card.around+300*whole, 3)
			for _, d := range []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute} {
				there := *c.card
				there.rise = append([]float64(nil), c.card.rise...)
				there.draw(d, 380)
				near(t, "in "+d.String(), float64(m.Ahead(d, 380).Mean), there.celsius(), 2)
			}
		})
	}
}

// A program whose watts warm the chip less is known by its power when it returns, and
// it does not make the device look cooler at other powers.
func TestKnowsProgramsByPower(t *testing.T) {
	c := server()
	var m Model
	programs := []struct{ watts, cooler float64 }{{690, 0}, {120, 0}, {475, 6}, {120, 0}, {330, 0}, {120, 0}}
	shown := func(watts, cooler float64) float64 { return 34 + 0.038*watts - cooler }
	for range 3 {
		for _, p := range programs {
			c.around = 34 - p.cooler
			for range 20 {
				c.draw(time.Second, p.watts)
				c.teach(&m)
			}
			for _, q := range programs {
				if m.Seconds > 150 {
					near(t, fmt.Sprintf("from %g W, a minute at %g W", p.watts, q.watts), float64(m.Ahead(time.Minute, gpu.Watts(q.watts)).Mean), shown(q.watts, q.cooler), 1.5)
				}
			}
		}
	}
}

// Errors of one sign do not pass for a rise from surroundings that are too cold.
func TestSurroundingsAreNotTooCold(t *testing.T) {
	for seed := range uint64(20) {
		c := server()
		c.watts = 690
		var m Model
		chance := rand.New(rand.NewPCG(seed, 2))
		for range 30 {
			watts := 120 + 570*chance.Float64()
			c.around = 34 - 12*chance.Float64()
			for range 8 {
				c.draw(time.Second, watts)
				c.teach(&m)
			}
		}
		around := m.Fit.Centre.Celsius - m.Fit.rise(&m.Fit.Centre.Lagged)
		if m.Seasoned() && around < coolest-1 {
			t.Errorf("seed %d: the surroundings have %.1f °C", seed, around)
		}
	}
}

// An interval is never narrower than what a sensor of whole degrees tells.
func TestIntervalIsHonest(t *testing.T) {
	c := server()
	var m Model
	for range 600 {
		c.draw(time.Second, 120)
		c.teach(&m)
	}
	for _, d := range []time.Duration{time.Second, 10 * time.Second, 10 * time.Minute} {
		if g := m.Ahead(d, 120); g.High-g.Mean < narrowest || g.Mean-g.Low < narrowest {
			t.Errorf("in %v: %+v", d, g)
		}
	}
}

// A daemon that starts while a card heats up knows nothing of what was before.
func TestStartsInTheMiddle(t *testing.T) {
	c := boxed()
	var m Model
	for range 120 {
		c.draw(time.Second, 400)
		c.teach(&m)
	}
	near(t, "settled", float64(m.Settle(400).Mean), 27+400*0.09, 5)
}

func TestReach(t *testing.T) {
	c := boxed()
	var m Model
	for range 60 {
		c.draw(time.Second, 20)
		c.teach(&m)
	}
	const limit = 55
	started := c.now
	type told struct {
		at time.Time
		in Crossing
	}
	var all []told
	for math.Round(c.celsius()) < limit {
		c.draw(time.Second, 400)
		c.teach(&m)
		all = append(all, told{c.now, m.Reach(limit, 400)})
	}
	whole := c.now.Sub(started)
	for _, a := range all[len(all)/2:] {
		left := c.now.Sub(a.at)
		if a.in.Never || math.Abs((a.in.In-left).Seconds()) > 0.1*whole.Seconds() {
			t.Errorf("%v before: told %+v", left, a.in)
		}
		if a.in.Soonest > a.in.In || a.in.Latest < a.in.In {
			t.Errorf("the times are out of order: %+v", a.in)
		}
	}
	if got := m.Reach(limit, 400); got.Never || got.In != 0 {
		t.Errorf("at the limit: %+v", got)
	}
	if got := m.Reach(85, 400); !got.Never || got.In != Forever {
		t.Errorf("a limit that no such power reaches: %+v", got)
	}
}

func TestDrifts(t *testing.T) {
	c := server()
	var m Model
	c.vary(&m, 300, time.Second, 5)
	for range 900 { // a door opens: four degrees in a quarter of an hour
		c.around -= 4.0 / 900
		c.draw(time.Second, 300)
		c.teach(&m)
	}
	near(t, "at present", float64(m.Ahead(30*time.Second, 300).Mean), c.celsius(), 1)
	near(t, "at another power", float64(m.Ahead(5*time.Minute, 100).Mean), c.around+100*0.038, 2.5)
}

// A device that rests does not forget what it taught.
func TestRests(t *testing.T) {
	c := server()
	var m Model
	c.vary(&m, 300, time.Second, 5)
	before := m.PerWatt()
	for range 20_000 {
		c.draw(time.Second, 80)
		c.teach(&m)
	}
	near(t, "degrees per watt", m.PerWatt(), before, 0.1*before)
}

func TestBadInput(t *testing.T) {
	bad := map[string]func(m *Model, c *card){
		"a sensor that reads 0":   func(m *Model, c *card) { m.Learn(c.now, gpu.Some[gpu.Celsius](0), gpu.Some[gpu.Watts](100)) },
		"a sensor that reads 255": func(m *Model, c *card) { m.Learn(c.now, gpu.Some[gpu.Celsius](255), gpu.Some[gpu.Watts](100)) },
		"a leap":                  func(m *Model, c *card) { m.Learn(c.now, gpu.Some[gpu.Celsius](110), gpu.Some[gpu.Watts](100)) },
		"not a number": func(m *Model, c *card) {
			m.Learn(c.now, gpu.Some(gpu.Celsius(math.NaN())), gpu.Some(gpu.Watts(math.NaN())))
			m.Learn(c.now, gpu.Some(gpu.Celsius(math.Inf(1))), gpu.Some(gpu.Watts(math.Inf(1))))
		},
		"a negative power": func(m *Model, c *card) { m.Learn(c.now, gpu.Some[gpu.Celsius](50), gpu.Some[gpu.Watts](-3)) },
		"no power":         func(m *Model, c *card) { m.Learn(c.now, gpu.Some[gpu.Celsius](50), gpu.Opt[gpu.Watts]{}) },
		"no temperature":   func(m *Model, c *card) { m.Learn(c.now, gpu.Opt[gpu.Celsius]{}, gpu.Some[gpu.Watts](100)) },
		"a time before": func(m *Model, c *card) {
			m.Learn(c.now.Add(-time.Hour), gpu.Some[gpu.Celsius](50), gpu.Some[gpu.Watts](100))
		},
		"the same time": func(m *Model, c *card) { m.Learn(m.at, gpu.Some[gpu.Celsius](50), gpu.Some[gpu.Watts](100)) },
	}
	for name, do := range bad {
		t.Run(name, func(t *testing.T) {
			c := server()
			var m Model
			c.vary(&m, 300, time.Second, 5)
			for i := range 100 {
				c.draw(time.Second, float64(100+300*(i/20%2)))
				c.teach(&m)
				if i%7 == 0 {
					c.draw(500*time.Millisecond, c.watts)
					do(&m, c)
				}
			}
			near(t, "degrees per watt", m.PerWatt(), 0.038, 0.006)
			near(t, "in 30 s", float64(m.Ahead(30*time.Second, 400).Mean), 34+0.038*400, 2)
			if !m.Ready() {
				t.Error("it is not ready")
			}
		})
	}
}

func TestPowerGoesAway(t *testing.T) {
	c := server()
	var m Model
	c.vary(&m, 300, time.Second, 5)
	for i := range 30 {
		c.draw(time.Second, 300)
		m.Learn(c.now, gpu.Some(gpu.Celsius(c.celsius())), gpu.Opt[gpu.Watts]{})
		if ready := i < 15; m.Ready() != ready || m.Power().Known() != ready {
			t.Fatalf("after %d s without power: ready %v", i+1, m.Ready())
		}
	}
	c.draw(time.Second, 300)
	c.teach(&m)
	if !m.Ready() {
		t.Error("power is back, and it is not ready")
	}
}

func TestZeroValue(t *testing.T) {
	var m Model
	if m.Ready() || m.Power().Known() {
		t.Error("a model that has learned nothing is ready")
	}
	m.Ahead(time.Minute, 100)
	m.Present(time.Minute)
	m.Settle(100)
	m.Reach(80, 100)
}

// A gap, and a clock that somebody set, cost what was under way and no more.
func TestGaps(t *testing.T) {
	for name, gap := range map[string]time.Duration{"an hour": time.Hour, "five minutes": 5 * time.Minute, "a clock set back": -2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			c := boxed()
			var m Model
			c.vary(&m, 900, time.Second, 5)
			if gap > 0 {
				c.draw(gap, 200)
			} else {
				c.now = c.now.Add(gap)
			}
			for range 180 {
				c.draw(time.Second, 350)
				c.teach(&m)
			}
			near(t, "settled", float64(m.Settle(350).Mean), 27+0.09*350, 3)
		})
	}
}

func TestJSON(t *testing.T) {
	c := server()
	var m, read Model
	c.vary(&m, 700, time.Second, 5)
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > 40_000 {
		t.Errorf("it takes %d bytes", len(b))
	}
	if err := json.Unmarshal(b, &read); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		for _, d := range []time.Duration{time.Second, 30 * time.Second, time.Hour} {
			if g, w := read.Ahead(d, 300), m.Ahead(d, 300); math.Abs(float64(g.Mean-w.Mean)) > 1e-6 {
				t.Fatalf("in %v: read %+v, was %+v", d, g, w)
			}
		}
		c.draw(time.Second, 300)
		c.teach(&m)
		c.teach(&read)
	}
	if err := json.Unmarshal([]byte(`{"version": 99}`), &read); err == nil {
		t.Error("another version is read")
	}
}

func TestCopiesAreIndependent(t *testing.T) {
	c := server()
	var m Model
	c.vary(&m, 300, time.Second, 5)
	kept := m
	before := m.Ahead(30*time.Second, 300)
	c.vary(&m, 300, time.Second, 6)
	if got := kept.Ahead(30*time.Second, 300); got != before {
		t.Errorf("the copy says %+v, and said %+v", got, before)
	}
}

func BenchmarkLearn(b *testing.B) {
	c := server()
	var m Model
	c.vary(&m, 300, time.Second, 5)
	for b.Loop() {
		c.draw(time.Second, c.watts)
		c.teach(&m)
	}
}

func BenchmarkReach(b *testing.B) {
	c := server()
	var m Model
	c.vary(&m, 300, time.Second, 5)
	for b.Loop() {
		m.Reach(80, 300)
	}
}

// A device that rests while its room warms up teaches nothing about its power:
// nobody may act by what a model makes of that.
func TestRestIsNotSeasoning(t *testing.T) {
	var m Model
	at := time.Unix(1e9, 0)
	for i := range 900 {
		at = at.Add(time.Second)
		m.Learn(at, gpu.Some(gpu.Celsius(25+math.Floor(float64(i)/60))), gpu.Some(gpu.Watts(28+i%2)))
	}
	if !m.Ready() || m.Seasoned() {
		t.Errorf("after a quarter of an hour at rest: ready %t, seasoned %t", m.Ready(), m.Seasoned())
	}
	for range 120 {
		at = at.Add(time.Second)
		m.Learn(at, gpu.Some(gpu.Celsius(60)), gpu.Some(gpu.Watts(120)))
	}
	if !m.Seasoned() {
		t.Error("two minutes of load are not enough")
	}
	for _, w := range []gpu.Watts{0, 28, 120, 300} {
		if g := m.Settle(w); g.Low > g.Mean || g.High < g.Mean {
			t.Errorf("at %g W: %+v", w, g)
		}
	}
}
