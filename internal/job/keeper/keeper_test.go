package keeper

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/job"
	"github.com/berth-gpu/berth/internal/job/run/runtest"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/when/later"
)

func TestAJobRuns(t *testing.T) {
	play(t, func(w *world) {
		s := w.submit(spec("train"))
		w.after(10 * time.Second)
		if got := w.state(s.Number); got != "running" {
			t.Errorf("it is %s", got)
		}
		w.after(2 * time.Minute)
		shown := w.show(job.Ref{Number: s.Number})
		if shown.State != "done" || shown.Exit != gpu.Some(0) || shown.Try != 1 || shown.Started == nil || shown.Ended == nil || len(w.started["train-1"]) != 1 {
			t.Errorf("it is %+v, started in %v", shown.Job, w.started)
		}
		w.idle()
	})
}

func TestAnArrayRuns(t *testing.T) {
	play(t, func(w *world) {
		w.room = 100
		s := w.submit(spec("train", array("1-6%2")))
		w.after(30 * time.Second)
		if got := w.state(s.Number); got != "running×2 waiting×4" {
			t.Errorf("it is %s", got)
		}
		w.after(time.Minute)
		if got := w.state(s.Number); got != "done×2 running×2 waiting×2" {
			t.Errorf("it is %s", got)
		}
		w.after(10 * time.Minute)
		shown := w.show(job.Ref{Number: s.Number})
		if got := w.state(s.Number); got != "done×6" || shown.State != "done" || shown.Exit != gpu.Some(0) || shown.Job.Tasks.Done != 6 {
			t.Errorf("it is %s, %+v", got, shown.Job)
		}
		w.idle()
	})
}

func TestRetriesAndCauses(t *testing.T) {
	play(t, func(w *world) {
		w.script = func(_, id string, try int) plan {
			return plan{takes: time.Minute, exit: map[bool]int{true: 7}[id == "bad-1" || try < 3]}
		}
		bad := w.submit(spec("bad", func(s *job.Spec) { s.Retry = 1 }))
		good := w.submit(spec("good", func(s *job.Spec) { s.Retry = 2 }))
		w.after(20 * time.Minute)
		if got := w.show(job.Ref{Number: bad.Number}); got.State != "failed" || got.Exit != gpu.Some(7) || got.Cause != "exit code 7 after 60 s" || got.Try != 2 {
			t.Errorf("it is %+v", got.Job)
		}
		if got := w.show(job.Ref{Number: good.Number}); got.State != "done" || got.Try != 3 {
			t.Errorf("it is %+v", got.Job)
		}
		w.idle()
	})
}

// A job has one alarm at most, however often it is looked at, and none when it has ended.
func TestAlarms(t *testing.T) {
	play(t, func(w *world) {
		w.room = 100
		w.script = func(string, string, int) plan { return plan{takes: time.Minute, exit: 7} }
		alarms := func() int {
			return w.daemon.runs.Timers() - 2 // those of the keeper and of its runs, to tidy
		}
		retried := w.submit(spec("retried", array("1-30"), func(s *job.Spec) { s.Retry = 3 }))
		for range 600 {
			w.after(time.Second)
			busy, _ := w.daemon.Of(retried.UID)
			if n := alarms(); n > 1+busy { // a run has one until its minder must have begun
				t.Errorf("there are %d alarms, and %d tasks run", n, busy)
				break
			}
		}
		if got := w.state(retried.Number); got != "failed×30" {
			t.Errorf("they are %s", got)
		}
		w.submit(spec("warned", func(s *job.Spec) { s.Lease.TimeLimit, s.Signal = gpu.Some(86400.0), "USR1" }))
		w.after(5 * time.Minute)
		for range 3 {
			later := Act{Ref: job.Ref{Number: w.submit(spec("later", func(s *job.Spec) { s.Begin = time.Now().Add(24 * time.Hour) })).Number}}
			for _, do := range []func(Act) error{w.daemon.Hold, w.daemon.Unhold, w.daemon.Cancel} {
				if n := alarms(); n != 1 {
					t.Errorf("there are %d alarms", n)
				}
				if err := do(later); err != nil {
					t.Error(err)
				}
			}
		}
		if n := alarms(); n != 0 {
			t.Errorf("%d alarms of jobs that have ended are left", n)
		}
		w.idle()
	})
}

// The record of a run that another job with the same number has left is not believed, even
// if its minder lives.
func TestARecordOfAnother(t *testing.T) {
	for name, record := range map[string]runs.Record{
		"runs":          {Started: time.Now(), Fence: 4711},
		"has ended":     {Started: time.Now(), Fence: 4711, Ended: time.Now(), Exit: gpu.Some(3)},
		"never started": {Ended: time.Unix(0, 0), Failure: "there is no such file"},
	} {
		play(t, func(w *world) {
			record.PID, record.Start, record.Boot = 7, 7, w.Boot
			w.Set(func() {
				w.Runs[fmt.Sprintf("%d.0.1", w.number+1)] = &runtest.Run{Record: record, Alive: record.Ended.IsZero()}
				if record.Ended.IsZero() {
					w.Living[7] = nil
				}
			})
			s := w.submit(spec("train"))
			w.after(5 * time.Minute)
			if got := w.show(job.Ref{Number: s.Number}); got.State != "done" || got.Try != 2 || len(w.started[got.ID]) != 1 {
				t.Errorf("%s: it is %+v", name, got.Job)
			}
		})
	}
}

// A command that has run is not run again because the clock was set back meanwhile.
func TestTheClockIsSetBackWhileAJobRuns(t *testing.T) {
	play(t, func(w *world) {
		s := w.submit(spec("train"))
		w.after(5 * time.Second)
		w.daemon.Kill()
		<-w.daemon.Over
		time.Sleep(2 * time.Minute)
		w.Set(func() {
			for _, r := range w.Runs {
				r.Record.Ended = r.Record.Ended.Add(-time.Hour)
			}
		})
		w.start()
		w.after(5 * time.Minute)
		if got := w.show(job.Ref{Number: s.Number}); got.State != "done" || got.Try != 1 || len(w.started[got.ID]) != 1 {
			t.Errorf("it is %+v", got.Job)
		}
	})
}

// Why no minder can be started is the cause of the job, which is tried again a few times and
// then held.
func TestNoMinder(t *testing.T) {
	play(t, func(w *world) {
		w.Set(func() { w.Deny = errors.New("systemd does not answer") })
		s := w.submit(spec("train"))
		w.after(2 * time.Minute)
		want := "tried 6 times: the process that minds it could not be started: systemd does not answer; it is held: let it go with berth unhold"
		if got := w.show(job.Ref{Number: s.Number}); got.State != "held" || got.Cause != want || got.Code != string(job.NotStarted) {
			t.Errorf("it is %+v", got.Job)
		}
		w.Set(func() { w.Deny, w.early = nil, 1 })
		if err := w.daemon.Unhold(Act{Ref: job.Ref{Number: s.Number}}); err != nil {
			t.Error(err)
		}
		w.after(2 * time.Minute)
		if got := w.show(job.Ref{Number: s.Number}); got.State != "done" {
			t.Errorf("it is %+v", got.Job)
		}
		w.idle()
	})
}

// A minder that is killed before it has written anything costs a moment, not the time that
// one may take to begin.
func TestMindersKilledEarly(t *testing.T) {
	play(t, func(w *world) {
		w.Set(func() { w.early = 3 })
		s := w.submit(spec("train"))
		w.after(10 * time.Second) // the pauses between the tries are 1, 2 and 4 s
		if got := w.show(job.Ref{Number: s.Number}); got.State != "running" || got.Try != 4 {
			t.Errorf("it is %+v", got.Job)
		}
		w.after(2 * time.Minute)
		w.idle()
	})
}

// A run for which the machine is short of something is tried again, and held in the end.
func TestWhatTheMachineIsShortOf(t *testing.T) {
	for tries, state := range map[int]string{3: "done", 6: "held"} {
		play(t, func(w *world) {
			w.Set(func() { w.short = tries })
			s := w.submit(spec("train"))
			w.after(5 * time.Minute)
			got := w.show(job.Ref{Number: s.Number})
			if got.State != state || state == "held" && !strings.Contains(got.Cause, "tried 6 times: its command could not be started: open the log: no space left on device") {
				t.Errorf("it is %+v", got.Job)
			}
			w.idle()
		})
	}
}

// While nobody says what users may have, a daemon that starts takes in how runs have ended.
func TestAStartWaitsForNoLimits(t *testing.T) {
	play(t, func(w *world) {
		first := w.submit(spec("first"))
		w.after(time.Second)
		w.room = 1
		w.submit(spec("second"))
		answers := make(chan struct{})
		w.daemon.Kill()
		<-w.daemon.Over
		w.asked = func() { <-answers }
		w.start()
		w.after(2 * time.Minute)
		if got := w.state(first.Number); got != "done" {
			t.Errorf("the first is %s", got)
		}
		close(answers)
		w.after(5 * time.Minute)
		w.idle()
	})
}

// A clock that is months ahead for a while, as after a start, makes nobody forget a job.
func TestAWrongClockForgetsNothing(t *testing.T) {
	play(t, func(w *world) {
		s := w.submit(spec("train"))
		w.after(5 * time.Minute)
		for _, d := range []*daemon{w.daemon, w.restart()} {
			d.writing.Lock()
			d.tidy(time.Now().Round(0).Add(2 * keepFor))
			d.writing.Unlock()
			if got := w.state(s.Number); got != "done" {
				t.Errorf("it is %s", got)
			}
		}
		w.idle()
	})
}

// While what a minder left is cleared away that was not needed any more, other runs are
// noticed to end.
func TestClearingKeepsNobodyWaiting(t *testing.T) {
	play(t, func(w *world) {
		w.Set(func() { w.unhanded = later.Because(errors.New("not yet"), 0) })
		first := w.submit(spec("first"))
		w.after(5 * time.Second)
		cleared := make(chan struct{})
		w.Set(func() { delete(w.leases, first.ID()); w.Clearing, w.unhanded = cleared, nil })
		second := w.submit(spec("second"))
		w.after(2 * time.Minute)
		if got := w.state(second.Number); got != "done" {
			t.Errorf("the second is %s", got)
		}
		w.Set(func() { w.Clearing = nil })
		close(cleared)
		w.after(10 * time.Minute)
		w.idle()
	})
}

// A run that cannot be limited is not tried again.
func TestNoLimits(t *testing.T) {
	play(t, func(w *world) {
		w.Set(func() { w.Deny = fmt.Errorf("%w: there is no controller for memory", runs.ErrLimits) })
		s := w.submit(spec("train"))
		w.after(time.Second)
		want := "its command could not be started: limit the run: there is no controller for memory"
		if got := w.show(job.Ref{Number: s.Number}); got.State != "failed" || got.Cause != want || got.Code != string(job.NotStarted) {
			t.Errorf("it is %+v", got.Job)
		}
		w.Set(func() { w.room = 0 })
		late := w.submit(spec("train"))
		w.after(time.Second)
		w.Set(func() { w.wrote, w.room = func(int) { w.full.Store(true) }, 1 }) // from its grant on
		w.after(10 * time.Second)
		w.Set(func() { w.wrote = nil; w.full.Store(false) })
		w.after(10 * time.Second)
		if got := w.show(job.Ref{Number: late.Number}); got.State != "failed" || got.Cause != want || got.Try != 1 {
			t.Errorf("it is %+v", got.Job)
		}
		w.idle()
	})
}

// The end of a job is told with its entry in the journal, before its lease and its record
// are cleared away, which the next daemon does.
func TestTheEndIsTold(t *testing.T) {
	play(t, func(w *world) {
		s := w.submit(spec("train"))
		w.after(time.Second)
		w.Set(func() { w.wrote = func(int) { w.wrote, w.KillAt = nil, 2*w.Steps+1 } }) // killed before the next effect
		w.after(5 * time.Minute)
		told := 0
		w.Set(func() {
			for _, e := range w.events {
				if e.Code == gpu.EventJobEnded && e.Lease == s.ID() {
					told++
				}
			}
		})
		if got := w.state(s.Number); got != "done" || told != 1 {
			t.Errorf("it is %s, and that was told %d times", got, told)
		}
		w.idle()
	})
}

// A user database that does not answer is asked again. One that is away may know no user,
// so that the job of a user who is not there is tried a few times and then held.
func TestAccounts(t *testing.T) {
	notNow := later.Because(errors.New("the user database does not answer"), 0)
	play(t, func(w *world) {
		w.Set(func() { w.unknown = []error{notNow, notNow} })
		later := w.submit(spec("later"))
		w.after(5 * time.Minute)
		if got := w.show(job.Ref{Number: later.Number}); got.State != "done" {
			t.Errorf("it is %+v", got.Job)
		}
		gone := errors.New("the user ada does not exist any more")
		for tries, state := range map[int]string{3: "done", 6: "held"} {
			w.Set(func() { w.unknown = slices.Repeat([]error{gone}, tries) })
			s := w.submit(spec("gone"))
			w.after(5 * time.Minute)
			if got := w.show(job.Ref{Number: s.Number}); got.State != state || state == "held" && !strings.Contains(got.Cause, gone.Error()) {
				t.Errorf("it is %+v", got.Job)
			}
		}
		w.idle()
	})
}

func TestDependencies(t *testing.T) {
	play(t, func(w *world) {
		w.script = func(_, id string, _ int) plan {
			return plan{takes: time.Minute, exit: map[string]int{"fails-1": 1}[id]}
		}
		after := func(kind string, n ...int64) func(*job.Spec) {
			return func(s *job.Spec) {
				var refs []job.Ref
				for _, each := range n {
					refs = append(refs, job.Ref{Number: each})
				}
				switch kind {
				case "ok":
					s.After = refs
				case "any":
					s.AfterAny = refs
				case "failed":
					s.AfterFailed = refs
				}
			}
		}
		a := w.submit(spec("fails"))
		b := w.submit(spec("works"))
		want := map[int64]string{a.Number: "failed", b.Number: "done"}
		never := w.submit(spec("never", after("ok", a.Number, b.Number)))
		behind := w.submit(spec("behind", after("ok", never.Number)))
		anyway := w.submit(spec("any", after("any", a.Number, b.Number, never.Number)))
		alarm := w.submit(spec("alarm", after("failed", a.Number, b.Number)))
		calm := w.submit(spec("calm", after("failed", b.Number)))
		if got := w.show(job.Ref{Number: never.Number}); got.Code != string(job.ForJobs) || got.Cause != fmt.Sprintf("waits for fails-%d, works-%d", a.Number, b.Number) {
			t.Errorf("it waits because %q", got.Cause)
		}
		want[never.Number], want[behind.Number], want[anyway.Number], want[alarm.Number], want[calm.Number] = "cancelled", "cancelled", "done", "done", "cancelled"
		w.after(20 * time.Minute)
		for n, state := range want {
			if got := w.show(job.Ref{Number: n}); got.State != state {
				t.Errorf("%s is %s (%s), want %s", got.ID, got.State, got.Cause, state)
			}
		}
		if got := w.show(job.Ref{Number: behind.Number}).Cause; got != fmt.Sprintf("it can never begin: never-%d did not end well", never.Number) {
			t.Errorf("the cause is %q", got)
		}
		if left := w.daemon.waitedFor; len(left) != 0 {
			t.Errorf("all have ended, and %v are left", left)
		}
		w.idle()
	})
}

// The end of a task has every job looked at that waits for it, also those of others, so how
// much the jobs of one user wait for has a limit.
func TestTheJobsOfOneUserWaitForSoManyOthers(t *testing.T) {
	play(t, func(w *world) {
		w.room = 0
		first := w.submit(spec("first", func(s *job.Spec) { s.Hold = true }))
		const each = mostAwaited / 10
		waits := spec("waits", func(s *job.Spec) { s.AfterAny = slices.Repeat([]job.Ref{{Number: first.Number}}, each) })
		var last job.Spec
		for range 10 {
			last = w.submit(waits)
		}
		w.restart()
		if _, err := w.daemon.Submit(waits, nil, gpu.By{}); !errors.Is(err, ErrLimit) {
			t.Errorf("one job more than may wait: %v", err)
		}
		other := waits
		other.UID, other.User = 1001, "bob"
		w.submit(other)
		w.submit(spec("alone"))
		if err := w.daemon.Cancel(Act{Ref: job.Ref{Number: last.Number}}); err != nil {
			t.Fatal(err)
		}
		w.submit(waits)
		if err := w.daemon.Cancel(Act{Ref: job.Ref{Number: first.Number}}); err != nil {
			t.Fatal(err)
		}
		w.after(time.Minute)
		w.submit(waits) // the others wait for nobody any more
		for _, u := range w.daemon.users {
			if u.awaits != 0 {
				t.Errorf("%s waits for %d others, and all have ended", u.name, u.awaits)
			}
		}
	})
}

// The oldest jobs are forgotten as soon as too many tasks have ended, except those that
// another one waits for.
func TestTheOldestAreForgotten(t *testing.T) {
	play(t, func(w *world) {
		w.room = 0
		ends := func() job.Spec {
			s := w.submit(spec("many", array("1-30000")))
			if err := w.daemon.Cancel(Act{Ref: job.Ref{Number: s.Number}}); err != nil {
				t.Fatal(err)
			}
			return s
		}
		needed := ends()
		held := w.submit(spec("held", func(s *job.Spec) { s.Hold = true }))
		w.submit(spec("waits", func(s *job.Spec) { s.AfterAny = []job.Ref{{Number: needed.Number}, {Number: held.Number}} }))
		oldest, kept := ends(), ends()
		if w.show(job.Ref{Number: oldest.Number}); w.daemon.Usage().Tasks[job.Cancelled] != 90_000 {
			t.Error("one was forgotten too early")
		}
		ends()
		w.after(time.Second)
		for _, s := range []job.Spec{needed, kept} {
			w.show(job.Ref{Number: s.Number})
		}
		if _, err := w.daemon.Show(job.Ref{Number: oldest.Number}); !errors.Is(err, ErrUnknown) {
			t.Errorf("the oldest: %v", err)
		}
	})
}

// What let a job begin may be forgotten before that begins, and the daemon may restart then.
func TestForgottenAfterItWasWaitedFor(t *testing.T) {
	for name, how := range map[string]func(*job.Spec){
		"held":  func(s *job.Spec) { s.Hold = true },
		"later": func(s *job.Spec) { s.Begin = time.Now().Add(2 * keepFor) },
		"array": func(s *job.Spec) { array("1-2%1")(s) }, // the first of its tasks runs for ages
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				w.script = func(_, id string, _ int) plan {
					return plan{takes: map[bool]time.Duration{true: keepFor + keepFor/2}[strings.HasSuffix(id, ".1")] + time.Minute}
				}
				first := w.submit(spec("first"))
				second := w.submit(spec("second", how, func(s *job.Spec) { s.After = []job.Ref{{Number: first.Number}} }))
				w.after(5 * time.Minute)
				time.Sleep(keepFor + 2*time.Hour)
				if _, err := w.daemon.Show(job.Ref{Number: first.Number}); !errors.Is(err, ErrUnknown) {
					t.Errorf("what it waited for: %v", err)
				}
				w.restart()
				time.Sleep(keepFor)
				_ = w.daemon.Unhold(Act{Ref: job.Ref{Number: second.Number}})
				w.after(2 * time.Minute)
				if got := w.state(second.Number); got != "done" && got != "done×2" {
					t.Errorf("%s is %s: %s", name, got, w.show(job.Ref{Number: second.Number}).Cause)
				}
			})
		})
	}
}

// A job of somebody who only waits for it is not kept for that.
func TestOthersKeepNothing(t *testing.T) {
	play(t, func(w *world) {
		ended := w.submit(spec("ended"))
		open := w.submit(spec("open", func(s *job.Spec) { s.Hold, s.UID, s.User = true, 1001, "eve" }))
		w.submit(spec("waits", func(s *job.Spec) {
			s.UID, s.User, s.After = 1001, "eve", []job.Ref{{Number: ended.Number}, {Number: open.Number}}
		}))
		w.after(5 * time.Minute)
		time.Sleep(keepFor + 2*time.Hour)
		if _, err := w.daemon.Show(job.Ref{Number: ended.Number}); !errors.Is(err, ErrUnknown) {
			t.Errorf("a job that ended long ago: %v", err)
		}
	})
}

// Nobody can make the daemon forget the jobs of others.
func TestEachUserHasAShare(t *testing.T) {
	play(t, func(w *world) {
		w.room = 0
		ends := func(s job.Spec) int64 {
			n := w.submit(s).Number
			if err := w.daemon.Cancel(Act{Ref: job.Ref{Number: n}}); err != nil {
				t.Fatal(err)
			}
			return n
		}
		of := func(s *job.Spec) { s.UID, s.User = 1001, "grace" }
		modest := ends(spec("modest", of, array("1-50000")))
		first := ends(spec("first", array("1-60000")))
		ends(spec("second", array("1-50000")))
		w.after(time.Second)
		w.show(job.Ref{Number: modest})
		if _, err := w.daemon.Show(job.Ref{Number: first}); !errors.Is(err, ErrUnknown) {
			t.Errorf("the first job of who has more than a share: %v", err)
		}
	})
}

// Many jobs are forgotten in pieces, between which others may change jobs.
func TestForgettingInPieces(t *testing.T) {
	play(t, func(w *world) {
		w.room = 0
		ends := func(s job.Spec) {
			if err := w.daemon.Cancel(Act{Ref: job.Ref{Number: w.submit(s).Number}}); err != nil {
				t.Fatal(err)
			}
		}
		for range 2*tidiedAtOnce + 1 {
			ends(spec("small"))
		}
		k := w.daemon.Keeper
		k.writing.Lock()
		k.tidyAt = math.MaxInt // else it tidies by itself, perhaps first
		k.writing.Unlock()
		ends(spec("many", array("1-99999")))
		k.writing.Lock()
		more := k.tidy(time.Now())
		left := len(k.ended)
		k.runs.Set(&k.tidying, time.Now(), tidies{})
		k.writing.Unlock()
		if !more || left != tidiedAtOnce+2 {
			t.Errorf("%d are left after the first piece, and some of them for another one: %v", left, more)
		}
		w.after(time.Second)
		if k.endedSum != mostEnded || len(k.ended) != 2 {
			t.Errorf("%d tasks of %d jobs are kept", k.endedSum, len(k.ended))
		}
	})
}

func TestHoldCancelPriorityBegin(t *testing.T) {
	play(t, func(w *world) {
		w.room = 1
		running := w.submit(spec("running"))
		w.after(5 * time.Second)
		held := w.submit(spec("held", func(s *job.Spec) { s.Hold = true }))
		later := w.submit(spec("later", func(s *job.Spec) { s.Begin = time.Now().Add(10 * time.Minute) }))
		waits := w.submit(spec("waits", array("1-50")))
		w.after(5 * time.Second)
		if n := len(w.daemon.jobs[waits.Number].queued); n != mostQueued {
			t.Errorf("%d tasks stand in the queue", n)
		}
		act := func(do func(Act) error, n int64) {
			t.Helper()
			if err := do(Act{Ref: job.Ref{Number: n}}); err != nil {
				t.Error(err)
			}
		}
		act(w.daemon.Hold, waits.Number)
		act(w.daemon.Cancel, running.Number)
		w.after(5 * time.Second)
		if got := w.state(waits.Number) + " " + w.state(running.Number) + " " + w.state(held.Number); got != "held×50 cancelled held" {
			t.Errorf("they are %s", got)
		}
		if shown := w.show(job.Ref{Number: running.Number}); shown.Exit != gpu.Some(143) || shown.Cause != "cancelled by berth" {
			t.Errorf("it is %+v", shown.Job)
		}
		act(w.daemon.Unhold, held.Number)
		w.after(5 * time.Second)
		if got := w.state(held.Number); got != "running" {
			t.Errorf("it is %s", got)
		}
		if err := w.daemon.Cancel(Act{Ref: job.Ref{Number: waits.Number, Task: 7, One: true}}); err != nil {
			t.Error(err)
		}
		act(w.daemon.Unhold, waits.Number)
		w.after(9 * time.Minute)
		if got := w.state(later.Number); got != "waiting" {
			t.Errorf("it is %s", got)
		}
		if err := w.daemon.Prioritize(job.Ref{Number: later.Number}, 5); err != nil {
			t.Error(err)
		}
		act(w.daemon.Cancel, waits.Number)
		w.after(5 * time.Minute)
		if got := w.state(later.Number) + " " + w.state(waits.Number); got != "done done×6 cancelled×1 done×1 cancelled×42" {
			t.Errorf("they are %s", got)
		}
		if err := w.daemon.Cancel(Act{Ref: job.Ref{Number: waits.Number}}); err == nil {
			t.Error("what has ended is cancelled")
		}
		w.idle()
	})
}

// A task that is cancelled while its end is taken in has a cause.
func TestCancelledAtTheEnd(t *testing.T) {
	play(t, func(w *world) {
		w.learns = func(id string) {
			named, _ := job.ParseID(id)
			if err := w.daemon.Cancel(Act{Ref: job.Ref{Number: named.Number}}); err != nil {
				t.Error(err)
			}
		}
		s := w.submit(spec("train"))
		w.after(2 * time.Minute)
		if got := w.show(job.Ref{Number: s.Number}); got.State != "cancelled" || got.Cause != "cancelled by berth" || got.Code != string(job.ByCancel) {
			t.Errorf("it is %+v", got.Job)
		}
		w.idle()
	})
}

// A task may be held and let go before it has left the queue.
func TestHeldForAMoment(t *testing.T) {
	play(t, func(w *world) {
		w.room = 0
		s := w.submit(spec("train", array("1-2")))
		w.after(time.Second)
		one := Act{Ref: job.Ref{Number: s.Number, Task: 2, One: true}}
		for range 3 {
			if err := w.daemon.Hold(one); err != nil {
				t.Error(err)
			}
			if err := w.daemon.Unhold(one); err != nil {
				t.Error(err)
			}
		}
		w.after(time.Second)
		if j := w.daemon.jobs[s.Number]; len(j.queued) != 2 || j.owner.queued != 2 {
			t.Errorf("%d tasks are in the queue, and %d of the user", len(j.queued), j.owner.queued)
		}
		w.Set(func() { w.room = 2 })
		w.after(5 * time.Minute)
		if got := w.state(s.Number); got != "done×2" {
			t.Errorf("it is %s", got)
		}
		w.idle()
	})
}

// A lease that was granted to a job that is held by now goes back.
func TestTheLeaseOfAHeldJob(t *testing.T) {
	play(t, func(w *world) {
		s := w.submit(spec("train", func(s *job.Spec) { s.Hold = true }))
		w.Set(func() { w.leases[s.ID()] = &held{key: KeyOf(&s, s.ID()), uid: s.UID, fence: 7} })
		w.restart()
		w.idle()
	})
}

// A lease of a task that may not begin now, and one of a job that is lost, are given back
// when a daemon starts: nobody else can release them. A process keeps the one that it has.
func TestLeasesThatNoTaskHas(t *testing.T) {
	play(t, func(w *world) {
		w.limits.Off = true
		s := w.submit(spec("train"))
		w.Set(func() {
			w.leases[s.ID()] = &held{key: KeyOf(&s, s.ID()), uid: s.UID, fence: 7}
			w.leases["lost-99"] = &held{key: KeyOf(&job.Spec{Number: 99, UID: s.UID}, "lost-99"), uid: s.UID, fence: 8}
			w.leases["lost-98"] = &held{key: KeyOf(&job.Spec{Number: 98, UID: s.UID}, "lost-98"), uid: s.UID, fence: 9, pid: 1}
		})
		w.restart()
		w.after(time.Second)
		w.Set(func() {
			if left := slices.Collect(maps.Keys(w.leases)); !slices.Equal(left, []string{"lost-98"}) {
				t.Errorf("%q are left", left)
			}
			delete(w.leases, "lost-98")
		})
	})
}

// What fails for good while a lease is handed over is the end of the run.
func TestAHandOverThatFailsForGood(t *testing.T) {
	play(t, func(w *world) {
		w.Set(func() { w.unhanded = errors.New("this is a bug in berth") })
		s := w.submit(spec("train"))
		w.after(5 * time.Minute)
		if got := w.show(job.Ref{Number: s.Number}); got.State != "failed" || !strings.Contains(got.Cause, "this is a bug") {
			t.Errorf("it is %+v", got.Job)
		}
		w.idle()
	})
}

// A lease that the user of a job has under its id is the user's, and is never given back for
// the job. What an earlier berth granted to a task is known by its fence, once.
func TestLeasesOfAnEarlierBerth(t *testing.T) {
	play(t, func(w *world) {
		w.room = 2
		s := w.submit(spec("train"))
		w.after(time.Second)
		mine := w.submit(spec("train", func(s *job.Spec) { s.Hold = true }))
		w.Set(func() {
			w.leases[s.ID()].old = true
			w.leases[mine.ID()] = &held{key: KeyOf(&mine, mine.ID()), uid: mine.UID, fence: 7, old: true}
		})
		w.restart()
		w.after(time.Second)
		w.Set(func() {
			if of := w.leases[s.ID()]; of == nil || of.old {
				t.Errorf("the lease of the job is %+v", of)
			}
			if of := w.leases[mine.ID()]; of == nil || !of.old {
				t.Errorf("the lease of its user is %+v", of)
			}
			delete(w.leases, mine.ID())
		})
		w.after(time.Hour)
	})
}

// An id that the user has in use is given to no job.
func TestNumbersPassIdsInUse(t *testing.T) {
	play(t, func(w *world) {
		first := w.submit(spec("train", func(s *job.Spec) { s.Hold = true }))
		next := spec("train", func(s *job.Spec) { s.Hold = true })
		next.Number = first.Number + 1
		w.Set(func() { w.leases[next.ID()] = &held{uid: first.UID, fence: 7, old: true} })
		if s := w.submit(spec("train", func(s *job.Spec) { s.Hold = true })); s.ID() == next.ID() {
			t.Errorf("the job is called %s, as a lease of its user", s.ID())
		}
		w.Set(func() { delete(w.leases, next.ID()) })
	})
}

// Nothing is lost when a daemon is killed, however often, and each daemon goes on where
// the last one was.
func TestRestarts(t *testing.T) {
	play(t, func(w *world) {
		w.room = 3
		s := w.submit(spec("train", array("1-9")))
		for range 30 {
			w.after(11 * time.Second)
			w.restart()
		}
		w.after(10 * time.Minute)
		if got := w.state(s.Number); got != "done×9" {
			t.Errorf("it is %s", got)
		}
		for id, runs := range w.started {
			if len(runs) != 1 {
				t.Errorf("%s was started in %v", id, runs)
			}
		}
		w.idle()
	})
}

func TestReboot(t *testing.T) {
	play(t, func(w *world) {
		w.room = 3
		lost := w.submit(spec("lost"))
		again := w.submit(spec("again", func(s *job.Spec) { s.Requeue = job.OnMachine }))
		w.after(10 * time.Second)
		w.reboot()
		w.after(time.Second)
		if got := w.show(job.Ref{Number: lost.Number}); got.State != "lost" || got.Exit.Known() || got.Cause != "the machine was started again while it ran" {
			t.Errorf("it is %+v", got.Job)
		}
		w.after(5 * time.Minute)
		if got := w.show(job.Ref{Number: again.Number}); got.State != "done" || got.Try != 2 {
			t.Errorf("it is %+v", got.Job)
		}
		w.idle()
	})
}

func TestMindersKilled(t *testing.T) {
	play(t, func(w *world) {
		w.room = 9
		w.script = func(_, id string, try int) plan {
			return plan{takes: time.Minute, killed: id == "killed-1", before: id == "early-2" && try == 1 || id == "never-3"}
		}
		tries := 0
		script := w.script
		w.script = func(run, id string, try int) plan {
			p := script(run, id, try)
			if id == "early-2" {
				tries++
				p.before = tries == 1
			}
			return p
		}
		a := w.submit(spec("killed"))
		synctest.Wait() // its fence is a number, too
		w.Set(func() { w.number = 1 })
		b := w.submit(spec("early"))
		synctest.Wait()
		w.Set(func() { w.number = 2 })
		c := w.submit(spec("never"))
		w.after(20 * time.Minute)
		if got := w.state(a.Number) + " " + w.state(b.Number) + " " + w.state(c.Number); got != "lost done held" {
			t.Errorf("they are %s", got)
		}
		if n := len(w.started["never-3"]); n != 0 {
			t.Errorf("it was started %d times", n)
		}
		w.idle()
	})
}

// A task that was cancelled, and whose lease has ended without its programs, ends with the
// next daemon.
func TestCancelledWithoutALease(t *testing.T) {
	play(t, func(w *world) {
		w.script = func(string, string, int) plan { return plan{takes: 24 * time.Hour} }
		s := w.submit(spec("train"))
		w.after(time.Second)
		w.Set(func() { clear(w.leases) })
		if err := w.daemon.Cancel(Act{Ref: job.Ref{Number: s.Number}}); err != nil {
			t.Fatal(err)
		}
		w.after(time.Minute)
		if got := w.state(s.Number); got != "cancelled" {
			t.Errorf("it is %s", got)
		}
		w.idle()
	})
}

// A run whose lease ends is ended, by the daemon that notices and by one that finds it so.
func TestARunLosesItsLease(t *testing.T) {
	for name, then := range map[string]func(*world, string, uint64){
		"at once":         func(w *world, _ string, fence uint64) { w.daemon.Runs().LeaseEnded(fence, "somebody released it") },
		"after a restart": func(w *world, _ string, _ uint64) { w.restart() },
		"another's, before": func(w *world, _ string, fence uint64) {
			w.daemon.Runs().LeaseEnded(fence-1, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				w.script = func(string, string, int) plan { return plan{takes: 24 * time.Hour} }
				s := w.submit(spec("train"))
				w.after(time.Second)
				var fence uint64
				w.Set(func() { fence = w.leases[s.ID()].fence; clear(w.leases) })
				then(w, s.ID(), fence)
				w.after(10 * time.Second)
				got := w.show(job.Ref{Number: s.Number})
				if name == "another's, before" {
					if got.State != "running" {
						t.Errorf("it is %+v", got.Job)
					}
					w.daemon.Runs().LeaseEnded(fence, "")
					w.after(10 * time.Second)
					got = w.show(job.Ref{Number: s.Number})
				}
				if got.State != "failed" || got.Code != string(job.ByBerth) || !strings.Contains(got.Cause, "released it") && !strings.Contains(got.Cause, "its lease had ended") {
					t.Errorf("it is %+v", got.Job)
				}
				w.idle()
			})
		})
	}
}

// A minder that is killed takes its lease with it, and berth has not ended the run, whichever
// end is noticed first.
func TestAMinderIsKilledAndItsLeaseEnds(t *testing.T) {
	play(t, func(w *world) {
		w.script = func(string, string, int) plan { return plan{takes: 24 * time.Hour} }
		s := w.submit(spec("train"))
		w.after(time.Second)
		var fence uint64
		w.Set(func() { fence, w.dead = w.leases[s.ID()].fence, true; clear(w.leases) })
		w.daemon.Runs().LeaseEnded(fence, "")
		w.after(4 * time.Second)
		w.finish(s.Run(0, 1), -1, "", "")
		w.after(time.Minute)
		if got := w.show(job.Ref{Number: s.Number}); got.State != "lost" {
			t.Errorf("it is %+v", got.Job)
		}
		w.idle()
	})
}

// Programs that cannot be told to end are told again, and that is said once.
func TestCancelledAgainAndAgain(t *testing.T) {
	play(t, func(w *world) {
		w.script = func(string, string, int) plan { return plan{takes: 24 * time.Hour} }
		s := w.submit(spec("train"))
		w.after(time.Second)
		w.Set(func() { w.unended = errors.New("the disk is full") })
		if err := w.daemon.Cancel(Act{Ref: job.Ref{Number: s.Number}}); err != nil {
			t.Fatal(err)
		}
		w.after(time.Minute)
		said := 0
		w.Set(func() {
			w.unended = nil
			for _, e := range w.events {
				if strings.Contains(e.Text, "cannot be ended yet: the disk is full") {
					said++
				}
			}
		})
		if got := w.state(s.Number); got != "running" || said != 1 {
			t.Errorf("it is %s, and that was said %d times", got, said)
		}
		w.after(time.Minute)
		if got := w.state(s.Number); got != "cancelled" {
			t.Errorf("it is %s", got)
		}
		w.idle()
	})
}

// A signal comes before the end of the time limit, which stands still while the lease is
// parked, for the daemon that sees that and for one that starts meanwhile.
func TestParkedBeforeItsTimeLimit(t *testing.T) {
	play(t, func(w *world) {
		w.script = func(string, string, int) plan { return plan{takes: 3 * time.Hour} }
		s := w.submit(spec("train", func(s *job.Spec) { s.Lease.TimeLimit, s.Signal, s.Warning = gpu.Some(600.0), "USR1", time.Minute }))
		w.after(3 * time.Minute)
		w.Set(func() { w.parked = -1 })
		w.after(20 * time.Minute)
		w.restart()
		w.after(10 * time.Minute)
		w.Set(func() { w.parked = 30 * time.Minute })
		w.after(5 * time.Minute)
		if n := w.signals(s.ID()); n != 0 {
			t.Errorf("with two minutes left it got %d signals", n)
		}
		w.after(90 * time.Second)
		if n := w.signals(s.ID()); n != 1 {
			t.Errorf("with less than a minute left it got %d signals", n)
		}
	})
}

// The end of a lease moves with the clock, and the signal with it. It comes also while the
// disk is full.
func TestSignalAfterTheClockWasSet(t *testing.T) {
	play(t, func(w *world) {
		w.script = func(string, string, int) plan { return plan{takes: 3 * time.Hour} }
		s := w.submit(spec("train", func(s *job.Spec) { s.Lease.TimeLimit, s.Signal, s.Warning = gpu.Some(7200.0), "USR1", time.Minute }))
		w.after(3 * time.Minute)
		w.Set(func() { w.moved = -time.Hour }) // as the ledger has it after the clock was set back
		w.full.Store(true)
		w.after(57 * time.Minute)
		if n := w.signals(s.ID()); n != 1 {
			t.Errorf("at its end it has got %d signals", n)
		}
	})
}

// An array says first what is in its way first: while none of its tasks runs, that is a
// GPU, and not how many of them may run at a time.
func TestWhyAnArrayWaits(t *testing.T) {
	play(t, func(w *world) {
		w.room = 0
		s := w.submit(spec("train", array("1-12%3")))
		w.after(time.Second)
		whole, last := job.Ref{Number: s.Number}, job.Ref{Number: s.Number, Task: 12, One: true}
		for ref, want := range map[job.Ref]job.Code{whole: job.ForTurn, last: job.BeforeTurn} {
			if got := w.show(ref); got.Code != string(want) {
				t.Errorf("with nothing free, %s waits because of %s: %s", got.ID, got.Code, got.Cause)
			}
		}
		w.Set(func() { w.room = 3 })
		w.after(time.Minute)
		if got := w.show(last); got.State == "waiting" && got.Code != string(job.ForTasks) {
			t.Errorf("while three run, it waits because of %s: %s", got.Code, got.Cause)
		}
		w.after(time.Hour)
		w.idle()
	})
}

// With jobs: off, what stands in the queue leaves it, and comes back when jobs are on.
func TestJobsAreSwitchedOff(t *testing.T) {
	play(t, func(w *world) {
		w.room = 0
		s := w.submit(spec("train"))
		w.after(time.Second)
		w.limits = Limits{Off: true}
		w.daemon.LimitsChanged()
		w.after(time.Second)
		w.Set(func() { w.room = 1 })
		w.after(5 * time.Minute)
		if got := w.show(job.Ref{Number: s.Number}); got.State != "waiting" || got.Code != string(job.ForQuota) {
			t.Errorf("it is %+v", got.Job)
		}
		w.limits = Limits{}
		w.daemon.LimitsChanged()
		w.after(5 * time.Minute)
		if got := w.state(s.Number); got != "done" {
			t.Errorf("it is %s", got)
		}
	})
}

// A task that stands in the queue waits for its turn, whatever refused it before.
func TestRefusedBefore(t *testing.T) {
	play(t, func(w *world) {
		w.room = 0
		s := w.submit(spec("train"))
		w.after(time.Second)
		refuse := func() {
			j := w.daemon.jobs[s.Number]
			w.daemon.writing.Lock()
			w.daemon.postpone(j, 0, errors.New("every device is in quarantine"), time.Now().Add(refusedPause))
			w.daemon.writing.Unlock()
		}
		refuse()
		if got := w.show(job.Ref{Number: s.Number}); got.Code != string(job.ForTurn) {
			t.Errorf("in the queue it is %+v", got.Job)
		}
		running, waiting := w.daemon.Of(1000)
		if running != 1 || waiting != 1 {
			t.Errorf("%d tasks count as running, and %d as waiting", running, waiting)
		}
	})
}

// What cannot be read for a moment is asked again, and people see why the run waits. What
// is gone for good is the cause.
func TestEnvironmentsThatCannotBeRead(t *testing.T) {
	play(t, func(w *world) {
		w.room = 0
		for _, c := range []struct {
			name string
			do   func(path string) error
			want string
		}{
			{"later", func(path string) error { return errors.Join(os.Rename(path, path+"-"), os.Mkdir(path, 0o700)) }, "starting refused"},
			{"gone", os.Remove, "failed not_started"},
		} {
			w.Set(func() { w.room = 0 })
			s := w.submit(spec(c.name))
			path := w.daemon.environments.path(s.Environment)
			if err := c.do(path); err != nil {
				t.Fatal(err)
			}
			w.Set(func() { w.room = 1 })
			w.after(time.Minute)
			if got := w.show(job.Ref{Number: s.Number}); got.State+" "+got.Code != c.want || got.Cause == "" {
				t.Errorf("%s: it is %+v", c.name, got.Job)
			}
			if c.name == "later" {
				if err := errors.Join(os.Remove(path), os.Rename(path+"-", path)); err != nil {
					t.Fatal(err)
				}
				w.after(5 * time.Minute)
				if got := w.show(job.Ref{Number: s.Number}); got.State != "done" || got.Cause != "" {
					t.Errorf("it is %+v", got.Job)
				}
			}
		}
		w.idle()
	})
}

// A run whose lease ended before its order begins again, also if that cannot be written
// down for a while.
func TestNoLeaseOnAFullDisk(t *testing.T) {
	play(t, func(w *world) {
		w.Set(func() {
			w.unknown = slices.Repeat([]error{later.Because(errors.New("the user database does not answer"), 0)}, 100)
		})
		s := w.submit(spec("train"))
		w.after(2 * time.Second)
		w.full.Store(true)
		w.Set(func() { clear(w.leases); w.unknown = nil })
		w.after(20 * time.Second)
		w.Set(func() {
			for _, watchers := range w.Living {
				if len(watchers) != 1 {
					t.Errorf("a minder is watched %d times", len(watchers))
				}
			}
		})
		w.full.Store(false)
		w.after(5 * time.Minute)
		if got := w.show(job.Ref{Number: s.Number}); got.State != "done" || got.Try < 2 {
			t.Errorf("it is %+v", got.Job)
		}
		w.idle()
	})
}

// Whatever state a task is in, and whatever is said to be the cause: its owner and an
// operator end it, and a restart leaves it where it goes on, or can be ended.
func TestEveryStateHasAWayOut(t *testing.T) {
	codes := []job.Code{
		"", job.ByExitCode, job.BySignal, job.OutOfMemory, job.OutOfHost, job.OverLimit, job.ByBerth, job.DeviceFault, job.ByTimeLimit, job.ByReboot, job.ByShutdown,
		job.NotStarted, job.MinderGone, job.ByCancel, job.Impossible, job.TooManyFaults, job.WaitedTooLong, job.ByRestore, job.OnHold, job.NoEnvironment, job.ForBegin,
		job.ForJobs, job.ForPause, job.ForTasks, job.ForQuota, job.ForTurn, job.BeforeTurn, job.Refused,
	}
	for _, who := range []access.Actor{{UID: 1000, User: "ada", Role: access.User}, {UID: 1, User: "olga", Role: access.Operator}} {
		for _, begin := range []time.Duration{0, 10 * time.Minute} { // after which somebody cancels them
			play(t, func(w *world) {
				w.daemon.Kill()
				<-w.daemon.Over
				w.room = 1000
				w.script = func(string, string, int) plan { return plan{takes: 24 * time.Hour} }
				for _, state := range job.States() {
					for _, code := range codes {
						if state.Over() {
							continue
						}
						w.number++
						s := spec("train", func(s *job.Spec) { s.Number = w.number })
						task := job.Task{State: state, Code: code, Cause: "for " + string(code)}
						if state.Busy() {
							task.Try, task.Fence, task.Granted = 1, uint64(w.number), time.Now()
						}
						if state == job.Running {
							task.PID, task.Started = 17, time.Now()
						}
						w.entries = append(w.entries, (&entry{Submit: &s}).text(), (&entry{Tasks: &tasks{Number: s.Number, Task: task}}).text())
					}
				}
				w.start()
				w.after(begin)
				for n := int64(1); n <= w.number; n++ {
					w.daemon.mu.RLock()
					j := w.daemon.jobs[n]
					if j == nil { // it has ended
						w.daemon.mu.RUnlock()
						continue
					}
					before := *j.task(0)
					w.daemon.mu.RUnlock()
					if err := w.daemon.Cancel(Act{Ref: job.Ref{Number: n}, By: who}); err != nil {
						t.Errorf("%s with %s: %v", before.State, before.Code, err)
					}
				}
				w.after(5 * time.Minute)
				for _, left := range w.daemon.jobs {
					t.Errorf("job %d is %+v", left.Number, left.task(0))
				}
				w.idle()
			})
		}
	}
}

// A pause is not longer because the clock was set back meanwhile.
func TestPausesEndThoughTheClockWasSetBack(t *testing.T) {
	play(t, func(w *world) {
		w.script = func(_, _ string, n int) plan { return plan{exit: 2 - n} }
		s := w.submit(spec("train", func(s *job.Spec) { s.Retry = 1 }))
		w.after(100 * time.Millisecond)
		w.daemon.writing.Lock()
		j := w.daemon.jobs[s.Number]
		again := *j.task(0)
		again.NotBefore = again.NotBefore.Add(time.Hour)
		w.daemon.mu.Lock()
		w.daemon.put(j, 0, 0, &again)
		w.daemon.mu.Unlock()
		j.resumes = again.NotBefore
		w.daemon.writing.Unlock()
		w.after(2 * time.Minute)
		if got := w.show(job.Ref{Number: s.Number}); got.State != "done" {
			t.Errorf("it is %s (%s)", got.State, got.Cause)
		}
	})
}

// Who waits is as old as before after the clock was set, also for the next daemon: a task
// that stood in the queue, and one that did not come so far.
func TestWaitsMoveWithTheClock(t *testing.T) {
	play(t, func(w *world) {
		w.room = 0
		queued, later := w.submit(spec("train")), w.submit(spec("later", func(s *job.Spec) { s.Hold = true }))
		w.after(10 * time.Second)
		since := func(number int64) [2]time.Time {
			w.daemon.writing.Lock()
			defer w.daemon.writing.Unlock()
			j := w.daemon.jobs[number]
			return [2]time.Time{j.task(0).Since, j.eligible(j.task(0), time.Now().Add(24*time.Hour))}
		}
		before := [][2]time.Time{since(queued.Number), since(later.Number)}
		w.daemon.Shift(2 * time.Hour)
		w.after(10 * time.Second)
		for _, when := range []string{"after it was set", "after a restart"} {
			for i, number := range []int64{queued.Number, later.Number} {
				for k, at := range since(number) {
					if was := before[i][k]; !was.IsZero() && at.Sub(was) != 2*time.Hour {
						t.Errorf("%s, job %d waits since %v, and waited since %v", when, number, at, was)
					}
				}
			}
			w.restart()
		}
	})
}

// What is refused leaves nothing.
func TestARefusedSubmitLeavesNothing(t *testing.T) {
	play(t, func(w *world) {
		w.full.Store(true)
		for i := range 5 {
			if _, err := w.daemon.Submit(spec("refused"), []string{fmt.Sprint("A=", i)}, gpu.By{}); err == nil {
				t.Error("a job was taken that is not on disk")
			}
		}
		if left, _ := os.ReadDir(filepath.Join(w.folder, "environments")); len(left) != 0 {
			t.Errorf("%d environments are left", len(left))
		}
		w.Set(func() {
			if told := slices.DeleteFunc(w.events, func(e gpu.Event) bool { return e.Code != gpu.EventJournal }); len(told) != 1 {
				t.Errorf("people read %v", told)
			}
		})
	})
}

// A job that was cancelled while it was held is over.
func TestUnholdWhatHasEnded(t *testing.T) {
	play(t, func(w *world) {
		s := w.submit(spec("train", func(s *job.Spec) { s.Hold = true }))
		if err := w.daemon.Cancel(Act{Ref: job.Ref{Number: s.Number}}); err != nil {
			t.Fatal(err)
		}
		if err := w.daemon.Unhold(Act{Ref: job.Ref{Number: s.Number}}); !errors.Is(err, ErrState) {
			t.Errorf("it is let go: %v", err)
		}
	})
}

// A job that stays held is not said to be let go.
func TestUnholdOnADiskThatFills(t *testing.T) {
	play(t, func(w *world) {
		s := w.submit(spec("train", array("1-2"), func(s *job.Spec) { s.Hold = true }))
		if err := w.daemon.Hold(Act{Ref: job.Ref{Number: s.Number, Task: 1, One: true}}); err != nil {
			t.Fatal(err)
		}
		w.Set(func() { w.wrote = func(int) { w.full.Store(true) } })
		if err := w.daemon.Unhold(Act{Ref: job.Ref{Number: s.Number}}); !errors.Is(err, journal.ErrFull) {
			t.Errorf("it is let go: %v", err)
		}
		w.full.Store(false)
	})
}

// Tasks that differ are cancelled and let go in pieces, none of which is large, and none
// begins between two of them.
func TestManyTasksThatDiffer(t *testing.T) {
	play(t, func(w *world) {
		const n = 3 * mostEntries
		w.room = 0
		s := w.submit(spec("train", array(fmt.Sprint("1-", n))))
		w.after(time.Second)
		for i := 1; i <= n; i++ {
			if err := w.daemon.Hold(Act{Ref: job.Ref{Number: s.Number, Task: i, One: true}, Why: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
		}
		largest := 0
		w.Set(func() { w.wrote = func(entries int) { largest = max(largest, entries) } })
		if err := w.daemon.Unhold(Act{Ref: job.Ref{Number: s.Number}}); err != nil {
			t.Fatal(err)
		}
		w.after(time.Second)
		if j := w.daemon.jobs[s.Number]; len(j.queued)+len(j.again) != n || !slices.IsSorted(j.again) {
			t.Errorf("%d of its tasks are in the queue, and %d wait for that", len(j.queued), len(j.again))
		}
		w.Set(func() { w.room = 1 })
		if err := w.daemon.Cancel(Act{Ref: job.Ref{Number: s.Number}}); err != nil {
			t.Fatal(err)
		}
		if got := w.state(s.Number); got != fmt.Sprintf("cancelled×%d", n) || len(w.started) != 0 {
			t.Errorf("they are %s, and %d were started", got, len(w.started))
		}
		if largest > mostEntries+1 {
			t.Errorf("one group has %d entries", largest)
		}
		synctest.Wait()
		if w.daemon.past[s.Number] == nil || w.daemon.jobs[s.Number] != nil || w.state(s.Number) != fmt.Sprintf("cancelled×%d", n) {
			t.Error("it is not packed")
		}
		w.idle()
	})
}

// What is on a full disk is there whole or not at all.
func TestFullDisk(t *testing.T) {
	play(t, func(w *world) {
		before := w.submit(spec("before"))
		w.full.Store(true)
		if _, err := w.daemon.Submit(spec("refused"), []string{"SECRET=1"}, gpu.By{}); err == nil {
			t.Error("a job was taken that is not on disk")
		}
		w.after(3 * time.Minute)
		w.full.Store(false)
		w.after(3 * time.Minute)
		all := collected(w.daemon.Keeper, Query{Most: 100})
		if len(all) != 1 || w.state(before.Number) != "done" {
			t.Errorf("there are %d jobs, and the first is %s", len(all), w.state(before.Number))
		}
		w.idle()
	})
}

// A journal of few large entries is compacted too; after a failure the next try waits.
func TestCompaction(t *testing.T) {
	play(t, func(w *world) {
		long := &long{Journal: w.daemon.journal.Journal, stats: journal.Stats{LogEntries: 9, DiskBytes: compactBytes + 1, SnapshotBytes: 1}}
		w.daemon.journal.Journal = long
		for range 100 {
			w.submit(spec("held", func(s *job.Spec) { s.Hold = true }))
			w.after(time.Second)
		}
		if n := long.tries.Load(); n != 2 {
			t.Errorf("in 100 seconds it was tried %d times, want 2", n)
		}
		long.stats.DiskBytes = 3 * compactBytes
		long.stats.SnapshotBytes = compactBytes + 1
		w.after(2 * compactRetry)
		w.submit(spec("held", func(s *job.Spec) { s.Hold = true }))
		if n := long.tries.Load(); n != 2 {
			t.Errorf("it was tried although the snapshot would be as large")
		}
	})
}

// The times from before the clock was set leave the journal as soon as it can be rewritten,
// also if nobody has anything written meanwhile.
func TestJournalIsRewrittenAfterTheClockWasSet(t *testing.T) {
	play(t, func(w *world) {
		long := &long{Journal: w.daemon.journal.Journal}
		w.daemon.journal.Journal = long
		w.daemon.Shift(2 * time.Hour)
		w.after(10*compactRetry - time.Second)
		if n := long.tries.Load(); n != 10 {
			t.Errorf("in ten minutes it was tried %d times, want 10", n)
		}
	})
}

// long is a journal that seems long, and cannot be made shorter.
type long struct {
	journal.Journal
	stats journal.Stats
	tries atomic.Int64
}

func (l *long) Stats() journal.Stats { return l.stats }
func (l *long) Compact(uint64, iter.Seq[[]byte]) error {
	l.tries.Add(1)
	return errors.New("no space left on device")
}

func TestQuotas(t *testing.T) {
	play(t, func(w *world) {
		w.room, w.limits = 10, Limits{Running: gpu.Some(2), Waiting: gpu.Some(5)}
		s := w.submit(spec("train", array("1-5")))
		w.after(5 * time.Second)
		if got := w.state(s.Number); got != "running×2 waiting×3" {
			t.Errorf("it is %s", got)
		}
		if got := w.show(job.Ref{Number: s.Number, Task: 5, One: true}).Code; got != string(job.ForQuota) {
			t.Errorf("it waits because of %s", got)
		}
		if _, err := w.daemon.Submit(spec("more", array("1-3")), nil, gpu.By{}); err == nil {
			t.Error("a user has more waiting tasks than allowed")
		}
		w.limits.Running = gpu.Some(3)
		w.daemon.LimitsChanged()
		w.after(5 * time.Second)
		if got := w.state(s.Number); got != "running×3 waiting×2" {
			t.Errorf("with a higher limit it is %s", got)
		}
		w.after(10 * time.Minute)
		if got := w.state(s.Number); got != "done×5" {
			t.Errorf("it is %s", got)
		}
	})
}

// Limits that are strict because the user database does not answer are asked for again.
func TestLimitsThatPass(t *testing.T) {
	play(t, func(w *world) {
		w.limits = Limits{Running: gpu.Some(0), Passing: true}
		s := w.submit(spec("train"))
		w.after(time.Minute)
		if got := w.state(s.Number); got != "waiting" {
			t.Errorf("it is %s", got)
		}
		w.Mu.Lock()
		w.limits = Limits{}
		w.Mu.Unlock()
		w.after(refusedPause + 5*time.Second)
		if got := w.state(s.Number); got != "running" {
			t.Errorf("once the database has answered it is %s", got)
		}
		w.after(10 * time.Minute)
		w.idle()
	})
}

// Nobody waits for a user database that does not answer, except who submits.
func TestLimitsThatAreSlow(t *testing.T) {
	play(t, func(w *world) {
		w.room, w.limits = 0, Limits{Running: gpu.Some(1)}
		s := w.submit(spec("train", array("1-2")))
		answer, done := make(chan struct{}), make(chan struct{})
		w.asked = func() { <-answer }
		go func() {
			defer close(done)
			w.submit(spec("next"))
		}()
		for range 2 { // to submit, and to feed
			synctest.Wait()
			if !w.daemon.writing.TryLock() {
				t.Fatal("who asks for limits keeps others waiting")
			}
			w.daemon.writing.Unlock()
			if got := w.show(job.Ref{Number: s.Number, Task: 2, One: true}); got.Code != string(job.ForQuota) {
				t.Errorf("it waits because of %s", got.Code)
			}
			answer <- struct{}{}
		}
		<-done
		w.asked = nil
	})
}

func TestTimeLimit(t *testing.T) {
	play(t, func(w *world) {
		w.script = func(string, string, int) plan { return plan{takes: time.Hour} }
		s := w.submit(spec("train", func(s *job.Spec) { s.Lease.TimeLimit, s.Signal, s.Warning = gpu.Some(600.0), "USR1", time.Minute }))
		w.after(8 * time.Minute)
		if n := w.signals(s.ID()); n != 0 {
			t.Errorf("it got %d signals", n)
		}
		w.restart()
		w.after(90 * time.Second)
		if n := w.signals(s.ID()); n != 1 {
			t.Errorf("it got %d signals", n)
		}
		var fence uint64
		w.Set(func() { fence = w.leases[s.ID()].fence })
		w.daemon.Overran(s.ID(), 1000, fence)
		w.finish("1.0.1", 143, "SIGTERM", "")
		w.after(5 * time.Second)
		if got := w.show(job.Ref{Number: s.Number}); got.State != "timed_out" || got.Exit != gpu.Some(143) {
			t.Errorf("it is %+v", got.Job)
		}
		w.idle()
	})
}

// Ten thousand tasks cost one entry, and are listed at once.
func TestTenThousandTasks(t *testing.T) {
	play(t, func(w *world) {
		s := w.submit(spec("train", array("1-10000")))
		w.after(5 * time.Second)
		if n := w.written(); n > 100 {
			t.Errorf("the journal has %d entries", n)
		}
		if all := slices.Collect(w.daemon.Tasks(s.Number)); len(all) != 10000 || all[9999].ID != fmt.Sprintf("train-%d.10000", s.Number) {
			t.Errorf("%d tasks", len(all))
		}
		before := w.written()
		if err := w.daemon.Cancel(Act{Ref: job.Ref{Number: s.Number}}); err != nil {
			t.Fatal(err)
		}
		if n := w.written() - before; n > 100 {
			t.Errorf("to cancel them takes %d entries", n)
		}
		w.after(time.Minute)
		w.restart()
		if got := w.state(s.Number); got != "cancelled×10000" {
			t.Errorf("they are %s", got)
		}
		w.idle()
	})
}

// What ended long ago is forgotten, with its environment.
func TestForgetting(t *testing.T) {
	play(t, func(w *world) {
		old := w.submit(spec("old"))
		w.after(5 * time.Minute)
		w.after(keepFor / 2)
		young := w.submit(spec("young"))
		w.after(keepFor/2 + 2*time.Hour)
		w.restart()
		all := collected(w.daemon.Keeper, Query{Most: 100})
		var ids []string
		for _, s := range all {
			ids = append(ids, s.ID)
		}
		if !slices.Equal(ids, []string{young.ID()}) {
			t.Errorf("%v are kept, without %s", ids, old.ID())
		}
	})
}

// Any tasks of a large array can be submitted again.
func TestScatteredTasks(t *testing.T) {
	play(t, func(w *world) {
		all := job.Array{{First: 1, Last: 20_000, Step: 1}}
		s := w.submit(spec("again", func(s *job.Spec) { s.Hold, s.Array = true, all.Only(func(i int) bool { return i%2 == 0 }) }))
		if got := w.state(s.Number); got != "held×10000" {
			t.Errorf("they are %s", got)
		}
		w.restart()
		if got := w.show(job.Ref{Number: s.Number, Task: 19_999, One: true}); got.State != "held" {
			t.Errorf("the last is %s", got.State)
		}
	})
}

// A job that is cancelled while it stands in the queue of leases leaves its place there to
// others of its user.
func TestACancelledJobLeavesItsPlace(t *testing.T) {
	play(t, func(w *world) {
		w.room = 0
		for range mostQueued {
			s := w.submit(spec("unwanted"))
			w.after(2 * time.Second)
			if err := w.daemon.Cancel(Act{Ref: job.Ref{Number: s.Number}}); err != nil {
				t.Fatal(err)
			}
			w.after(2 * time.Second)
		}
		w.Set(func() { w.room = 1 })
		s := w.submit(spec("wanted"))
		w.after(2 * time.Minute)
		if state := w.state(s.Number); state != "done" {
			t.Errorf("the next job is %s", state)
		}
		w.idle()
	})
}

// A lease that an earlier berth granted to a task that has ended, and was killed before it
// could give back, is given back.
func TestTheLeaseOfAnEarlierBerthThatIsLeft(t *testing.T) {
	play(t, func(w *world) {
		s := w.submit(spec("train"))
		w.after(2 * time.Minute)
		if state := w.state(s.Number); state != "done" {
			t.Fatalf("it is %s", state)
		}
		fence := w.daemon.job(s.Number).task(0).Fence
		w.Set(func() { w.leases[s.ID()] = &held{key: KeyOf(&s, s.ID()), uid: s.UID, fence: fence, old: true} })
		w.restart()
		w.after(time.Second)
		w.idle()
	})
}

// A task that is tried again does not wait until what is left of the run before has ended.
func TestASlowCleanUpDelaysNoTask(t *testing.T) {
	play(t, func(w *world) {
		w.Clearing = make(chan struct{})
		w.script = func(_, _ string, try int) plan { return plan{takes: time.Second, exit: 2 - try} }
		s := w.submit(spec("again", func(s *job.Spec) { s.Retry = 1 }))
		w.after(time.Minute)
		w.submit(spec("another"))
		w.after(time.Minute)
		if state := w.state(s.Number); state != "done" {
			t.Errorf("it is %s", state)
		}
		close(w.Clearing)
		w.after(time.Minute)
		w.idle()
	})
}
