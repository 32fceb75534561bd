package lease

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Grant adds a lease to the book. If a request with its key waits, Grant takes the
// request out of the queue; a lease can also be granted without waiting. The book
// sets Fence, Granted, Expires and State of the lease and keeps it: the caller
// must not change it after the call.
type Grant struct {
	Lease *Lease

	// Adopted is for a lease over processes that already use the devices. It holds,
	// by part, how much memory they were measured to use. The book counted that as
	// foreign, and counts it under the lease from now on.
	Adopted []gpu.MiB

	// Split is for a child whose memory Split has just taken out of its parent. It
	// needs no room.
	Split bool

	// Admitted is for a lease that another scheduler has decided on. It may take all
	// slots of its devices, whatever their state allows.
	Admitted bool
}

func (g Grant) apply(b *Book, now time.Time) (Effect, error) {
	l := g.Lease
	w := b.waiting.get(l.Key())
	err := b.verifyGrant(g)
	if err == nil && (g.Split || l.From != 0) && l.Total().Memory > 0 {
		err = b.limitChild(l, now)
	}
	if err != nil {
		return Effect{}, err
	}
	var from *Request
	if w != nil {
		from = w.request
		b.leave(w)
	}
	for i, m := range g.Adopted {
		d := b.devices[l.Parts[i].GPU]
		d.Foreign = max(d.Foreign-sane(m), 0)
	}
	b.fence++
	l.Fence, l.Granted, l.State, l.Expires = b.fence, now, Active, time.Time{}
	if l.Binding == ByTTL {
		l.Expires = now.Add(l.TTL)
	}
	l.clean()
	effect := Effect{Kind: Granted, Time: now, After: l, Request: from, By: l.By}
	for other := range b.leases.called(l.ID) {
		effect.Shared, effect.SharedOwn = true, effect.SharedOwn || other.key.Owner == l.Holder.Owner()
	}
	b.insert(l, g.Adopted)
	return effect, nil
}

// verifyGrant refuses a lease that the book cannot take. It sets ParentFence.
func (b *Book) verifyGrant(g Grant) error {
	l := g.Lease
	if b.leases.get(l.Key()) != nil {
		return fmt.Errorf("grant %s: %w; release it first or take another id", l.ID, ErrDuplicate)
	}
	if err := l.validate(); err != nil {
		return err
	}
	if err := b.verifyChild(l); err != nil {
		return err
	}
	if g.Adopted != nil && len(g.Adopted) != len(l.Parts) {
		return fmt.Errorf("grant %s: %d measurements for %d devices", l.ID, len(g.Adopted), len(l.Parts))
	}
	for i, p := range l.Parts {
		d := b.devices[p.GPU]
		if d == nil || !d.known {
			return fmt.Errorf("grant %s: %w: %s", l.ID, ErrDevice, p.GPU)
		}
		needs := p.Memory
		if g.Adopted != nil { // what the processes use already takes no more room
			needs = max(needs-min(sane(g.Adopted[i]), d.Foreign), 0)
		}
		ofParent := g.Split || l.From != 0
		if ofParent {
			needs = 0
		}
		sum := d.Sum
		if !ofParent && !sum.shares(l) && !b.under(l, p.GPU) {
			return &OverSoldError{ID: l.ID, GPU: p.GPU, Sum: sum, Needs: needs, NeedsSlots: p.Slots, Alone: true}
		}
		if g.Admitted {
			sum.Usable = sum.MaxPipelines
		}
		if !sum.hasRoom(needs, p.Slots, g.Adopted != nil || ofParent) {
			return &OverSoldError{ID: l.ID, GPU: p.GPU, Sum: sum, Needs: needs, NeedsSlots: p.Slots}
		}
	}
	return nil
}

// shares reports whether a lease may be on the device beside the leases there.
func (s *Sum) shares(l *Lease) bool { return s.Alone == 0 && (!l.Exclusive || s.Leases == 0) }

// under reports whether a lease is a child of the lease that has a device alone.
func (b *Book) under(l *Lease, uuid string) bool {
	if l.Parent == "" || l.Exclusive {
		return false
	}
	parent := b.grants.get(l.ParentFence)
	return parent != nil && parent.lease.Exclusive && parent.lease.State == Active && parent.lease.On(uuid)
}

// Fill gives an exclusive lease that is about to be granted the memory that can be leased
// on its devices now, but not more than it has.
func (b *Book) Fill(l *Lease) {
	if !l.Exclusive {
		return
	}
	for i := range l.Parts {
		sum, _ := b.Sum(l.Parts[i].GPU)
		l.Parts[i].Memory = min(l.Parts[i].Memory, max(sum.Available(), 0))
	}
}

// hasRoom reports whether the device has room for this much more. With already,
// zero memory fits even on an overused device.
func (s *Sum) hasRoom(memory gpu.MiB, slots int, already bool) bool {
	if slots > 0 && s.Active+slots > s.Usable {
		return false
	}
	return memory <= s.Available() || already && memory == 0
}

// validate checks what must be true of every lease, new or replayed.
func (l *Lease) validate() error {
	refuse := func(field, detail string) error { return FieldErrors{{field, detail}} }
	if detail := words.TextProblem(l.ID); detail != "" {
		return refuse("allocation_id", detail)
	}
	if detail := words.TextProblem(l.Parent); l.Parent != "" && detail != "" {
		return refuse("parent", detail)
	}
	if field, detail := bindingProblem(l.Binding, l.TTL, l.Holder); detail != "" {
		return refuse(field, detail)
	}
	if detail := timeLimitProblem(l.TimeLimit); detail != "" {
		return refuse("time_limit_seconds", detail)
	}
	if field, detail := l.poolProblem(l.Parent, len(l.Parts), l.Total().Memory); detail != "" {
		return refuse(field, detail)
	}
	if l.From != 0 && (l.Parent == "" || len(l.Parts) != 1 || l.Parts[0].Slots != 0) {
		return refuse("parent", "names a pool, whose children are on its device and have no slots")
	}
	if l.Exclusive && l.Parent != "" {
		return refuse("exclusive", "is set for a child; a child shares the devices of its parent")
	}
	if len(l.Parts) == 0 {
		return refuse("gpus", "is empty; a lease needs at least one device")
	}
	for i, p := range l.Parts {
		switch {
		case p.GPU == "":
			return refuse("gpu", "is empty")
		case MemoryProblem(p.Memory, 0) != "":
			return refuse("memory_mb", MemoryProblem(p.Memory, 0))
		case words.NumberProblem(p.Slots, 0, MaxSlots) != "":
			return refuse("slots", words.NumberProblem(p.Slots, 0, MaxSlots))
		case p.Memory == 0 && p.Slots == 0 && l.Parent == "":
			return refuse("memory_mb", "is zero, and slots is zero too")
		}
		for _, other := range l.Parts[:i] {
			if other.GPU == p.GPU {
				return refuse("gpu", "is given twice: "+p.GPU)
			}
		}
	}
	return nil
}

// clean removes unprintable characters from text that comes from outside, before
// it is stored and shown. A process may call itself anything.
func (l *Lease) clean() {
	for _, text := range []*string{&l.Holder.User, &l.Holder.Service, &l.Holder.Name, &l.Holder.Boot, &l.EnforcedBy, &l.Note, &l.By.User} {
		if !words.Plain(*text) {
			*text = gpu.Printable(*text, gpu.Whole)
		}
	}
}
