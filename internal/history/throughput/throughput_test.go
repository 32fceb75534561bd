package throughput

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// asTheyAre gives every service its own label.
func asTheyAre(service, _ string) string { return service }

func report(o api.Operations) Report {
	return Report{Service: "embedder", User: "anna", GPU: "GPU-a", Operations: o}
}

func TestReportsAddUp(t *testing.T) {
	c := New(asTheyAre)
	for _, o := range []api.Operations{
		{Count: 10},                            // of an unknown time
		{Count: 4, Seconds: 2},                 // half a second each
		{Latencies: []float64{0.02, 0.02, 30}}, // one of them slow
		{Count: 1, Latencies: []float64{0}},    // the number may be given, too
	} {
		if _, err := c.Add(report(o), noon); err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
	}
	got := c.Totals()
	if len(got) != 1 || got[0].Service != "embedder" || got[0].GPU != "GPU-a" || got[0].Count != 18 {
		t.Fatalf("the totals are %+v", got)
	}
	l := got[0].Latency
	counted := map[float64]uint64{}
	for i, n := range l.Counts {
		if n > 0 {
			counted[append(l.Bounds, math.Inf(1))[i]] = n
		}
	}
	if counted[0.5] != 4 || counted[0.025] != 2 || counted[50] != 1 || counted[0.001] != 1 || math.Abs(l.Sum-32.04) > 1e-9 {
		t.Errorf("latencies %v with the sum %v", counted, l.Sum)
	}
}

func TestBadReportsCountNothing(t *testing.T) {
	for name, o := range map[string]api.Operations{
		"nothing":                {},
		"time without count":     {Seconds: 3},
		"a trillion":             {Count: 1_000_000_000_000},
		"negative count":         {Count: -1},
		"negative seconds":       {Count: 1, Seconds: -1},
		"seconds that are none":  {Count: 1, Seconds: math.NaN()},
		"endless seconds":        {Count: 1, Seconds: math.Inf(1)},
		"more than a day each":   {Count: 2, Seconds: 3 * longest},
		"negative latency":       {Latencies: []float64{1, -1}},
		"a latency that is none": {Latencies: []float64{math.NaN()}},
		"an endless latency":     {Latencies: []float64{math.Inf(1)}},
		"both forms":             {Latencies: []float64{1}, Seconds: 1},
		"another count":          {Latencies: []float64{1}, Count: 2},
	} {
		c := New(asTheyAre)
		_, err := c.Add(report(o), noon)
		if invalid := (*InvalidError)(nil); !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
		}
		if got := c.Totals(); len(got) != 0 {
			t.Errorf("%s counts as %+v", name, got)
		}
	}
}

func TestAUserReportsOnlySoMuch(t *testing.T) {
	c := New(asTheyAre)
	full := report(api.Operations{Count: most})
	if _, err := c.Add(full, noon); err != nil {
		t.Fatal(err)
	}
	late := noon.Add(time.Second)
	if _, err := c.Add(full, late); !errors.As(err, new(*RateError)) {
		t.Errorf("twice as much a second later: %v", err)
	}
	if _, err := c.Add(report(api.Operations{Count: perSecond}), late); err != nil {
		t.Errorf("what a second allows: %v", err)
	}
	other := full
	other.User = "bob"
	if _, err := c.Add(other, late); err != nil {
		t.Errorf("another user: %v", err)
	}
	if got := c.Totals()[0].Count; got != 2*most+perSecond {
		t.Errorf("%d operations counted", got)
	}
}

func TestDevicesAndUsersAreBounded(t *testing.T) {
	c := New(asTheyAre)
	for i := range 2 * mostPlaces {
		r := report(api.Operations{Count: 1})
		r.GPU, r.User = fmt.Sprintf("GPU-%d", i), fmt.Sprintf("user%d", i)
		if _, err := c.Add(r, noon.Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(c.Totals()); got > mostPlaces+1 {
		t.Errorf("%d totals", got)
	}
	if got := len(c.allowances); got > fewUsers {
		t.Errorf("%d allowances", got)
	}
}
