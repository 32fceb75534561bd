package keeper

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/job"
	"github.com/berth-gpu/berth/internal/when/later"
)

// inStates are ways into each state of a task in which it stays as long as nothing happens.
var inStates = map[string]struct {
	state  job.State
	plan   plan
	change func(*job.Spec)
	before func(*world)
	then   func(*world, job.Ref)
}{
	"in the queue":  {state: job.Waiting, before: func(w *world) { w.room = 0 }},
	"between tries": {state: job.Waiting, plan: plan{exit: 1}, change: func(s *job.Spec) { s.Retry = 9 }},
	"on hold":       {state: job.Waiting, change: func(s *job.Spec) { s.Hold = true }},
	"for a job":     {state: job.Waiting, change: func(s *job.Spec) { s.AfterAny = []job.Ref{{Number: 1}} }},
	"for its time":  {state: job.Waiting, change: func(s *job.Spec) { s.Begin = time.Now().Add(24 * time.Hour) }},
	"held": {state: job.Held, before: func(w *world) { w.Deny = errors.New("systemd is gone") }, then: func(w *world, _ job.Ref) {
		w.after(time.Minute)
		w.Set(func() { w.Deny = nil })
	}},
	"without order": {state: job.Starting, before: func(w *world) { w.unknown = slices.Repeat([]error{later.Because(errors.New("not now"), 0)}, 1e6) }},
	"running":       {state: job.Running, plan: plan{takes: 24 * time.Hour}},
	"not to be told": {state: job.Stopping, plan: plan{takes: 24 * time.Hour}, then: func(w *world, r job.Ref) {
		w.after(time.Second)
		w.Set(func() { w.unended = errors.New("the disk is full") })
		_ = w.daemon.Cancel(Act{Ref: r})
	}},
}

// Whatever state a run is in, and whatever happens to its lease, to its minder or to the
// daemon: once its owner cancels it, it ends, and its command and its lease with it.
func TestEveryRunHasAWayOut(t *testing.T) {
	cancel := func(w *world, r job.Ref) {
		if err := w.daemon.Cancel(Act{Ref: r}); err != nil && !errors.Is(err, ErrState) {
			w.t.Error(err)
		}
	}
	// takeLease ends the lease of a run. The daemon is told if it is there.
	takeLease := func(w *world, r job.Ref, told bool) {
		id, fence := w.show(r).ID, uint64(0)
		w.Set(func() {
			if h := w.leases[id]; h != nil {
				fence = h.fence
				delete(w.leases, id)
			}
		})
		if told && fence != 0 {
			w.daemon.Runs().LeaseEnded(fence, "it was released")
		}
	}
	for cause, happen := range map[string]func(*world, job.Ref){
		"cancelled":                     cancel,
		"cancelled, after a restart":    func(w *world, r job.Ref) { w.restart(); cancel(w, r) },
		"cancelled, then a restart":     func(w *world, r job.Ref) { cancel(w, r); w.restart() },
		"cancelled, then without lease": func(w *world, r job.Ref) { cancel(w, r); takeLease(w, r, true) },
		"without lease":                 func(w *world, r job.Ref) { takeLease(w, r, true); w.after(time.Minute); cancel(w, r) },
		"without lease, at a restart":   func(w *world, r job.Ref) { takeLease(w, r, false); w.restart(); w.after(time.Minute); cancel(w, r) },
		"cancelled on a full disk": func(w *world, r job.Ref) {
			w.full.Store(true)
			_ = w.daemon.Cancel(Act{Ref: r})
			w.after(time.Minute)
			w.full.Store(false)
			cancel(w, r)
		},
		"without minder": func(w *world, r job.Ref) {
			name := w.daemon.jobs[r.Number].running(0).name()
			w.finish(name, -1, "", "")
			w.after(time.Minute)
			cancel(w, r)
		},
		"after a reboot": func(w *world, r job.Ref) { w.reboot(); cancel(w, r) },
	} {
		for name, in := range inStates {
			t.Run(cause+"/"+name, func(t *testing.T) {
				play(t, func(w *world) {
					w.submit(spec("before", func(s *job.Spec) { s.Hold = true }))
					w.script = func(string, string, int) plan { return in.plan }
					if in.before != nil {
						w.Set(func() { in.before(w) })
					}
					train := spec("train")
					if in.change != nil {
						in.change(&train)
					}
					r := job.Ref{Number: w.submit(train).Number}
					if in.then != nil {
						in.then(w, r)
					}
					w.after(5 * time.Second)
					if got := w.daemon.jobs[r.Number].task(0).State; got != in.state {
						t.Fatalf("it is %s", got)
					}
					happen(w, r)
					w.Set(func() { w.unended, w.unknown = nil, nil })
					w.after(5 * time.Minute)
					if got := w.show(r); got.Ended == nil {
						t.Errorf("it is %s (%s)", got.State, got.Cause)
					}
					w.idle()
				})
			})
		}
	}
}
