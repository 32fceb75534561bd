package lease

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease/stored"
	"github.com/berth-gpu/berth/internal/text/quickjson"
	"github.com/berth-gpu/berth/internal/text/words"
)

// entries writes entries as encoding/json does, several times faster: every grant waits
// for it.
var entries = quickjson.Codec[stored.Entry]{Inline: []any{stored.By{}, stored.Lease{}, stored.Part{}, stored.Cancelled{}, stored.AuditLine{}, stored.Run{}}}

// AppendEntry appends an entry to dst as JSON without a newline. stored.Decode reads it.
func AppendEntry(dst []byte, e *stored.Entry) []byte { return entries.Append(dst, e) }

// decode reads an entry as stored.Decode does. It reads the usual ones itself, since a
// daemon reads all of them before its first answer.
func decode(data []byte) (stored.Entry, error) {
	var e stored.Entry
	if entries.Read(data, &e) && e.Version >= 1 && e.Version <= stored.Version {
		return e, nil
	}
	return stored.Decode(data)
}

// EntryIn returns the entry of a durable effect. It uses the memory of an earlier entry
// for the lease, if the entry has one.
func EntryIn(used *stored.Lease, e *Effect) stored.Entry {
	l := e.Lease()
	kind := stored.Kind(e.Kind)
	switch e.Kind { // to kinds that an older berth understands
	case Settled:
		kind = stored.Bind // to the process that it is bound to
	case Cancelled, Claimed:
		kind = stored.Resize // to the size that it has
	}
	r := stored.New(kind)
	r.Time, r.ID, r.Fence, r.Why, r.By = e.Time.UnixNano(), l.ID, l.Fence, e.Why, storedBy(&e.By)
	if e.Shared {
		r.Share()
	}
	if e.SharedOwn {
		r.ShareOwn()
	}
	switch e.Kind {
	case Granted, Bound, Settled, Detached, Resized, Scoped, WasParked, Resumed, Cancelled, Claimed:
		storeLease(used, l)
		r.SetLease(used)
	case Renewed:
		r.Expires, r.TTL = l.Expires.UnixNano(), int64(l.TTL)
	}
	return r
}

// EntriesOf yields entries that restore leases as they are now, whatever has
// happened to them since their grants. A compacted journal begins with the
// entries of all leases, in the order of Book.Leases; an entry of kind
// stored.Fence follows them.
func EntriesOf(leases []*Lease) iter.Seq[stored.Entry] {
	return func(yield func(stored.Entry) bool) {
		seen := make(map[string][]Owner, len(leases))
		for _, l := range leases {
			r := stored.New(stored.Grant)
			r.Time, r.ID, r.Fence, r.By = l.Granted.UnixNano(), l.ID, l.Fence, storedBy(&l.By)
			kept := new(stored.Lease)
			storeLease(kept, l)
			r.SetLease(kept)
			if others := seen[l.ID]; len(others) > 0 {
				r.Share()
				if slices.Contains(others, l.Holder.Owner()) {
					r.ShareOwn()
				}
			}
			seen[l.ID] = append(seen[l.ID], l.Holder.Owner())
			if !yield(r) {
				return
			}
		}
	}
}

// storedBy converts an actor to the form that the journal keeps. The journal does
// not keep the role, which is valid only for the moment.
func storedBy(a *access.Actor) stored.By {
	if a.Door == "" {
		return stored.By{}
	}
	return stored.By{UID: a.UID, User: a.User, Token: a.Token, Door: string(a.Door)}
}

func storedRun(r Run) stored.Run {
	return stored.Run{Kind: string(r.Kind), Number: r.Number, Task: r.Task}
}

func restoredRun(r stored.Run) Run { return Run{RunKind(r.Kind), r.Number, r.Task} }

// restoredBy converts a stored actor back.
func restoredBy(b *stored.By) access.Actor {
	return access.Actor{UID: b.UID, User: b.User, Token: b.Token, Door: access.Door(b.Door)}
}

// ByOf returns an actor as events name it.
func ByOf(a access.Actor) gpu.By {
	if a.Door == access.Itself || a.Door == "" {
		return gpu.By{}
	}
	by := gpu.By{User: a.User, Token: a.Token, Door: string(a.Door), Agent: a.Agent}
	if a.UID != NoUID {
		by.UID = gpu.Some(a.UID)
	}
	return by
}

// storeLease converts a lease to the form that the journal keeps. It overwrites s.
func storeLease(s *stored.Lease, l *Lease) {
	h, parts := l.Holder, s.Parts[:0]
	*s = stored.Lease{
		Parent: l.Parent, ParentFence: l.ParentFence, Run: storedRun(l.Run), Pool: l.Pool, From: l.From,
		User: h.User, UID: h.UID, Service: h.Service, Name: h.Name, PID: h.PID, Start: h.Start, Boot: h.Boot,
		Binding: string(l.Binding), Implied: l.Implied, TTL: int64(l.TTL), Granted: l.Granted.UnixNano(),
		Priority: l.Priority, State: string(l.State),
		EnforcedBy: l.EnforcedBy, Raised: l.Raised, Note: l.Note, Unit: l.Unit, Scope: l.Scope,
		TimeLimit: int64(l.TimeLimit), Imposed: l.Imposed, Unchosen: l.Unchosen, Groups: l.Groups,
		Parkable: l.Parkable, Unshared: l.Unshared, Optimize: l.Optimize, Comment: l.Comment, Exclusive: l.Exclusive, ParkedAt: stored.Nanoseconds(l.ParkedAt), Returned: stored.Nanoseconds(l.Returned), Paused: int64(l.Paused), Asked: int64(l.Asked),
	}
	if l.Binding == ByTTL {
		s.Expires = l.Expires.UnixNano()
	}
	if c := l.Cancelled; c != nil {
		s.Cancelled = &stored.Cancelled{At: c.At.UnixNano(), By: storedBy(&c.By), Why: c.Why, All: c.All}
	}
	for _, p := range l.Parts {
		parts = append(parts, stored.Part{GPU: p.GPU, Memory: int64(p.Memory), Slots: p.Slots})
	}
	s.Parts = parts
}

// restored converts the lease in an entry back. An earlier berth wrote the name
// of a service as it was spelled.
func restored(r *stored.Entry) *Lease {
	s := r.Lease
	l := &Lease{
		ID: r.ID, Fence: r.Fence, Parent: s.Parent, ParentFence: cmp.Or(s.ParentFence, s.From), Run: restoredRun(s.Run), From: s.From,
		Holder:  Holder{User: s.User, UID: s.UID, Service: words.Service(s.Service), Name: s.Name, PID: s.PID, Start: s.Start, Boot: s.Boot},
		Binding: Binding(s.Binding), Implied: s.Implied, TTL: time.Duration(s.TTL), Granted: time.Unix(0, s.Granted),
		Parts: make([]Part, len(s.Parts)), Priority: s.Priority, State: State(s.State),
		Terms:     Terms{EnforcedBy: s.EnforcedBy, Raised: s.Raised, Note: s.Note, Unit: s.Unit, Scope: s.Scope, Parkable: s.Parkable, Unshared: s.Unshared, Optimize: s.Optimize, Comment: s.Comment, Exclusive: s.Exclusive, Pool: s.Pool},
		By:        restoredBy(&r.By),
		TimeLimit: time.Duration(s.TimeLimit), Imposed: s.Imposed, Unchosen: s.Unchosen, Groups: s.Groups,
		ParkedAt: stored.Time(s.ParkedAt), Returned: stored.Time(s.Returned), Paused: time.Duration(s.Paused), Asked: gpu.MiB(s.Asked),
	}
	if l.Binding == ByTTL {
		l.Expires = time.Unix(0, s.Expires)
	}
	if l.Pool { // an earlier berth could give a pool a scope
		l.Scope = nil
	}
	if c := s.Cancelled; c != nil {
		l.Cancelled = &Cancellation{At: time.Unix(0, c.At), By: restoredBy(&c.By), Why: c.Why, All: c.All}
	}
	for i, p := range s.Parts {
		l.Parts[i] = Part{GPU: p.GPU, Memory: gpu.MiB(p.Memory), Slots: p.Slots}
	}
	return l
}
