package keeper

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/internal/job"
)

// story submits jobs of every kind, changes them, and waits for their ends. It returns
// what must have become of those that were acknowledged.
func story(w *world) map[int64]string {
	w.script = func(_, id string, try int) plan {
		p := plan{takes: 20 * time.Second}
		if named, _ := job.ParseID(id); named.Name == "fails" || named.Name == "retried" && try == 1 {
			p.exit = 7
		}
		return p
	}
	act := func(do func(*daemon) error) {
		for {
			d := w.revive()
			if _ = do(d); !d.IsDead() { // a daemon that dies may have done it: then it is refused now
				return
			}
		}
	}
	want := map[int64]string{}
	one := w.submit(spec("one"))
	many := w.submit(spec("many", array("1-3%2")))
	fails := w.submit(spec("fails"))
	retried := w.submit(spec("retried", func(s *job.Spec) { s.Retry = 2 }))
	behind := w.submit(spec("behind", func(s *job.Spec) { s.After = []job.Ref{{Number: one.Number}} }))
	never := w.submit(spec("never", func(s *job.Spec) { s.After = []job.Ref{{Number: fails.Number}} }))
	held := w.submit(spec("held", func(s *job.Spec) { s.Hold = true }))
	cut := w.submit(spec("cut"))
	w.after(30 * time.Second)
	act(func(d *daemon) error { return d.Cancel(Act{Ref: job.Ref{Number: cut.Number}}) })
	act(func(d *daemon) error { return d.Unhold(Act{Ref: job.Ref{Number: held.Number}}) })
	w.after(30 * time.Minute)
	want[one.Number], want[many.Number], want[fails.Number], want[retried.Number] = "done", "done×3", "failed", "done"
	want[behind.Number], want[never.Number], want[held.Number], want[cut.Number] = "done", "cancelled", "done", ""
	return want
}

// check compares what became of the jobs of a story with what must have.
func check(w *world, want map[int64]string) {
	w.t.Helper()
	for n, state := range want {
		if got := w.state(n); state != "" && got != state {
			w.t.Errorf("killed at %d: job %d is %s (%s), want %s", w.KillAt, n, got, w.show(job.Ref{Number: n}).Cause, state)
		} else if state == "" && got != "cancelled" && got != "done" { // it may have ended before it was cancelled
			w.t.Errorf("killed at %d: the cancelled job is %s", w.KillAt, got)
		}
	}
	all := collected(w.daemon.Keeper, Query{Most: 1000})
	for _, s := range all { // also those whose submit was not answered
		if _, acknowledged := want[s.Spec.Number]; !s.Over() && (acknowledged || s.State != "held") {
			w.t.Errorf("killed at %d: %s is %s (%s)", w.KillAt, s.ID, s.State, s.Cause)
		}
		named, _ := job.ParseID(s.ID)
		if code, known := s.Exit.Get(); named.Name == "fails" && (!known || code != 7) {
			w.t.Errorf("killed at %d: the exit code of %s is %v", w.KillAt, s.ID, s.Exit)
		}
	}
	for id, runs := range w.started {
		most := 1
		if named, _ := job.ParseID(id); named.Name == "retried" {
			most = 2
		}
		if len(runs) > most {
			w.t.Errorf("killed at %d: %s was started in %v", w.KillAt, id, runs)
		}
	}
	w.idle()
}

// A daemon that is killed before or after any of its effects loses no job, starts no
// command twice, gets every exit code and leaves no lease.
func TestEveryCrashPoint(t *testing.T) {
	steps := 0
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		check(w, story(w))
		steps = w.Steps
		w.close()
	})
	if steps < 60 {
		t.Fatalf("the story has only %d steps", steps)
	}
	every := 1
	if testing.Short() {
		every = 7
	}
	for at := 1; at <= 2*steps; at += every {
		if t.Run(fmt.Sprint(at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.KillAt = at
				w.start()
				check(w, story(w))
				w.close()
			})
		}); t.Failed() {
			return
		}
	}
}

// The same with a daemon that is killed again and again.
func TestManyCrashes(t *testing.T) {
	for seed := range 20 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.KillAt = 3 + seed
			w.Again = 17 + 2*seed
			w.start()
			check(w, story(w))
			w.close()
		})
	}
}
