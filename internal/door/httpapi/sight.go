package httpapi

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/batch/runs"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/history/events"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/process"
)

// sight decides what a caller may see. Operators see everything but the names in the
// configuration, and all callers see everything of their own. Of others, users see who
// holds how much, where and since when; programs, paths, processes and the names of
// tokens stay hidden. A viewer does not even see the names of users.
type sight struct{ doorkeeper.Identity }

func sightOf(ctx context.Context) sight { return sight{identityOf(ctx)} }

// all reports whether the caller may see everything.
func (s sight) all() bool { return s.whole(access.Everything()) }

// whole reports whether the caller may see all of an object.
func (s sight) whole(o access.Object) bool { return access.May(s.Actor, access.Inspect, o) == nil }

// owns reports whether the caller may see everything that a holder has.
func (s sight) owns(h lease.Holder) bool { return s.whole(access.Of(access.Held, h.UID, h.User)) }

// named reports whether the caller may see all of an object that belongs to user.
func (s sight) named(kind access.Kind, user string) bool { return s.whole(access.Named(kind, user)) }

// names reports whether the caller may see the names of other users.
func (s sight) names() bool { return access.May(s.Actor, access.Name, access.Object{}) == nil }

// governs reports whether the caller may see the names in the configuration: of users,
// groups and hooks.
func (s sight) governs() bool { return access.May(s.Actor, access.Govern, access.Object{}) == nil }

// anotherUser replaces a name that the caller may not see.
const anotherUser = "another user"

// user returns the name of a user as this caller sees it.
func (s sight) user(name string) string {
	if name != "" && !s.names() {
		return anotherUser
	}
	return name
}

func (s sight) holder(h lease.Holder) api.Holder {
	out := desk.HolderOf(h)
	if s.owns(h) {
		return out
	}
	out.Name, out.PID = "", 0
	if !s.names() {
		out = api.Holder{User: anotherUser}
	}
	return out
}

// ownersOnly has the fields of a lease that only its owner and operators see.
var ownersOnly = slices.DeleteFunc(reflect.VisibleFields(reflect.TypeFor[api.Lease]()), func(f reflect.StructField) bool { return f.Tag.Get("sight") != "owner" })

// lease returns a lease with its processes as this caller sees them.
func (s sight) lease(h ledger.Held, processes []ledger.Process) api.Lease {
	l := desk.LeaseOf(h)
	if !s.owns(h.Holder) {
		shown := reflect.ValueOf(&l).Elem()
		for _, field := range ownersOnly {
			shown.FieldByIndex(field.Index).SetZero()
		}
		l.Holder = s.holder(h.Holder)
		return l
	}
	l.Processes = desk.BelongingOf(processes)
	for i, p := range l.Processes {
		if !s.all() && !s.runs(p.PID) { // another user's, by the scope of the lease or the settings of its service
			l.Processes[i].PID, l.Processes[i].Name = 0, ""
		}
	}
	return l
}

func (s sight) waiting(r *lease.Request, position int) api.Waiting {
	w := desk.WaitingOf(r, position)
	w.Holder = s.holder(r.Holder)
	return w
}

// sample returns a sample as this caller sees it: of the processes of others, only the
// memory remains.
func (s sight) sample(sample gpu.Sample, mine map[int]time.Time) gpu.Sample {
	if s.all() || len(sample.Processes) == 0 && len(sample.ProcessUtilization) == 0 {
		return sample
	}
	own := func(pid int) bool {
		begun, looked := mine[pid]
		if !looked {
			begun = s.begun(pid)
			mine[pid] = begun
		}
		// The kernel reuses pids: before this process began, its pid belonged to
		// another process.
		return !begun.IsZero() && !begun.After(sample.Time)
	}
	sample.Processes = slices.Clone(sample.Processes)
	for i, p := range sample.Processes {
		if !own(p.PID) {
			sample.Processes[i].PID, sample.Processes[i].Name = 0, ""
		}
	}
	sample.ProcessUtilization = maps.Clone(sample.ProcessUtilization)
	maps.DeleteFunc(sample.ProcessUtilization, func(pid int, _ gpu.Percent) bool { return !own(pid) })
	return sample
}

// begun returns when a process of the caller began, or zero if it is not the caller's.
func (s sight) begun(pid int) time.Time {
	id, err := process.Proc().Identify(pid)
	if err != nil || !s.runs(pid) {
		return time.Time{}
	}
	return time.Now().Add(-process.Age(id))
}

// runs reports whether a process belongs to the caller, or the caller is an operator.
func (s sight) runs(pid int) bool {
	uid, err := process.Proc().UID(pid)
	return err == nil && s.whole(access.Of(access.Process, uid, ""))
}

// stray returns a process under no lease as this caller sees it.
func (s sight) stray(p api.Stray) api.Stray {
	if !s.named(access.Process, p.User) {
		p.PID, p.Name, p.User, p.Pod, p.Evidence, p.Fits = 0, "", s.user(p.User), "", "", nil
	}
	return p
}

// batch returns a batch as this caller sees it.
func (s sight) batch(listed runs.Listed) api.Batch {
	b := listed.Batch
	if !s.whole(access.Of(access.Batch, listed.Owner.UID, b.User)) {
		b.Output, b.Command, b.Error, b.PID, b.User = "", "", "", 0, s.user(b.User)
	}
	return b
}

// private lists the data of an event that names programs, paths, processes or hooks.
var private = []string{"pid", "name", "output", "run", "batch", "spared", "log", "hook"}

// The views of an event. All callers with the same view see the same.
const (
	wholeView  events.View = iota // for operators and for the user that the event is about
	othersView                    // for other users
	viewerView                    // for viewers
)

// view returns how the caller sees an event about a user.
func (s sight) view(user string) events.View {
	switch {
	case s.named(access.Happening, user):
		return wholeView
	case s.names():
		return othersView
	}
	return viewerView
}

// shown returns an event as a view shows it.
func shown(e gpu.Event, v events.View) gpu.Event {
	if v == wholeView {
		return e
	}
	hidden := private
	if e.Public != "" {
		e.Text, hidden = e.Public, append(slices.Clone(hidden), "reason", "labels", "annotations")
	}
	if e.By != (gpu.By{}) {
		e.By = gpu.By{User: e.By.User}
		if v == viewerView {
			e.By.User = anotherUser
		}
	}
	if v == viewerView && e.User != "" {
		e.Text, e.Lease, e.User = fmt.Sprintf("%s, for %s", e.Code, anotherUser), "", anotherUser
		hidden = append(slices.Clone(hidden), "user", "leases", "fences", "reason", "for", "labels", "annotations", "comment")
	}
	if len(e.Data) > 0 {
		e.Data = maps.Clone(e.Data)
		for _, key := range hidden {
			delete(e.Data, key)
		}
	}
	return e
}
