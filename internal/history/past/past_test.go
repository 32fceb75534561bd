package past

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/history/series"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

var usual = Settings{Recent: 48 * time.Hour, Long: 90 * 24 * time.Hour, Size: 1024}

// told collects events.
type told struct {
	mu   sync.Mutex
	list []gpu.Event
}

func (t *told) tell(e gpu.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, e)
}

// take returns the events since the last call.
func (t *told) take() []gpu.Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.list
	t.list = nil
	return list
}

func open(t *testing.T, dir string, s Settings) (*Past, *told) {
	t.Helper()
	events := &told{}
	p, err := Open(dir, Options{Settings: s, Event: events.tell})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p, events
}

func sample(name string, kind series.Kind, v float64) series.Sample {
	return series.Sample{Labels: labels.FromStrings(labels.MetricName, name, "gpu", "GPU-a"), Kind: kind, Value: v}
}

// fill writes a sample of two series every step.
func fill(t *testing.T, p *Past, from, to time.Time, step time.Duration) {
	t.Helper()
	for at := from; at.Before(to); at = at.Add(step) {
		second := float64(at.Unix() % 3600)
		if err := p.Write(at, []series.Sample{sample("gpu_load", series.Gauge, second), sample("work_total", series.Counter, second)}); err != nil {
			t.Fatal(err)
		}
	}
}

type point struct {
	t int64
	v float64
}

// read returns the points of the one series with this name.
func read(t *testing.T, p *Past, name string, from, to time.Time) []point {
	t.Helper()
	q, err := p.Queryable().Querier(from.UnixMilli(), to.UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, name))
	var list []point
	for n := 0; set.Next(); n++ {
		if n > 0 {
			t.Fatalf("%s has a second series: %v", name, set.At().Labels())
		}
		it := set.At().Iterator(nil)
		for it.Next() == chunkenc.ValFloat {
			at, v := it.At()
			list = append(list, point{at, v})
		}
		if err := it.Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := set.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestOneQueryReadsBothStores(t *testing.T) {
	p, _ := open(t, t.TempDir(), Settings{Recent: time.Hour, Long: 90 * 24 * time.Hour, Size: 1024})
	to := noon.Add(4 * time.Hour)
	for at := noon; at.Before(to); at = at.Add(15 * time.Minute) {
		fill(t, p, at, at.Add(15*time.Minute), 10*time.Second)
		p.Tidy(at)
	}
	border := p.recent.oldest()
	if border <= noon.UnixMilli() || border > to.Add(-time.Hour).UnixMilli() {
		t.Fatalf("the oldest recent sample is of %v", time.UnixMilli(border).UTC())
	}
	all := read(t, p, "gpu_load", noon, to)
	last := int64(math.MinInt64)
	coarse, fine := 0, 0
	for _, each := range all {
		if each.t <= last {
			t.Fatalf("a point at %d after one at %d", each.t, last)
		}
		last = each.t
		if each.t < border {
			coarse++
			// The average of three samples 10 s apart, the last of them 10 s before the end.
			if second := float64(each.t / 1000 % 3600); each.v != second-20 && second != 0 {
				t.Fatalf("the half-minute that ends at %v is %g", second, each.v)
			}
		} else if fine++; each.v != float64(each.t/1000%3600) {
			t.Fatalf("the sample at %d is %g", each.t, each.v)
		}
	}
	if want := int((border - noon.UnixMilli()) / 30_000); coarse < want-1 || coarse > want+1 {
		t.Errorf("%d half-minutes, want %d", coarse, want)
	}
	if want := int((to.UnixMilli() - border) / 10_000); fine != want {
		t.Errorf("%d samples, want %d", fine, want)
	}
	for name, off := range map[string]float64{"gpu_load:min": -30, "gpu_load:max": -10} {
		list := read(t, p, name, noon, to)
		if len(list) != 4*120-1 {
			t.Errorf("%d points of %s", len(list), name)
		}
		for _, each := range list {
			if second := float64(each.t / 1000 % 3600); each.v != second+off && second != 0 {
				t.Fatalf("%s at %g is %g", name, second, each.v)
			}
		}
	}
	if n := len(read(t, p, "work_total:min", noon, to)); n != 0 {
		t.Errorf("a counter has %d least values", n)
	}
	for _, each := range read(t, p, "work_total", noon, time.UnixMilli(border-1)) {
		if second := float64(each.t / 1000 % 3600); each.v != second-10 && second != 0 {
			t.Fatalf("the counter at %g is %g", second, each.v)
		}
	}
}

// The first samples of a series may come late: queries find them at their times, and their
// half-minutes are kept.
func TestSamplesThatComeLate(t *testing.T) {
	p, _ := open(t, t.TempDir(), Settings{Recent: time.Hour, Long: 90 * 24 * time.Hour, Size: 1024})
	fill(t, p, noon, noon.Add(2*time.Minute), 10*time.Second)
	at := noon.Add(2 * time.Minute)
	var list []series.Sample
	for before := 70 * time.Second; before >= 0; before -= 10 * time.Second {
		one := sample("held", series.Gauge, float64((at.Add(-before)).Sub(noon)/time.Second))
		one.Before = before
		list = append(list, one)
	}
	if err := p.Write(at, list); err != nil {
		t.Fatal(err)
	}
	fill(t, p, at.Add(10*time.Second), at.Add(2*time.Minute), 10*time.Second)
	ms := func(after time.Duration) int64 { return noon.Add(after).UnixMilli() }
	var want []point
	for after := 50 * time.Second; after <= 2*time.Minute; after += 10 * time.Second {
		want = append(want, point{ms(after), after.Seconds()})
	}
	if got := read(t, p, "held", noon, at.Add(time.Hour)); !slices.Equal(got, want) {
		t.Errorf("the samples are %v, want %v", got, want)
	}
	want = []point{{ms(60 * time.Second), 50}, {ms(90 * time.Second), 80}, {ms(120 * time.Second), 110}, {ms(150 * time.Second), 120}}
	if got := read(t, p, "held:max", noon, at.Add(time.Hour)); !slices.Equal(got, want) {
		t.Errorf("the most of its half-minutes is %v, want %v", got, want)
	}
}

// Results of a rule that are late by more than a few half-minutes change nothing of the
// half-minute that is being collected.
func TestResultsThatComeLate(t *testing.T) {
	for _, by := range []time.Duration{10 * time.Minute, time.Hour} {
		p, events := open(t, t.TempDir(), Settings{Recent: 6 * time.Hour, Long: 90 * 24 * time.Hour, Size: 1024})
		for second := range 300 {
			at, one := noon.Add(time.Duration(second)*time.Second), sample("load", series.Gauge, 1)
			if second%30 == 7 {
				one.Value = 100
			}
			list := []series.Sample{one}
			if second%15 == 12 {
				late := sample("result", series.Gauge, float64(second/15))
				late.Before = by
				list = append(list, late)
			}
			if err := p.Write(at, list); err != nil {
				t.Fatal(err)
			}
		}
		fill(t, p, noon.Add(5*time.Minute), noon.Add(6*time.Minute), time.Second)
		var most, results []float64
		for _, found := range read(t, p, "load:max", noon, noon.Add(5*time.Minute)) {
			most = append(most, found.v)
		}
		for _, found := range read(t, p, "result:max", noon.Add(-by), noon.Add(5*time.Minute-by)) {
			results = append(results, found.v)
		}
		if want := slices.Repeat([]float64{100}, 10); !slices.Equal(most, want) {
			t.Errorf("%v late: the most of each half-minute is %v", by, most)
		}
		if want := []float64{1, 3, 5, 7, 9, 11, 13, 15, 17, 19}; !slices.Equal(results, want) {
			t.Errorf("%v late: the most of the results is %v, want %v", by, results, want)
		}
		if told := events.take(); len(told) > 0 {
			t.Errorf("%v late: events say %v", by, told)
		}
	}
}

// Nobody writes between moments that are stored together.
func TestWriteAll(t *testing.T) {
	p, events := open(t, t.TempDir(), usual)
	fill(t, p, noon, noon.Add(time.Minute), time.Second)
	now := noon.Add(30 * 24 * time.Hour)
	var written sync.WaitGroup
	err := p.WriteAll(func(yield func(time.Time, []series.Sample) bool) {
		for day := range 20 {
			if !yield(noon.AddDate(0, 0, 1+day), []series.Sample{sample("missed", series.Gauge, float64(day))}) {
				return
			}
			if p.write.TryLock() {
				p.write.Unlock()
				t.Error("others can write")
			}
			if day == 7 {
				written.Go(func() { fill(t, p, now, now.Add(time.Minute), time.Second) })
			}
		}
	})
	written.Wait()
	if got := read(t, p, "missed", noon, now); err != nil || len(got) != 20 {
		t.Errorf("%d moments are there, %v", len(got), err)
	}
	if told := events.take(); len(told) > 0 {
		t.Errorf("events say %v", told)
	}
}

// A daemon that comes after one that was killed stores first what it missed, and then more of
// the half-minute of the kill, of which nothing is lost.
func TestHalfMinuteOfAKill(t *testing.T) {
	dir := t.TempDir()
	p, _ := open(t, dir, usual)
	fill(t, p, noon, noon.Add(33*time.Second), time.Second)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p, _ = open(t, dir, usual)
	if err := p.Write(noon.Add(29*time.Second+time.Millisecond), []series.Sample{sample("held_total", series.Counter, 7)}); err != nil {
		t.Fatal(err)
	}
	fill(t, p, noon.Add(33*time.Second), noon.Add(91*time.Second), time.Second)
	ms := func(after time.Duration) int64 { return noon.Add(after).UnixMilli() }
	want := []point{{ms(30 * time.Second), 29}, {ms(60 * time.Second), 59}, {ms(90 * time.Second), 89}}
	if got := read(t, p, "gpu_load:max", noon, noon.Add(time.Hour)); !slices.Equal(got, want) {
		t.Errorf("the most of the half-minutes is %v, want %v", got, want)
	}
}

// The number of series is bounded, and those that no longer come make room.
func TestSeriesAreBounded(t *testing.T) {
	var ls catalog
	name := func(i int) *series.Sample {
		s := sample("made_up", series.Gauge, 1)
		s.Labels = labels.FromStrings(labels.MetricName, "made_up", "gpu", strconv.Itoa(i))
		return &s
	}
	for i := range mostSeries {
		if ls.find(name(i), int64(i)) == nil {
			t.Fatalf("series %d is one too many", i)
		}
	}
	if ls.find(name(mostSeries), mostSeries) != nil {
		t.Error("there is no limit")
	}
	if ls.find(name(7), mostSeries) == nil {
		t.Error("a series that was there is gone")
	}
	ls.expire(100, mostSeries)
	for i := range 99 {
		if ls.find(name(-1-i), mostSeries) == nil {
			t.Fatalf("there is room for %d series, and 99 are gone", i)
		}
	}
	if ls.find(name(mostSeries), mostSeries) != nil {
		t.Error("there is no limit any more")
	}
}

// BenchmarkWrite stores what eight devices measure in a second.
func BenchmarkWrite(b *testing.B) {
	p, err := Open(b.TempDir(), Options{Settings: usual})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	list := make([]series.Sample, 240)
	for i := range list {
		list[i] = sample("gpu_load_"+strconv.Itoa(i), series.Gauge, float64(i))
	}
	at := noon
	for b.Loop() {
		if err := p.Write(at, list); err != nil {
			b.Fatal(err)
		}
		at = at.Add(time.Second)
	}
}

// A store that is on and takes nothing is behind; one that is off or pauses is not.
func TestBehind(t *testing.T) {
	p, _ := open(t, filepath.Join(t.TempDir(), "past"), Settings{Recent: time.Hour, Long: 24 * time.Hour, Size: 100})
	now := time.Now()
	if by := p.Behind(now.Add(time.Hour)); by != 0 {
		t.Errorf("before Run it is %v behind", by)
	}
	fill(t, p, now.Add(-2*time.Second), now, time.Second)
	if by := p.Behind(now.Add(time.Hour)); by < 59*time.Minute || by > time.Hour || p.Cost().Written.Before(now) {
		t.Errorf("an hour after the last sample it is %v behind; samples were stored at %v", by, p.Cost().Written)
	}
	if !strings.Contains(p.Cost().Written.String(), "m=") {
		t.Errorf("samples were stored at %v, which is counted on a clock that may be set", p.Cost().Written)
	}
	p.counted.waiting.Store(true)
	if by := p.Behind(now.Add(time.Hour)); by != 0 {
		t.Errorf("while it pauses it is %v behind", by)
	}
	p.counted.waiting.Store(false)
	p.Configure(Settings{Off: true})
	if by := p.Behind(now.Add(time.Hour)); by != 0 {
		t.Errorf("while it is off it is %v behind", by)
	}
	if by := (*Past)(nil).Behind(now); by != 0 {
		t.Errorf("without a store: %v", by)
	}
}

// There is a sample each second of the recent time, and one each half-minute before.
func TestMost(t *testing.T) {
	p, _ := open(t, filepath.Join(t.TempDir(), "past"), Settings{Recent: time.Hour, Long: 24 * time.Hour, Size: 100})
	most := func(from, to time.Duration) float64 {
		now := time.Now()
		return p.Most(now.Add(-from).UnixMilli(), now.Add(-to).UnixMilli())
	}
	for _, c := range []struct {
		from, to time.Duration
		want     float64
	}{{time.Minute, 0, 60}, {10 * time.Hour, 9 * time.Hour, 120}, {2 * time.Hour, 0, 3720}, {0, time.Minute, 0}} {
		began := time.Now()
		got := most(c.from, c.to)
		if late := time.Since(began).Seconds(); got < c.want-late || got > c.want+3 { // meanwhile the recent time moves on
			t.Errorf("from %v to %v ago there are %v samples, want about %v", c.from, c.to, got, c.want)
		}
	}
	fill(t, p, time.Now().Add(-24*time.Hour), time.Now().Add(-24*time.Hour+time.Second), time.Second)
	if got := most(10*time.Hour, 9*time.Hour); got < 3600 {
		t.Errorf("where the recent store goes back to yesterday, an hour has %v samples", got)
	}
}
