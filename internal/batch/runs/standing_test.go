package runs

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// counted is how many records count on the one GPU.
func counted(r *Runs) uint64 {
	for _, t := range r.Totals() {
		return t.Records
	}
	return 0
}

func TestOneUserCannotTakeEveryPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := someRuns()
		for i := range mostPerUser {
			report(t, r, api.Batch{ID: fmt.Sprint(i), User: "mallory"})
		}
		if _, err := r.Report(api.Batch{ID: "more", User: "mallory"}, by("mallory")); !errors.Is(err, ErrShare) {
			t.Errorf("one more than a user may have: %v, want %v", err, ErrShare)
		}
		report(t, r, api.Batch{ID: "0", User: "mallory"}) // what is there may go on
		report(t, r, api.Batch{ID: "ada", User: "ada"})
		time.Sleep(2 * Silence)
		synctest.Wait()
		report(t, r, api.Batch{ID: "more", User: "mallory"})
		time.Sleep(2 * Silence)
		synctest.Wait()
	})
}

func TestOnlyHoldersCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := someRuns()
		say := func(done int64) {
			t.Helper()
			report(t, r, api.Batch{ID: "m", User: "mallory", Stage: "running", GPUs: []api.BatchGPU{on("a", done, float64(done), uint64(done))}})
		}
		say(5)
		if all := r.Totals(); len(all) != 0 {
			t.Errorf("without a lease it counts: %+v", all)
		}
		// A runner gives its leases back before it reports for the last time.
		r.Ended(&lease.Lease{Holder: lease.Holder{User: "mallory", UID: lease.NoUID}, Parts: []lease.Part{{GPU: "a"}}}, time.Now())
		say(12)
		if n := counted(r); n != 7 {
			t.Errorf("a moment after the end of its lease %d records count, want 7", n)
		}
		time.Sleep(Silence - time.Second)
		say(13)
		time.Sleep(2 * time.Second)
		say(100)
		if n := counted(r); n != 8 {
			t.Errorf("long after the end of its lease %d records count, want 8", n)
		}
		time.Sleep(2 * Silence)
		synctest.Wait()
	})
}

func TestTotalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := someRuns()
		say := func(id string, gpus ...api.BatchGPU) {
			t.Helper()
			report(t, r, api.Batch{ID: id, User: "ada", Stage: "running", GPUs: gpus})
		}
		expect := func(when string, want uint64) {
			t.Helper()
			if got := counted(r); got != want {
				t.Errorf("%s: %d records, want %d", when, got, want)
			}
		}
		say("1", on("a", math.MaxInt64, math.MaxFloat64, math.MaxUint64, math.MaxUint64))
		expect("a first report of everything", firstAllowance)
		l := r.Totals()[0].Latency
		var count uint64
		for _, n := range l.Counts {
			count += n
		}
		if count != firstAllowance || l.Sum > float64(count)*longest || l.Sum <= 0 {
			t.Errorf("the histogram has %d records that took %g s", count, l.Sum)
		}
		say("2", on("a", math.MaxInt64, 0))
		say("3", on("a", math.MaxInt64, 0), on("a", math.MaxInt64, 0), on("a", math.MaxInt64, 0))
		expect("under other ids at the same time", firstAllowance)
		time.Sleep(time.Second)
		say("4", on("a", math.MaxInt64, 0))
		expect("a second later", firstAllowance+recordsPerSecond)
		time.Sleep(Silence / 2)
		say("4", on("a", -1, -7))
		say("4", on("a", 7, math.Inf(1), 7))
		expect("after a negative count", firstAllowance+recordsPerSecond+7)
		for _, n := range []float64{l.Sum, r.Totals()[0].Latency.Sum} {
			if math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
				t.Errorf("the sum is %g", n)
			}
		}
		time.Sleep(2 * Silence)
		synctest.Wait()
	})
	if add(math.MaxUint64-1, 5) != math.MaxUint64 || add(1, 2) != 3 {
		t.Error("add wraps round")
	}
}

// A runner may report at any moment, and its records come in bursts.
func TestHonestRunsAreCountedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := someRuns()
		done := int64(0)
		for i := range 20 {
			done += 1_000_000
			report(t, r, api.Batch{ID: "1", User: "ada", Stage: "running", GPUs: []api.BatchGPU{on("a", done, float64(done), uint64(done))}})
			if i%2 == 0 {
				time.Sleep(time.Second)
			} else {
				time.Sleep(time.Millisecond)
			}
		}
		if n := counted(r); n != uint64(done) {
			t.Errorf("%d of %d records count", n, done)
		}
		if sum := r.Totals()[0].Latency.Sum; sum != float64(done) {
			t.Errorf("they took %g s, want %d", sum, done)
		}
		time.Sleep(2 * Silence)
		synctest.Wait()
	})
}

func TestTextsAreCleaned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []gpu.Event
		r := New(func(e gpu.Event) { events = append(events, e) }, func(uuid string) bool { return uuid == "a" }, func(lease.Owner, string) bool { return true })
		taken, err := r.Report(api.Batch{
			ID: "1", User: "ada", Output: "/secret/o\x1b[2Jut.jsonl", Command: "a\nb", Stage: "failed", Error: "no\x00 luck\xff.", Done: 12,
			GPUs: []api.BatchGPU{{GPU: "a", Name: "H\t200"}, {GPU: "a"}, {GPU: "b"}},
		}, by("ada"))
		if err != nil {
			t.Fatal(err)
		}
		if taken.Output != "/secret/o\uFFFD[2Jut.jsonl" || taken.Command != "a b" || taken.Error != "no\uFFFD luck\uFFFD." {
			t.Errorf("it is kept as %+v", taken)
		}
		if len(taken.GPUs) != 1 || taken.GPUs[0].Name != "H 200" {
			t.Errorf("its GPUs are kept as %+v", taken.GPUs)
		}
		last := events[len(events)-1]
		if last.Text != "The batch o\uFFFD[2Jut.jsonl failed after 12 records: no\uFFFD luck\uFFFD." ||
			last.Public != "A batch of ada failed after 12 records." || last.User != "ada" {
			t.Errorf("it is told as %+v", last)
		}
		report(t, r, api.Batch{ID: "2", User: "ada", Output: "out", Stage: "done", Done: 12})
		if last := events[len(events)-1]; last.Public != "A batch of ada is finished: 12 records, 0 of them failed." {
			t.Errorf("others read %q", last.Public)
		}
		time.Sleep(2 * Silence)
		synctest.Wait()
	})
}
