package report

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// day is 24 hours before noon, in steps of five minutes.
var day = Period{noon.Add(-24 * time.Hour), noon}

// line returns a series with a point for every step of the last hours.
func line(hours float64, value func(i int) float64, labels ...string) api.QuerySeries {
	s := api.QuerySeries{Labels: map[string]string{}}
	for i := 0; i < len(labels); i += 2 {
		s.Labels[labels[i]] = labels[i+1]
	}
	n := int(hours * 12)
	for i := range n {
		s.Points = append(s.Points, api.QueryPoint{Time: noon.Add(time.Duration(i+1-n) * 5 * time.Minute), Value: value(i)})
	}
	return s
}

func flat(v float64) func(int) float64 { return func(int) float64 { return v } }

func past() Answers {
	// Amounts of every step of 300 seconds.
	each := func(v float64) func(int) float64 { return flat(300 * v) }
	half := func(i int) float64 { return map[bool]float64{true: 80}[i%2 == 0] } // works in every other step
	still := func(i int) float64 { return 300 * (1 - half(i)/80) }
	earlier, later := line(18, each(1), "gpu", "GPU-1"), line(9, each(1), "gpu", "GPU-1") // two answers
	earlier.Points = earlier.Points[:9*12]
	return Answers{
		Status: api.StatusAll{GPUs: []api.Status{device(0, gpu.Optimal), device(1, gpu.Optimal)}},
		Leases: api.Leases{Leases: []api.Lease{held("train", "", "anna", "GPU-0", 40960, 0, 6*time.Hour)}},
		Past: api.PastLeases{Leases: []api.PastLease{
			{ID: "old", Holder: api.Holder{User: "bob", Name: "old.py"}, Granted: noon.Add(-20 * time.Hour), Ended: noon.Add(-10 * time.Hour), Parts: []api.LeasePart{{GPU: "GPU-1", Memory: 1024}}, Peak: 900, Energy: gpu.Some(gpu.Joules(500))},
			{ID: "ancient", Holder: api.Holder{User: "bob", Name: "ancient.py"}, Granted: noon.Add(-90 * time.Hour), Ended: noon.Add(-80 * time.Hour), Parts: []api.LeasePart{{GPU: "GPU-1", Memory: 1024}}},
		}},
		Series: map[string][]api.QuerySeries{
			"up":            {line(18, each(1))},
			"seconds":       {line(18, each(1), "gpu", "GPU-0"), line(18, each(1), "gpu", "GPU-1"), line(2, each(1), "gpu", "GPU-gone")},
			"load":          {line(18, half, "gpu", "GPU-0"), line(18, flat(0), "gpu", "GPU-1")},
			"heat":          {line(18, func(i int) float64 { return 40 + float64(i%30) }, "gpu", "GPU-0")},
			"power":         {line(18, flat(300), "gpu", "GPU-0")},
			"total":         {line(18, flat(143771), "gpu", "GPU-0"), line(18, flat(143771), "gpu", "GPU-1"), line(2, flat(1000), "gpu", "GPU-gone")},
			"leased":        {line(18, flat(40960), "gpu", "GPU-0"), line(18, flat(0), "gpu", "GPU-1")},
			"memory":        {line(18, flat(20480), "gpu", "GPU-0"), line(18, flat(0), "gpu", "GPU-1")},
			"idle":          {line(18, still, "gpu", "GPU-0"), earlier, later},
			"idle_leased":   {line(18, still, "gpu", "GPU-0")},
			"state":         {line(18, flat(0.75), "gpu", "GPU-0", "state", "OPTIMAL"), line(18, flat(0.25), "gpu", "GPU-0", "state", "THROTTLED")},
			"reason":        {line(3, each(1), "gpu", "GPU-0", "reason", "power_cap")},
			"healthy":       {line(18, func(i int) float64 { return map[bool]float64{false: 1}[i < 12] }, "gpu", "GPU-1")},
			"energy":        {line(18, flat(100), "gpu", "GPU-0")},
			"idle_energy":   {line(18, flat(10), "gpu", "GPU-0")},
			"events":        {line(18, func(i int) float64 { return map[bool]float64{true: 1}[i%100 == 99] }, "code", "overheat"), line(18, flat(0), "code", "alert")},
			"user_leased":   {line(6, each(40960), "user", "anna"), line(18, flat(0), "user", "idle")},
			"user_leases":   {line(6, each(1), "user", "anna")},
			"user_waiting":  {line(1, each(2), "user", "bob")},
			"user_measured": {line(5, each(40960), "user", "anna")}, "user_used": {line(5, each(10240), "user", "anna")},
			"user_energy":    {line(6, flat(50), "user", "anna")},
			"lease_measured": {line(5, each(40960), "lease", "anna/train", "user", "anna")},
			"lease_used":     {line(5, each(10240), "lease", "anna/train", "user", "anna")},
			"queue":          {line(18, flat(0.5))}, "queue_most": {line(18, flat(4))},
			"waits": {
				line(18, flat(1), "le", "0.001"), line(18, flat(1), "le", "0.1"), line(18, flat(1.5), "le", "60"), line(18, flat(2), "le", "+Inf"),
			},
			"granted":   {line(18, flat(1.5))},
			"waits_sum": {line(18, flat(20))},
		},
	}
}

func TestPeriod(t *testing.T) {
	a := past()
	r := MakePeriod(&a, day)
	if r.Covered != 18*3600 || r.Step != 300 || r.Source != "past" {
		t.Errorf("covers %v s in steps of %v s of %s", r.Covered, r.Step, r.Source)
	}
	want := []string{"The numbers are of 18 h: 6 h of this time was not measured, and nothing is added for it. The first measurement is of 30 January 2026, 18:00."}
	if diff := cmp.Diff(want, r.Remarks); diff != "" {
		t.Errorf("the remarks (-want +got):\n%s", diff)
	}
	var got []string
	for _, d := range r.GPUs {
		got = append(got, fmt.Sprintf("%s: load %.0f, %.0f °C, %.0f GiB·h leased, %.0f used, %.1f h idle, %v, %v, unhealthy %.1f h, %.0f J of which %.0f by itself",
			d.GPU, d.Utilization.Or(-1), d.Hottest.Or(-1), d.Leased/1024, d.Used/1024, d.Idle/3600, d.States, d.Reasons, d.Unhealthy/3600, d.Energy.Or(-1), d.IdleEnergy.Or(-1)))
	}
	want = []string{
		"GPU-0: load 40, 69 °C, 720 GiB·h leased, 360 used, 9.0 h idle, map[OPTIMAL:48600 THROTTLED:16200], map[power_cap:10800], unhealthy 0.0 h, 21600 J of which 2160 by itself",
		"GPU-1: load 0, -1 °C, 0 GiB·h leased, 0 used, 0.0 h idle, map[], map[], unhealthy 1.0 h, -1 J of which -1 by itself",
		"GPU-gone: load -1, -1 °C, 0 GiB·h leased, 0 used, 0.0 h idle, map[], map[], unhealthy 0.0 h, -1 J of which -1 by itself",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the devices (-want +got):\n%s", diff)
	}
	got = nil
	for _, u := range r.Users {
		got = append(got, fmt.Sprintf("%s: %.0f GiB·h, %.0f of %.0f used, %.1f h held, %.1f h waited, %.0f J", u.Name, u.Leased/1024, u.Used/1024, u.Measured/1024, u.Leases, u.Waiting, u.Energy.Or(-1)))
	}
	want = []string{"anna: 240 GiB·h, 50 of 200 used, 6.0 h held, 0.0 h waited, 3600 J", "bob: 0 GiB·h, 0 of 0 used, 0.0 h held, 2.0 h waited, -1 J"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the users (-want +got):\n%s", diff)
	}
	got = nil
	for _, p := range r.Programs {
		got = append(got, fmt.Sprintf("%s of %s: %d leases, %.0f h, %.0f GiB·h, %.0f of %.0f used, %.1f h idle, at most %s, %.0f J", p.Program, p.User, p.Leases, p.Hours, p.Leased/1024, p.Used/1024, p.Measured/1024, p.Idle, p.Peak, p.Energy.Or(-1)))
	}
	want = []string{
		"train of anna: 1 leases, 6 h, 240 GiB·h, 50 of 200 used, 3.0 h idle, at most 0 MiB, -1 J",
		"old.py of bob: 1 leases, 10 h, 10 GiB·h, 0 of 0 used, 8.0 h idle, at most 900 MiB, 500 J", // of the other two hours nothing is known
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the programs (-want +got):\n%s", diff)
	}
	if w := r.Waiting; w.Answered != 324 || w.Mean.Or(0) != 10 || w.Queue != 0.5 || w.Longest != 4 ||
		!cmp.Equal(w.Times, []api.WaitCount{{Below: 0.1, Count: 216}, {Below: 60, Count: 108}, {Count: 108}}) {
		t.Errorf("waiting: %+v", w)
	}
	if diff := cmp.Diff([]api.EventCount{{Code: "overheat", Count: 2}}, r.Faults); diff != "" {
		t.Errorf("the faults (-want +got):\n%s", diff)
	}
	got = nil
	for _, advice := range AdvicePeriod(r) {
		got = append(got, advice.Code+": "+advice.Text)
	}
	want = []string{
		"oversized: train of anna left 75 % of the memory that it leased unused, in 1 lease: it could lease less.",
		"idle: old.py of bob held leases for 10.0 hours, and their GPUs did nothing for 8.0 of them: it could park, or give its leases back.",
		"unwell: GPU 0 was throttled or critical for 25 % of the time: look at its cooling.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the advice (-want +got):\n%s", diff)
	}
}

// The hours of the memory that leases have from a pool are theirs, and not the pool's too;
// those of one that outlives its pool are its own from then on.
func TestPeriodWithAPool(t *testing.T) {
	a := past()
	on := func(mib gpu.MiB) []api.LeasePart { return []api.LeasePart{{GPU: "GPU-1", Memory: mib}} }
	ada := func(name string) api.Holder { return api.Holder{User: "ada", Name: name} }
	at := func(hours float64) time.Time { return noon.Add(time.Duration(-hours * float64(time.Hour))) }
	standing := held("frame", "", "ada", "GPU-1", 1024, 0, 2*time.Hour)
	standing.FromPool = "render"
	pool := held("render", "", "ada", "GPU-1", 10240, 0, 4*time.Hour)
	a.Leases = api.Leases{Leases: []api.Lease{standing, pool}}
	a.Past = api.PastLeases{Leases: []api.PastLease{
		{ID: "render", Holder: ada("berth"), Granted: at(10), Ended: at(6), Parts: on(10240)},
		{ID: "a", Holder: ada("a"), Granted: at(9), Ended: at(8), Parts: on(2048), FromPool: "render"},
		{ID: "b", Holder: ada("b"), Granted: at(7), Ended: at(5), Parts: on(2048), FromPool: "render"},
		{ID: "c", Holder: api.Holder{User: "bob", Name: "c"}, Granted: at(9), Ended: at(8), Parts: on(1024), FromPool: "render"},
	}}
	got := map[string]float64{}
	for _, p := range MakePeriod(&a, day).Programs {
		got[p.User+" "+p.Program] = p.Leased / 1024
	}
	want := map[string]float64{"ada render": 10*4 - 2*1 - 2*1 + 10*4 - 1*2, "ada a": 2, "ada b": 4, "ada frame": 2, "bob c": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GiB·h (-want +got):\n%s", diff)
	}
}

// Programs whose leases have the same id one after the other have what was in use in their
// time. Idle time counts for as long as a lease stood in it.
func TestProgramsWithOneID(t *testing.T) {
	a := past()
	lease := func(name string, from, until time.Duration) api.PastLease {
		return api.PastLease{ID: "train", Holder: api.Holder{User: "anna", Name: name}, Granted: noon.Add(-from), Ended: noon.Add(-until), Parts: []api.LeasePart{{GPU: "GPU-1", Memory: 40960}}}
	}
	a.Leases = api.Leases{}
	a.Past = api.PastLeases{Leases: []api.PastLease{lease("first", 5*time.Hour, 3*time.Hour+4*time.Minute), lease("second", 3*time.Hour+4*time.Minute, 0)}}
	for _, p := range MakePeriod(&a, day).Programs {
		want := map[string]float64{"first": 2 - 4.0/60, "second": 3 + 4.0/60}[p.Program]
		for what, got := range map[string]float64{"measured": p.Measured / 40960, "used": p.Used / 10240, "idle": p.Idle} {
			if math.Abs(got-want) > 1e-6 {
				t.Errorf("%s: %s for %v h, want %v", p.Program, what, got, want)
			}
		}
	}
}

// Without a store, a report is of the samples of the last minutes, and says so.
func TestPeriodWithoutAStore(t *testing.T) {
	a := answers()
	r := MakePeriod(&a, Period{noon.Add(-time.Hour), noon})
	if r.Source != "samples" || r.Covered != 600 || len(r.Remarks) != 1 || !strings.Contains(r.Remarks[0], "was not measured") {
		t.Errorf("%s, %v s, %v", r.Source, r.Covered, r.Remarks)
	}
	if load := r.GPUs[0].Utilization.Or(0); load != 50 || r.GPUs[0].Hottest.Or(0) != 50 {
		t.Errorf("GPU 0: %+v", r.GPUs[0])
	}
	for _, p := range r.Programs {
		want := map[string]float64{"unused": 600, "large": 600, "sleeper": 600, "mps": 600, "new": 60}[p.Program]
		if math.Abs(p.Idle*3600-want) > 1e-6 {
			t.Errorf("%s did nothing for %v s, want %v", p.Program, p.Idle*3600, want)
		}
	}
	empty := MakePeriod(&Answers{}, day)
	if len(empty.Remarks) != 1 || empty.Remarks[0] != "Nothing was measured in this time." {
		t.Errorf("nothing at all: %v", empty.Remarks)
	}
}

// Whatever the length, a curve has few points, and a question covers all of its step.
func TestSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := time.Duration(rapid.Int64Range(int64(time.Minute), int64(1098*24*time.Hour)).Draw(t, "length"))
		p := Period{noon.Add(-length), noon}
		n := (length + p.Step()/2) / p.Step()
		if rest := length - n*p.Step(); n > mostPoints+1 || rest < 0 || rest > time.Second {
			t.Fatalf("%d points, %v apart, and %v of the period is missing", n, p.Step(), rest)
		}
		for _, q := range p.Questions() {
			if !strings.Contains(q.Expr, fmt.Sprintf("[%dms]", q.Step.Milliseconds())) {
				t.Fatalf("%s: %s, every %v", q.Name, q.Expr, q.Step)
			}
		}
		// The blocks of idle time follow each other, from the same times in every period.
		pause, next := p.pause(), p.From.Truncate(p.pause())
		for _, q := range p.Questions() {
			if q.Name != "idle" {
				continue
			}
			if n := q.Until.Sub(q.From)/pause + 1; q.Step != pause || !q.From.Equal(next.Add(pause)) || n > pausesOnce {
				t.Fatalf("%d blocks of %v from %v, after %v", n, q.Step, q.From, next)
			}
			next = q.Until
		}
		if late := next.Sub(p.Until); late < 0 || late >= pause || length <= 31*24*time.Hour && pause != 5*time.Minute || length/pause > mostPauses {
			t.Fatalf("blocks of %v until %v after the end", pause, late)
		}
	})
}

// The parts of the memory add up to all of it, and gaps stay gaps.
func TestCurves(t *testing.T) {
	a := past()
	a.Series["queue"][0].Points[3].Value = math.NaN()
	sums := map[time.Time]float64{}
	for _, c := range MakePeriod(&a, day).Curves {
		for _, p := range c.Points {
			if math.IsNaN(p.Value) {
				t.Errorf("%s at %v is no number", c.Name, p.Time)
			}
			switch c.Name {
			case "used", "unused", "foreign", "free":
				sums[p.Time] += p.Value
			}
		}
	}
	if len(sums) != 18*12 || sums[noon.Add(-17*time.Hour)] != 2*143771 {
		t.Errorf("%d moments, %v MiB", len(sums), sums[noon.Add(-17*time.Hour)])
	}
}
