package watchdog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// Run carries out the decisions until ctx ends. It leaves unfinished ones then: the lease
// continues, and the next daemon notices it again.
func (w *Watchdog) Run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.work:
		}
		w.mu.Lock()
		todo := w.todo
		w.todo = nil
		w.mu.Unlock()
		for _, do := range todo {
			group.Go(func() {
				defer w.faults.Catch("", "ending processes that must not go on", func(error) {}) // the next sample or the book asks for it again
				do(ctx)
			})
		}
	}
}

// add hands a function to Run. The caller holds mu.
func (w *Watchdog) add(do func(context.Context)) {
	w.todo = append(w.todo, do)
	select {
	case w.work <- struct{}{}:
	default: // Run is going to look anyway
	}
}

func (w *Watchdog) done(what any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.ending, what)
}

// Changed takes notice of a change in the book. It revokes a lease that was cancelled or
// has reached its time limit, and ends the processes of the lease first. It does not
// block, and does nothing if the lease is already being revoked.
func (w *Watchdog) Changed(e *lease.Effect) {
	if e.Kind != lease.Overran {
		return
	}
	l := e.After
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end(l, overrunMandate(l), Ending{Fence: l.Fence, Why: l.OverrunText()})
}

// overrunMandate returns the mandate by which a lease ends that was cancelled or has
// reached its time limit: that of its user, unless an operator cancelled it, or an
// operator or a rule set the limit.
func overrunMandate(l *lease.Lease) kinship.Mandate {
	all := l.Imposed
	if l.Cancelled != nil {
		all = l.Cancelled.All
	}
	if all {
		return kinship.Authority()
	}
	return kinship.OfUser(l.Holder.UID)
}

// end begins to revoke a lease, once, and after its users have ended if berth is ending
// those. The caller holds mu.
func (w *Watchdog) end(l *lease.Lease, in kinship.Mandate, e Ending) {
	key, fence, why := l.Key(), l.Fence, e.Why
	if then, users := w.then[fence]; users && then == nil {
		w.then[fence] = func() { w.end(l, in, e) }
	}
	if w.ending[fence] {
		return
	}
	w.ending[fence] = true
	grace := w.settings.Optimization.DeallocationTimeout
	w.add(func(ctx context.Context) {
		defer w.done(fence)
		minder := process.ID{PID: l.Holder.PID, Start: l.Holder.Start}
		if l.Binding != lease.ByProcess || !w.minds(minder) {
			minder = process.ID{}
		}
		if !in.All {
			in.Minder = minder // it would start the program after the end of the lease
		}
		t := w.membersOf(l, in, w.leases.Scoped)
		t.minder = minder
		_, spared := w.look(t)
		if !w.leases.BeginRevoke(key, fence, why, w.processes.Describe(spared)) {
			return
		}
		w.noteEnding(e)
		w.record(byPolicy("revoke", api.AuditObject{Kind: "lease", Owner: l.Holder.User, ID: l.ID}, why+w.leftAlone(spared)))
		left, spared := w.stop(ctx, grace, t)
		if ctx.Err() != nil {
			return
		}
		if len(left) > 0 {
			w.complain(l, left)
			why += "; some of its processes could not be ended"
		}
		err := w.leases.Revoke(ctx, key, fence, why, w.processes.Describe(spared))
		if err != nil && !errors.Is(err, lease.ErrUnknown) && !errors.Is(err, lease.ErrStaleFence) { // it may have ended already
			w.event(gpu.Event{
				Time: time.Now(), Code: gpu.EventOverLimit, Severity: gpu.Warning, Lease: key.ID, User: l.Holder.User, Data: map[string]any{"fence": fence},
				Text: fmt.Sprintf("berth could not revoke %s and tries again: %v", key.ID, err),
			})
		}
	})
}

// leftAlone names spared processes, to follow a sentence.
func (w *Watchdog) leftAlone(spared []process.ID) string {
	return lease.LeftAlone(w.processes.Describe(spared))
}

// endStranger returns the function that ends a process under no lease. It does not try
// again to end a process that it could not end. The caller holds mu.
func (w *Watchdog) endStranger(on gpu.Device, s Stranger) func(context.Context) {
	policy, grace := "gpu.foreign is "+w.settings.GPU.Foreign, w.settings.Optimization.DeallocationTimeout
	return func(ctx context.Context) {
		again := true // also after a bug
		defer func() {
			if again {
				w.done(s.ID)
			}
		}()
		left := w.stopStranger(ctx, on, s, policy, kinship.Authority(), grace)
		again = len(left) == 0 && ctx.Err() == nil
	}
}

// ErrLeased means that a process was not ended, because it runs under a lease.
var ErrLeased = errors.New("it runs under a lease now")

// EndOrphan ends a process whose lease has ended, under the mandate in, and waits until
// it has ended. Policy says why berth may end it. EndOrphan leaves alone a process that
// runs under a lease again.
func (w *Watchdog) EndOrphan(ctx context.Context, on gpu.Device, s Stranger, in kinship.Mandate, policy string) error {
	w.mu.Lock()
	grace, begun := w.settings.Optimization.DeallocationTimeout, w.ending[s.ID]
	w.ending[s.ID] = true
	w.mu.Unlock()
	if begun {
		return errors.New("berth is ending it already, or could not end it before")
	}
	defer w.done(s.ID)
	if w.leases.Leased(on.UUID, s.ID) {
		return ErrLeased
	}
	if _, spared := w.processes.Reach(in, []process.ID{s.ID}); len(spared) > 0 {
		return fmt.Errorf("it was left alone: %w", process.ErrSpared)
	}
	left := w.stopStranger(ctx, on, s, policy, in, grace)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case len(left) > 0:
		return errors.New("it could not be ended" + w.whyLeft(left))
	case w.lives(s.ID):
		return ErrLeased
	}
	return nil
}

// stopStranger ends a process under no lease, because of a policy, and publishes that. It
// leaves alone a process that gets a lease meanwhile. It returns the process if it could
// not end it.
func (w *Watchdog) stopStranger(ctx context.Context, on gpu.Device, s Stranger, policy string, in kinship.Mandate, grace time.Duration) []process.ID {
	adopted := false
	leased := func(id process.ID) bool {
		adopted = adopted || w.leases.Leased(on.UUID, id)
		return adopted
	}
	if !leased(s.ID) {
		w.record(byPolicy("kill", api.AuditObject{Kind: "process", Owner: s.User, ID: fmt.Sprint(s.PID)},
			fmt.Sprintf("%s uses %s of %s under no lease, and %s", s, s.Memory, on.Label(), policy)))
	}
	left, spared := w.stop(ctx, grace, target{in: in, moved: leased, members: func() (members, barred []process.ID) {
		return slices.DeleteFunc([]process.ID{s.ID}, leased), nil
	}})
	if ctx.Err() != nil || adopted {
		return nil
	}
	left = append(left, spared...)
	severity := gpu.Warning
	text := fmt.Sprintf("%s was ended: it used %s of %s under no lease, and %s", s, s.Memory, on.Label(), policy)
	if len(left) > 0 {
		severity = gpu.Serious
		text = fmt.Sprintf("%s uses %s of %s under no lease, and could not be ended%s", s, s.Memory, on.Label(), w.whyLeft(left))
	}
	told := s.event(on, time.Now(), severity, text)
	told.Data["ended"] = len(left) == 0
	w.event(told)
	return left
}

// byPolicy returns the entry of the audit log for processes that berth ends by itself.
func byPolicy(what string, object api.AuditObject, why string) api.AuditEntry {
	return api.AuditEntry{Who: api.AuditActor{Door: string(access.Itself)}, What: what, Object: object, Why: why, Outcome: "done"}
}

// lookEvery is how often stop checks whether processes have ended, and dying is for how
// long after SIGKILL: a process in the driver dies when it returns from there.
const (
	lookEvery = 50 * time.Millisecond
	dying     = 5 * time.Second
)

// target is the set of processes that an act ends.
type target struct {
	in      kinship.Mandate // in whose name
	members func() (members, barred []process.ID)
	moved   func(process.ID) bool // a member is under another lease now
	scoped  bool                  // only present members may be signalled
	parked  bool                  // they cannot react to SIGTERM
	minder  process.ID            // ends after its command by itself, and writes down how that ended; zero if there is none
}

// membersOf returns the processes of a lease that which selects, as a target.
func (w *Watchdog) membersOf(l *lease.Lease, in kinship.Mandate, which func(lease.Key, uint64) (members, barred []process.ID)) target {
	return target{
		in: in, scoped: scoped(l), parked: l.State == lease.Parked,
		members: func() (members, barred []process.ID) { return which(l.Key(), l.Fence) },
		moved:   func(id process.ID) bool { return w.leases.Moved(l.Key(), l.Fence, id) },
	}
}

// look returns the processes of a target that the act reaches now, and those that it has
// to spare.
func (w *Watchdog) look(t target) (reached, spared []process.ID) {
	members, barred := t.members()
	reached, spared = w.processes.Reach(t.in, members)
	return reached, append(spared, barred...)
}

// stop ends processes: SIGTERM, and SIGKILL after the grace, or SIGKILL at once if they
// are parked; to a minder only if it stays. It looks again before each signal, so that it finds processes started meanwhile, and spares those that
// moved to another lease or to another user. It returns those that it could not
// end, and those that it spared.
func (w *Watchdog) stop(ctx context.Context, grace time.Duration, t target) (left, spared []process.ID) {
	known, before := w.look(t)
	if !t.parked {
		w.signal(t.in, known, process.Terminate)
		w.gone(ctx, known, grace)
	}
	if ctx.Err() != nil {
		return nil, nil
	}
	now, spared := w.look(t)
	if known = slices.DeleteFunc(known, t.moved); t.scoped {
		known = nil
	}
	known = union(known, now) // also a child that has outlived its parents
	w.signal(t.in, slices.DeleteFunc(slices.Clone(known), func(id process.ID) bool { return id == t.minder }), process.Kill)
	w.gone(ctx, known, dying)
	if slices.Contains(known, t.minder) && w.lives(t.minder) && ctx.Err() == nil {
		w.signal(t.in, []process.ID{t.minder}, process.Kill)
		w.gone(ctx, known, dying)
	}
	left, others := w.processes.Reach(t.in, known)
	spared = union(union(before, spared), others)
	return left, slices.DeleteFunc(spared, w.processes.Ended)
}

// union returns list with the members of more that it lacks, each once.
func union(list, more []process.ID) []process.ID {
	in := kinship.Set(list)
	return append(list, slices.DeleteFunc(slices.Clone(more), func(id process.ID) bool {
		known := in[id]
		in[id] = true
		return known
	})...)
}

func (w *Watchdog) signal(in kinship.Mandate, members []process.ID, signal process.Signal) {
	for _, id := range members {
		// A process that has ended needs no signal. One that may not be signalled is
		// found alive in the end, and reported.
		_ = w.processes.Signal(in, id, signal)
	}
}

// lives reports whether a process lives, or cannot be looked at now: nobody knows then that it
// has ended.
func (w *Watchdog) lives(id process.ID) bool { return !w.processes.Ended(id) }

// gone waits until the processes have ended, but no longer than within.
func (w *Watchdog) gone(ctx context.Context, members []process.ID, within time.Duration) {
	for end := time.Now().Add(within); slices.ContainsFunc(members, w.lives) && time.Now().Before(end); {
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return
		}
	}
}

// complain reports that processes still use what they no longer hold.
func (w *Watchdog) complain(l *lease.Lease, left []process.ID) {
	var pids []string
	for _, p := range left {
		pids = append(pids, fmt.Sprint(p.PID))
	}
	w.event(gpu.Event{
		Time: time.Now(), Code: gpu.EventOverLimit, Severity: gpu.Serious, Lease: l.ID, User: l.Holder.User, Data: map[string]any{"fence": l.Fence},
		Text:   fmt.Sprintf("Processes of %s could not be ended: %s%s", l.ID, strings.Join(pids, ", "), w.whyLeft(left)),
		Public: fmt.Sprintf("Processes of %s could not be ended", l.ID),
	})
}

// whyLeft says in brackets why processes could not be ended, or returns "" if
// the reason is unknown.
func (w *Watchdog) whyLeft(left []process.ID) string {
	for _, p := range left {
		if err := w.processes.Signal(kinship.Authority(), p, process.Probe); err != nil && !errors.Is(err, process.ErrGone) {
			return fmt.Sprintf(" (%v: the daemon must run as root to end those of others)", err)
		}
	}
	return ""
}
