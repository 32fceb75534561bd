package watchdog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
	"github.com/berth-gpu/berth/internal/text/words"
)

// stopped is a lease that stays after its processes were ended.
type stopped struct {
	at     time.Time    // when they had been ended
	left   []process.ID // processes that had not ended by then
	spared []process.ID // processes that were left alone; people were told
}

// settling reports whether a measurement of a lease may still include processes that
// berth ends, so that it says nothing about their successors. The caller holds mu.
func (w *Watchdog) settling(fence uint64, sampled time.Time) bool {
	maps.DeleteFunc(w.stopped, func(_ uint64, s stopped) bool {
		return !w.settles(s, sampled) && !slices.ContainsFunc(s.spared, w.lives)
	})
	s, is := w.stopped[fence]
	return is && w.settles(s, sampled)
}

func (w *Watchdog) settles(s stopped, sampled time.Time) bool {
	return !sampled.After(s.at) || slices.ContainsFunc(s.left, w.lives)
}

// settle notes that processes of a lease were ended, so that the watchdog begins to count
// anew with the next measurement. It does not wait for those that were spared: they run on,
// and what is started beside them is watched.
func (w *Watchdog) settle(fence uint64, left, spared []process.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped[fence] = stopped{at: time.Now(), left: left, spared: spared}
	for _, d := range w.devices {
		delete(d.over, fence)
	}
	for _, h := range w.halts {
		delete(h.leases, fence)
	}
}

// usersDone notes that the processes of a lease were ended, and revokes the lease if that
// was called for meanwhile.
func (w *Watchdog) usersDone(fence uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	then := w.then[fence]
	delete(w.then, fence)
	delete(w.ending, fence)
	if then != nil {
		then()
	}
}

// hasStopped reports whether processes of a lease were ended, and those that were left or
// spared then still run.
func (w *Watchdog) hasStopped(fence uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, is := w.stopped[fence]
	return is
}

// stopUsers begins to end the processes that use the devices of a lease, once, and keeps
// the lease, as the kernel does when a memory control group is full. It ends only the
// processes that it finds first, because a program that is started again meanwhile has
// done nothing yet. The caller holds mu.
func (w *Watchdog) stopUsers(l *lease.Lease, e Ending) {
	key, fence, why := l.Key(), l.Fence, e.Why
	if w.ending[fence] {
		return
	}
	w.ending[fence], w.then[fence] = true, nil
	grace := w.settings.Optimization.DeallocationTimeout
	w.add(func(ctx context.Context) {
		defer w.usersDone(fence)
		t := w.membersOf(l, kinship.Authority(), w.leases.Users)
		first, spared := w.look(t)
		known := kinship.Set(first)
		if len(first) == 0 && (len(spared) == 0 || w.hasStopped(fence)) { // they or the lease have ended meanwhile, or people were told that they are spared
			return
		}
		w.noteEnding(e)
		w.record(byPolicy("stop", api.AuditObject{Kind: "lease", Owner: l.Holder.User, ID: key.ID}, why+w.leftAlone(spared)))
		t.members = func() (members, barred []process.ID) {
			users, barred := w.leases.Users(key, fence)
			return slices.DeleteFunc(users, func(id process.ID) bool { return !known[id] }), barred
		}
		left, spared := w.stop(ctx, grace, t)
		if ctx.Err() != nil {
			return
		}
		w.settle(fence, left, spared)
		if len(left) > 0 {
			w.complain(l, left)
		}
		ended := len(first) - len(slices.DeleteFunc(first, w.processes.Ended))
		if ended == 0 && len(spared) == 0 {
			return
		}
		text := fmt.Sprintf("berth ended %s of %s: %s; the lease stays for the program that is started next", words.Count(ended, "process"), key.ID, why)
		e := gpu.Event{
			Time: time.Now(), Code: gpu.EventStopped, Severity: gpu.Warning, Lease: key.ID, User: l.Holder.User, Text: text,
			Data: map[string]any{"fence": fence, "processes": ended},
		}
		w.event(lease.Sparing(e, w.processes.Describe(spared)))
	})
}
