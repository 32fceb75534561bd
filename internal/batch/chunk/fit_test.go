package chunk

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// batches gives a fit batches from a true model, scattered by a share.
func batches(f *Fit, rng *rand.Rand, n int, truth Model, scatter float64, size func() (int, float64)) {
	for range n {
		records, weight := size()
		f.Add(records, weight, truth.Seconds(records, weight)*(1+scatter*(2*rng.Float64()-1)))
	}
}

func near(got, want, share float64) bool { return math.Abs(got-want) <= share*math.Abs(want)+1e-9 }

// Whatever the coefficients are, batches like those seen are predicted well: to
// within the scatter of a batch of middling size.
func TestFitPredicts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		coefficient := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(1e-4, 10))
		truth := Model{Call: coefficient.Draw(t, "call"), Each: coefficient.Draw(t, "each"), PerWeight: coefficient.Draw(t, "per weight")}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		scatter := rapid.SampledFrom([]float64{0, 0.02, 0.2}).Draw(t, "scatter")
		size := func() (int, float64) {
			n := 1 + rng.IntN(200)
			return n, float64(n) * (10 + 1000*rng.Float64())
		}
		var f Fit
		batches(&f, rng, 300, truth, scatter, size)
		m := f.Model()
		if !m.Known {
			t.Fatal("300 batches and still nothing known")
		}
		if m.Call < 0 || m.Each < 0 || m.CallSure > m.Call || m.CallSure < 0 {
			t.Fatalf("%+v learned from %+v", m, truth)
		}
		for range 20 {
			n, w := size()
			if got, want := m.Seconds(n, w), truth.Seconds(n, w); math.Abs(got-want) > (0.01+scatter)*(want+truth.Seconds(100, 51000))/2 {
				t.Fatalf("a batch of %d, weight %g: %g s predicted, %g s true\n%+v from %+v", n, w, got, want, m, truth)
			}
		}
	})
}

func TestFitKnowsWhatItDoesNotKnow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	t.Run("nothing seen", func(t *testing.T) {
		if m := (Fit{}).Model(); m.Known {
			t.Errorf("%+v", m)
		}
	})
	t.Run("single records only", func(t *testing.T) {
		var f Fit
		batches(&f, rng, 100, Model{Each: 0.08}, 0, func() (int, float64) { return 1, 0 })
		m := f.Model()
		if m.CallSure > 0 || !near(m.Seconds(1, 0), 0.08, 0.01) {
			t.Errorf("with batches of one, the call is told from the record: %+v", m)
		}
	})
	t.Run("a call that dominates is certain", func(t *testing.T) {
		var f Fit
		batches(&f, rng, 40, Model{Call: 0.01, Each: 0.0001}, 0.05, func() (int, float64) { return 1 << rng.IntN(8), 0 })
		if m := f.Model(); m.CallSure < 0.005 || m.CallSure > 0.0101 {
			t.Errorf("call of 10 ms: sure of %g s", m.CallSure)
		}
	})
	t.Run("skewed records give no certain call", func(t *testing.T) {
		var f Fit
		for range 60 {
			n, seconds := 1+rng.IntN(3), 0.0
			for range n {
				seconds += 0.02 * math.Exp(1.5*rng.NormFloat64())
			}
			f.Add(n, 0, seconds)
		}
		if m := f.Model(); m.CallSure > 0 {
			t.Errorf("%+v", m)
		}
	})
	t.Run("weight that speeds up is noticed", func(t *testing.T) {
		var f Fit
		for range 100 {
			w := 100 * rng.Float64()
			f.Add(1, w, 2-0.01*w)
		}
		if m := f.Model(); !m.Falling || m.PerWeight >= 0 {
			t.Errorf("%+v", m)
		}
	})
	t.Run("weight that says nothing is not used", func(t *testing.T) {
		var f Fit
		batches(&f, rng, 100, Model{Each: 1}, 0.5, func() (int, float64) { return 1, 1e6 * rng.Float64() })
		if m := f.Model(); m.Falling || !near(m.Seconds(1, 5e5), 1, 0.2) {
			t.Errorf("%+v", m)
		}
	})
}

func TestSumIsLearningTogether(t *testing.T) {
	var a, b, both Fit
	for i := range 20 {
		n, seconds := 1+i, 0.5+float64(i)
		a.Add(n, 3*float64(i), seconds)
		b.Add(2*n, 5, 2*seconds)
		both.Add(n, 3*float64(i), seconds)
		both.Add(2*n, 5, 2*seconds)
	}
	got, want := Sum(a, b).Model(), both.Model()
	if !near(got.Call, want.Call, 1e-6) || !near(got.Each, want.Each, 1e-6) || !near(got.PerWeight, want.PerWeight, 1e-6) {
		t.Errorf("Sum: %+v, together: %+v", got, want)
	}
}

// Where a batch takes the same time whatever is in it, that is found out as
// soon as batches were of different sizes, and what is left is counted in calls.
func TestOnlyTheCallCosts(t *testing.T) {
	var same, varied Fit
	for i := range 20 {
		same.Add(8, 0, 0.05)
		varied.Add(1<<(i%6), 0, 0.05)
	}
	if same.Model().Varied {
		t.Error("batches of one size are said to vary")
	}
	m := varied.Model()
	if !m.Varied || !near(m.Call, 0.05, 0.001) || !near(m.Each, 0, 1e-6) {
		t.Errorf("model %+v, want all in the call", m)
	}
	if got, want := m.Total(1000, 0), 0.05*1000/m.Usual; !near(got, want, 0.1) {
		t.Errorf("1000 records take %g s, want about %g in batches of %g", got, want, m.Usual)
	}
	if b := Plan(Limits{Min: 1, Max: 32, Seconds: 1}, m, Situation{Workers: 4, Pending: 5000, Seconds: m.Total(5000, 0), Largest: 1, Speed: 1}); b.AtLeast != 32 {
		t.Errorf("the next batch is %+v, want 32 at least", b)
	}
}
