package runs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
)

// someRuns keeps batches on GPU a, where everybody but mallory holds a lease; told
// lists what it has published.
func someRuns() (r *Runs, told func() []string) {
	var mu sync.Mutex
	var list []string
	publish := func(e gpu.Event) {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, fmt.Sprintf("%s %s %s", e.Severity, e.Data["what"], e.Text))
	}
	told = func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}
	return New(publish, func(uuid string) bool { return uuid == "a" }, func(owner lease.Owner, _ string) bool { return owner.User != "mallory" }), told
}

// by returns a user who is known by name alone.
func by(user string) access.Actor { return access.Actor{User: user, UID: access.NoUID} }

func report(t *testing.T, r *Runs, b api.Batch) {
	t.Helper()
	if _, err := r.Report(b, by(b.User)); err != nil {
		t.Fatal(err)
	}
}

func ids(r *Runs) string {
	var list []string
	for _, b := range r.List() {
		list = append(list, b.ID)
	}
	return strings.Join(list, " ")
}

func TestEventsSayWhoseBatchItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		users := make(chan string, 2) // it begins, and is not heard of any more
		r := New(func(e gpu.Event) { users <- e.User }, func(string) bool { return true }, func(lease.Owner, string) bool { return true })
		report(t, r, api.Batch{ID: "a", User: "ada", Stage: "running", Started: time.Now()})
		for range 2 {
			if user := <-users; user != "ada" {
				t.Errorf("an event is about %q", user)
			}
		}
	})
}

func TestARunnerThatFallsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, told := someRuns()
		report(t, r, api.Batch{ID: "silent", Output: "/x/out.jsonl", Stage: "running", Started: time.Now().Add(time.Second)})
		report(t, r, api.Batch{ID: "alive", Stage: "running", Started: time.Now()})
		time.Sleep(Silence - time.Second)
		report(t, r, api.Batch{ID: "alive", Stage: "running", Started: time.Now()})
		if got := ids(r); got != "alive silent" && got != "silent alive" {
			t.Errorf("before its time is over: %q", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := ids(r); got != "alive" {
			t.Errorf("after it: %q", got)
		}
		all := told()
		if last := all[len(all)-1]; !strings.HasPrefix(last, "warning failed The batch out.jsonl does not report any more") {
			t.Errorf("it was said: %s", last)
		}
		time.Sleep(Silence)
		synctest.Wait()
	})
}

// A report that comes behind the last one of its batch changes nothing.
func TestAReportThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, told := someRuns()
		b := api.Batch{ID: "a", Output: "/x/out.jsonl", Stage: "running", Started: time.Now(), Done: 5}
		report(t, r, b)
		last := b
		last.Stage, last.Done = "done", 7
		report(t, r, last)
		report(t, r, b)
		if got := r.List(); len(got) != 1 || got[0].Stage != "done" || got[0].Done != 7 {
			t.Errorf("listed are %+v", got)
		}
		time.Sleep(2 * Silence)
		synctest.Wait()
		if all := told(); len(all) != 2 || !strings.HasPrefix(all[1], "info finished") {
			t.Errorf("it was said: %q", all)
		}
		b.Started = b.Started.Add(time.Hour) // another run with the same id
		report(t, r, b)
		if got := r.List(); len(got) != 1 || got[0].Stage != "running" {
			t.Errorf("listed are %+v", got)
		}
		time.Sleep(2 * Silence)
		synctest.Wait()
	})
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, told := someRuns()
		for _, b := range []api.Batch{
			{ID: "1", Output: "a", Stage: "running"}, {ID: "1", Output: "a", Stage: "finishing"}, {ID: "1", Output: "a", Stage: "done", Done: 5, Failed: 1},
			{ID: "1", Output: "a", Stage: "done", Done: 5, Failed: 1},
			{ID: "2", Output: "b", Stage: "failed", Error: "the disk is full."},
			{ID: "3", Output: "c", Stage: "stopped", Done: 1},
			// It began before these runs did.
			{ID: "4", Output: "d", Stage: "running", Started: time.Now().Add(-Silence)},
			{ID: "4", Output: "d", Stage: "stopped", Done: 7, Started: time.Now().Add(-Silence)},
		} {
			report(t, r, b)
		}
		time.Sleep(2 * Silence)
		synctest.Wait()
		want := []string{
			"info started The batch a begins with its workers.",
			"warning finished The batch a is finished: 5 records, 1 of them failed.",
			"info started The batch b begins with its workers.",
			"warning failed The batch b failed after 0 records: the disk is full.",
			"info started The batch c begins with its workers.",
			"info stopped The batch c was stopped after 1 record.",
			"info seen The batch d goes on; its runner reports again.",
			"info stopped The batch d was stopped after 7 records.",
		}
		if diff := cmp.Diff(want, told()); diff != "" {
			t.Error(diff)
		}
		if got := ids(r); got != "" {
			t.Errorf("long after their ends there are %q", got)
		}
	})
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := someRuns()
		report(t, r, api.Batch{ID: "1", User: "ann"})
		report(t, r, api.Batch{ID: "1", User: "bob"}) // ids are per user
		if list := r.List(); len(list) != 2 || list[0].User != "ann" || list[1].User != "bob" {
			t.Errorf("listed: %+v", list)
		}
		if _, err := r.Report(api.Batch{}, by("")); !errors.Is(err, ErrID) {
			t.Errorf("without an id: %v", err)
		}
		if _, err := r.Report(api.Batch{ID: "a\nb"}, by("")); !errors.Is(err, ErrID) {
			t.Errorf("with an id of two lines: %v", err)
		}
		for i := range most - 2 {
			report(t, r, api.Batch{ID: fmt.Sprint("more", i), User: fmt.Sprint("user", i/mostPerUser)})
		}
		if _, err := r.Report(api.Batch{ID: "too many"}, by("")); !errors.Is(err, ErrTooMany) {
			t.Errorf("one too many: %v", err)
		}
		report(t, r, api.Batch{ID: "1", User: "ann"})
		time.Sleep(2 * Silence)
		synctest.Wait()
	})
}

// on is what a batch did on a GPU, with counts of records that took up to 1, 2.5
// and 5 seconds.
func on(gpu string, done int64, sum float64, counts ...uint64) api.BatchGPU {
	bounds := api.LatencyBounds()
	all := make([]uint64, len(bounds)+1)
	copy(all[slices.Index(bounds, 1):], counts)
	return api.BatchGPU{GPU: gpu, Done: done, Latency: api.Latency{Bounds: bounds, Counts: all, Sum: sum}}
}

func TestTotals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := someRuns()
		odd := on("a", 3, 1, 1, 1, 1)
		odd.Latency.Bounds[0] = 0.5
		for _, b := range []api.Batch{
			{ID: "1", GPUs: []api.BatchGPU{on("a", 2, 1.5, 2, 0, 0), on("unknown", 7, 7, 7, 0, 0)}},
			{ID: "1", GPUs: []api.BatchGPU{on("a", 5, 6.5, 2, 2, 1)}},
			{ID: "1", GPUs: []api.BatchGPU{on("a", 1, 0, 0, 0, 0)}}, // goes down: not believed
			{ID: "2", GPUs: []api.BatchGPU{on("a", 1, 0.5, 1, 0, 0)}},
			{ID: "3", GPUs: []api.BatchGPU{odd}}, // buckets that make no sense
		} {
			report(t, r, b)
		}
		want := []Total{{GPU: "a", Records: 9, Latency: on("a", 0, 7, 3, 2, 1).Latency}}
		got := r.Totals()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		got[0].Latency.Counts[0] = 99
		if again := r.Totals(); !slices.Equal(again[0].Latency.Counts, want[0].Latency.Counts) {
			t.Error("the answer is not the caller's own")
		}
		time.Sleep(2 * Silence)
		synctest.Wait()
	})
}

func TestEndedBatchesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := someRuns()
		past := func() (list []string) {
			for _, b := range r.Past() {
				list = append(list, b.User+"/"+b.ID+" "+b.Stage)
			}
			return list
		}
		report(t, r, api.Batch{ID: "first", User: "ada", Stage: "done", Done: 7})
		report(t, r, api.Batch{ID: "gone", User: "ada", Stage: "running", Rate: gpu.Some(3.0)})
		if got := past(); got != nil {
			t.Errorf("before they have ended: %q", got)
		}
		time.Sleep(Silence + time.Second)
		synctest.Wait()
		if got := past(); !slices.Contains(got, "ada/first done") || !slices.Contains(got, "ada/gone failed") || ids(r) != "" {
			t.Errorf("after their end: %q, and %q run", got, ids(r))
		}
		for _, b := range r.Past() {
			if b.ID == "gone" && (b.Error == "" || b.Rate.Known()) {
				t.Errorf("a batch without a runner: %+v", b.Batch)
			}
		}
		report(t, r, api.Batch{ID: "gone", User: "ada", Stage: "running"})
		if got := past(); !slices.Equal(got, []string{"ada/first done"}) {
			t.Errorf("one of them goes on: %q", got)
		}
		for i := range mostEndedPerUser + 5 {
			report(t, r, api.Batch{ID: fmt.Sprintf("m%02d", i), User: "mallory", Stage: "done"})
			if i%mostPerUser == mostPerUser-1 {
				time.Sleep(Silence + time.Second)
				synctest.Wait()
			}
		}
		time.Sleep(Silence + time.Second)
		synctest.Wait()
		got := past()
		if !slices.Contains(got, "ada/first done") || len(got) != 2+mostEndedPerUser { // gone has fallen silent again
			t.Errorf("a user with many displaces others: %d %q", len(got), got)
		}
	})
}

// What a batch has done counts once, though its runner is silent for a while or the daemon
// begins anew.
func TestRecordsCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := someRuns()
		b := api.Batch{ID: "x", User: "ada", Stage: "running", Started: time.Now()}
		done := func(r *Runs, n int64) uint64 {
			b.GPUs = []api.BatchGPU{{GPU: "a", Done: n}}
			report(t, r, b)
			return r.Totals()[0].Records
		}
		if got := done(r, 100_000); got != 100_000 {
			t.Errorf("%d records", got)
		}
		time.Sleep(Silence + time.Second)
		synctest.Wait()
		if got := done(r, 100_001); got != 100_001 {
			t.Errorf("after a silence: %d records", got)
		}
		time.Sleep(Silence - time.Second)
		r, _ = someRuns() // the daemon begins anew
		if got := done(r, 100_003); got != 0 {
			t.Errorf("in a new daemon: %d records, none of which it saw", got)
		}
		if got := done(r, 100_005); got != 2 {
			t.Errorf("in a new daemon: %d records, want 2", got)
		}
	})
}
