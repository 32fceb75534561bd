package promexport

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/history/series"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
)

// written writes samples as the page does, without the labels of the store.
func written(t *testing.T, list []series.Sample) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for _, s := range list {
		var own []string
		s.Labels.Range(func(l labels.Label) {
			if l.Name != labels.MetricName && l.Name != "job" && l.Name != "instance" {
				own = append(own, l.Name+"="+strconv.Quote(l.Value))
			}
		})
		if s.Labels.Get("job") != "berth" || s.Labels.Get("instance") != "box:8000" {
			t.Fatalf("%v has no job or instance", s.Labels)
		}
		line := s.Labels.Get(labels.MetricName)
		if len(own) > 0 {
			line += "{" + strings.Join(own, ",") + "}"
		}
		if _, twice := all[line]; twice {
			t.Fatalf("%s is there twice", line)
		}
		all[line] = s.Value
	}
	return all
}

// shown reads the lines of the page as a Prometheus does: without empty labels,
// and bounds of buckets with a point.
func shown(t *testing.T, text string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "go_") || strings.HasPrefix(line, "process_") {
			continue
		}
		cut := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(strings.TrimSpace(line[cut:]), 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		name, rest, _ := strings.Cut(strings.TrimSuffix(line[:cut], "}"), "{")
		var own []string
		for _, l := range strings.Split(rest, ",") {
			if before, bound, is := strings.Cut(l, "le="); is && before == "" && !strings.ContainsAny(bound, ".eI") {
				l = strings.TrimSuffix(l, `"`) + `.0"`
			}
			if l != "" && !strings.HasSuffix(l, `=""`) {
				own = append(own, l)
			}
		}
		slices.Sort(own)
		if len(own) > 0 {
			name += "{" + strings.Join(own, ",") + "}"
		}
		all[name] = v
	}
	return all
}

func TestTheStoreGetsWhatThePageShows(t *testing.T) {
	e, book := writing(t, true, journal.Forgetful())
	run(t, book)
	hold(t, book, "anna", "embedder", 2048)
	e.Decided("granted", 400*time.Microsecond)
	r := e.Recorder("box:8000")
	first := written(t, r.Rest(time.Now()))
	begun := written(t, r.Begun())
	for line, v := range first {
		if was, told := begun[line]; before[strings.Split(line, "{")[0]] != nil && (!told || was != 0 && was == v) {
			t.Errorf("%s begins with %g, and was %g before: nobody can tell how much of that came before", line, v, was)
		}
	}
	got := written(t, append(r.Devices(), r.Rest(time.Now())...))
	if again := r.Begun(); len(again) != 0 {
		t.Errorf("%v began twice", again)
	}
	if got["up"] != 1 {
		t.Error("the store is not told that berth is up")
	}
	for _, name := range []string{"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "go_goroutines"} {
		if _, there := got[name]; !there {
			t.Errorf("the store does not get %s, which the dashboard shows", name)
		}
	}
	maps.DeleteFunc(got, func(name string, _ float64) bool { // they change from one look to the next
		return name == "up" || strings.HasPrefix(name, "process_") || name == "go_goroutines"
	})
	if diff := cmp.Diff(shown(t, scrape(e)), got); diff != "" {
		t.Errorf("the store differs from the page (-page +store):\n%s", diff)
	}
	known := map[string]bool{}
	for _, m := range r.Metadata() {
		known[m.Name] = true
		if m.Help == "" || m.Kind == series.Unknown {
			t.Errorf("%s is described as %+v", m.Name, m)
		}
	}
	for line := range got {
		name, _, _ := strings.Cut(line, "{")
		for _, ending := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, ending); known[base] {
				name = base
			}
		}
		if !known[name] {
			t.Errorf("%s is not described", name)
		}
	}
}

// A reason to throttle that is gone, and a device that no longer answers, end
// their series.
func TestSeriesEnd(t *testing.T) {
	now := readings()[:1]
	e := New(Sources{Devices: func() Devices { return Devices{Readings: slices.Clone(now), Watching: true} }, Labels: &Names{}})
	r := e.Recorder("box:8000")
	r.Devices()
	now[0].Sample.Throttle = nil
	ended := func() (names []string) {
		for _, s := range r.Devices() {
			if value.IsStaleNaN(s.Value) {
				names = append(names, s.Labels.Get(labels.MetricName))
			}
		}
		return slices.Sorted(slices.Values(names))
	}
	if got := ended(); !slices.Equal(got, []string{"gpu_throttle_reason"}) {
		t.Errorf("%v ended", got)
	}
	now[0].State = gpu.Unavailable
	if got := ended(); !slices.Contains(got, "gpu_temperature_celsius") || slices.Contains(got, "gpu_state") {
		t.Errorf("%v ended", got)
	}
	if got := ended(); got != nil {
		t.Errorf("%v ended twice", got)
	}
	now = nil
	if got := ended(); !slices.Contains(got, "gpu_state") {
		t.Errorf("%v ended", got)
	}
}

func TestSeriesOfLeases(t *testing.T) {
	e, book := writing(t, true, journal.Forgetful())
	run(t, book)
	hold(t, book, "anna", "embedder", 2048)
	hold(t, book, "bob", "", 1024)
	r := e.Recorder("box:8000")
	of := func(at time.Time) map[string]float64 {
		all := written(t, slices.DeleteFunc(r.Rest(at), func(s series.Sample) bool { return s.Before > 0 }))
		maps.DeleteFunc(all, func(line string, _ float64) bool { return !strings.HasPrefix(line, "berth_lease_") })
		return all
	}
	now := time.Now()
	if got := of(now); len(got) != 0 {
		t.Errorf("a lease that was just granted has series: %v", got)
	}
	got := of(now.Add(2 * time.Minute))
	count := map[string]int{}
	for line, v := range got {
		name, _, _ := strings.Cut(line, "{")
		if count[name]++; name == "berth_lease_memory_mb" && (strings.Contains(line, `user="anna"`) != (v == 2048) || !strings.Contains(line, `lease="`)) {
			t.Errorf("%s is %g", line, v)
		}
	}
	if count["berth_lease_memory_mb"] != 2 {
		t.Errorf("the series of two leases: %v", got)
	}
}

// The series of a lease begin at its grant, although it gets them a minute later.
func TestSeriesOfLeasesBeginAtTheGrant(t *testing.T) {
	e, book := writing(t, true, journal.Forgetful())
	run(t, book)
	hold(t, book, "anna", "embedder", 2048)
	r := e.Recorder("box:8000")
	granted := book.View().Leases[0].Granted
	held := func(after time.Duration) (found []time.Duration) {
		for _, s := range r.Rest(granted.Add(after)) {
			if s.Labels.Get(labels.MetricName) == "berth_lease_memory_mb" && s.Value == 2048 {
				found = append(found, after-s.Before)
			}
		}
		return found
	}
	for _, after := range []time.Duration{5 * time.Second, 15 * time.Second, 10 * time.Second, 25 * time.Second} {
		if got := held(after); got != nil {
			t.Errorf("a lease of %v has series: %v", after, got)
		}
	}
	want := []time.Duration{0, 5 * time.Second, 15 * time.Second, 25 * time.Second, 65 * time.Second}
	if got := held(65 * time.Second); !slices.Equal(got, want) {
		t.Errorf("the samples are of %v after the grant, want %v", got, want)
	}
	if got := held(75 * time.Second); !slices.Equal(got, []time.Duration{75 * time.Second}) {
		t.Errorf("later they are of %v", got)
	}
	if len(r.recorded.young) != 0 {
		t.Error("it is still remembered as a young one")
	}
}

// Nobody fills the store by leasing over and over, and nobody takes all places.
func TestSeriesOfLeasesAreBounded(t *testing.T) {
	var s leaseSlots
	now := time.Now()
	fence := uint64(0)
	take := func(user string, n int) (got int) {
		for range n {
			fence++
			if s.take(&lease.Lease{Fence: fence, Holder: lease.Holder{User: user}}, now) {
				got++
			}
		}
		return got
	}
	if got := take("mallory", 1000); got != leaseOfUser {
		t.Errorf("one user has %d", got)
	}
	if got := take("anna", 1000); got != leaseMost-leaseOfUser {
		t.Errorf("another has %d", got)
	}
	now = now.Add(leaseRest)
	s.clear(now)
	if got := take("bob", 1); got != 0 {
		t.Error("a place is free too soon")
	}
	now = now.Add(time.Second)
	s.clear(now)
	if got := take("bob", 1); got != 1 || len(s.ofUser) != 1 {
		t.Errorf("no place is free after an hour: %v", fmt.Sprint(s.ofUser))
	}
}

// Nobody keeps the beginnings of the leases of others from being remembered either.
func TestYoungLeasesAreBounded(t *testing.T) {
	var s leaseSlots
	now := time.Now()
	for fence := range uint64(1000) {
		user := "mallory"
		if fence == 999 {
			user = "anna"
		}
		s.note(&ledger.Held{Lease: &lease.Lease{Fence: fence, Granted: now, Holder: lease.Holder{User: user}}}, now, 1, nil)
	}
	if mallory, anna := s.youngOf("mallory"), s.youngOf("anna"); mallory != leaseOfUser || anna != 1 {
		t.Errorf("%d leases of mallory are remembered, and %d of anna", mallory, anna)
	}
}

func BenchmarkRecordDevices(b *testing.B) {
	r := exporter(b).Recorder("box:8000")
	for b.Loop() {
		r.Devices()
	}
}

func BenchmarkRecordRest(b *testing.B) {
	r := exporter(b).Recorder("box:8000")
	for b.Loop() {
		r.Rest(time.Now())
	}
}
