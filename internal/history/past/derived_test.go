package past

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/berth-gpu/berth/internal/history/series"
)

// sumOf adds up a series between two times, the first of which is not included.
func sumOf(t *testing.T, p *Past, name string, from, to time.Time) float64 {
	t.Helper()
	q, err := p.Queryable().Querier(from.UnixMilli()+1, to.UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	hints := &storage.SelectHints{Start: from.UnixMilli() + 1, End: to.UnixMilli()}
	set := q.Select(t.Context(), true, hints, labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, name))
	sum, found := 0.0, false
	for set.Next() {
		if got := set.At().Labels().Get(labels.MetricName); got != name {
			t.Errorf("asked for %s and got %s", name, got)
		}
		found = true
		it := set.At().Iterator(nil)
		for it.Next() == chunkenc.ValFloat {
			at, v := it.At()
			if at != it.AtT() || at < hints.Start {
				t.Errorf("%s: a sample at %d, before %d", name, at, hints.Start)
			}
			if !math.IsNaN(v) {
				sum += v
			}
		}
		if err := it.Err(); err != nil {
			t.Error(err)
		}
	}
	if err := set.Err(); err != nil || !found {
		t.Errorf("%s: %v, found: %v", name, err, found)
	}
	return sum
}

// A name with many endings would make each sample cost as much as all of them.
func TestDerivedSeriesHaveNoDerivedOnes(t *testing.T) {
	p, _ := open(t, t.TempDir(), usual)
	fill(t, p, noon, noon.Add(time.Minute), time.Second)
	if list := read(t, p, "gpu_load:area", noon, noon.Add(time.Minute)); len(list) == 0 {
		t.Error("no derived series")
	}
	if list := read(t, p, "gpu_load:area:area", noon, noon.Add(time.Minute)); len(list) > 0 {
		t.Errorf("a derived series of a derived one: %v", list)
	}
}

// What derived series add up to does not depend on where the time is cut.
func TestDerivedSeries(t *testing.T) {
	p, _ := open(t, t.TempDir(), usual)
	write := func(second float64, gauge, counter, sum float64) {
		at := noon.Add(time.Duration(second * float64(time.Second)))
		if err := p.Write(at, []series.Sample{sample("held", series.Gauge, gauge), sample("done_total", series.Counter, counter), sample("joules_total", series.Counter, sum)}); err != nil {
			t.Fatal(err)
		}
	}
	nothing := math.NaN()
	write(0, 4, 7, 1000)
	write(10, 4, 9, 1100)
	write(20, 2, 9, 1200)
	write(25, series.Stale(), 9, 1200) // it ends
	write(30, 2, 12, 1300)
	write(40, nothing, 12, 1310) // not measured
	write(50, 1, 12, 1320)
	// The daemon is killed, and has lost the newest part of its sum.
	write(650, 5, 0, 1250)
	write(660, 5, 3, 1330)
	write(670, 5, 3, 1340)
	// It loses all of its sum.
	write(680, 5, 4, 50)
	write(690, 5, 4, 60)
	want := map[string]float64{
		"held:seconds": 20 + 40, "held:area": 4*10 + 2*10 + 5*40,
		"done_total:grown":   2 + 3 + 0 + 3 + 1,
		"joules_total:risen": 320 + 10 + 10 + 50 + 10,
	}
	from, to := noon.Add(-time.Hour), noon.Add(time.Hour)
	for name, sum := range want {
		if got := sumOf(t, p, name, from, to); got != sum {
			t.Errorf("%s adds up to %v, want %v", name, got, sum)
		}
		for _, border := range []float64{5, 10, 25, 30.5, 45, 655, 660, 675} {
			cut := noon.Add(time.Duration(border * float64(time.Second)))
			if got := sumOf(t, p, name, from, cut) + sumOf(t, p, name, cut, to); got != sum {
				t.Errorf("%s, cut at %v s, adds up to %v, want %v", name, border, got, sum)
			}
		}
	}
}

// The sample before the first one may be as far away as the longest interval of the monitor.
func TestDerivedSeriesOfSamplesThatAreFarApart(t *testing.T) {
	hourly := usual
	hourly.Every = time.Hour
	p, _ := open(t, t.TempDir(), hourly)
	for hour := range 3 {
		if err := p.Write(noon.Add(time.Duration(hour)*time.Hour), []series.Sample{sample("held", series.Gauge, 4)}); err != nil {
			t.Fatal(err)
		}
	}
	if got := sumOf(t, p, "held:seconds", noon.Add(119*time.Minute), noon.Add(3*time.Hour)); got != 3600 {
		t.Errorf("held:seconds adds up to %v", got)
	}
}

// A recording rule may give its series any name.
func TestStoredSeriesThatIsNamedAsADerivedOne(t *testing.T) {
	p, _ := open(t, t.TempDir(), usual)
	for second := range 3 {
		at := noon.Add(time.Duration(10*second) * time.Second)
		if err := p.Write(at, []series.Sample{sample("held", series.Gauge, 4), sample("held:area", series.Gauge, 7), sample("job:wait:seconds", series.Gauge, 5)}); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]float64{"held:area": 3 * 7, "job:wait:seconds": 3 * 5, "held:seconds": 20} {
		if got := sumOf(t, p, name, noon.Add(-time.Hour), noon.Add(time.Hour)); got != want {
			t.Errorf("%s adds up to %v, want %v", name, got, want)
		}
	}
	if got := sumOf(t, p, "held:area", noon.Add(-2*time.Hour), noon.Add(5*time.Second)); got != 7 {
		t.Errorf("the first sample of held:area is %v", got)
	}
}

// Samples that were condensed to half-minutes add up to what they did before.
func TestDerivedSeriesOfHalfMinutes(t *testing.T) {
	p, _ := open(t, t.TempDir(), Settings{Recent: time.Second, Long: 90 * 24 * time.Hour, Size: 1024})
	begin := noon.Add(-6 * time.Hour)
	for at := begin; !at.After(noon); at = at.Add(10 * time.Second) {
		done := at.Sub(begin).Seconds() * 3
		if err := p.Write(at, []series.Sample{sample("held", series.Gauge, 8), sample("done_total", series.Counter, done)}); err != nil {
			t.Fatal(err)
		}
	}
	p.Tidy(noon)
	if oldest := time.UnixMilli(p.recent.oldest()); oldest.Before(begin.Add(time.Hour)) {
		t.Fatalf("every sample is still there, from %v on", oldest)
	}
	for name, want := range map[string]float64{"held:seconds": 6 * 3600, "held:area": 8 * 6 * 3600, "done_total:grown": 3 * 6 * 3600} {
		if got := sumOf(t, p, name, begin.Add(-time.Hour), noon); math.Abs(got-want) > want/200 {
			t.Errorf("%s adds up to %s, want %v", name, fmt.Sprint(got), want)
		}
	}
}
