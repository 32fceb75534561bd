package lease

import (
	"errors"
	"fmt"

	"github.com/berth-gpu/berth/gpu"
)

// Check computes every sum of the book again and reports all differences. A
// correct book never has one.
func (b *Book) Check() error {
	taken := b.takenFrom()
	return errors.Join(b.checkLeases(), b.checkGrants(), b.checkNoted(), b.checkPools(taken), b.checkDevices(taken), b.checkAccounts(taken), b.checkAlarms(), b.checkQueue())
}

// takenFrom returns the memory that the children of each pool have, by the fence of the
// pool.
func (b *Book) takenFrom() map[uint64]gpu.MiB {
	taken := make(map[uint64]gpu.MiB)
	for e := range b.leases.all {
		if e.lease.From != 0 {
			taken[e.lease.From] += e.lease.Parts[0].Memory
		}
	}
	return taken
}

// left returns what counts of a lease on a device for the lease itself.
func left(l *Lease, p Part, taken map[uint64]gpu.MiB) gpu.MiB {
	if l.Pool {
		return p.Memory - taken[l.Fence]
	}
	return p.Memory
}

func (b *Book) checkPools(taken map[uint64]gpu.MiB) error {
	var errs []error
	children, pools, families := make(map[uint64]int), make(map[uint64]*entry), make(map[uint64]kin)
	for e := range b.leases.all {
		if e.lease.Pool {
			pools[e.lease.Fence] = e
		}
		if e.lease.From != 0 {
			children[e.lease.From]++
		}
		family := families[e.lease.ParentFence]
		families[e.lease.ParentFence] = kin{children: family.children + 1, devices: family.devices + len(e.lease.Parts)}
		if (e.pool != nil) != e.lease.Pool || (e.from != nil) != (e.lease.From != 0) || e.from != nil && e.from != b.pools[e.lease.From] {
			errs = append(errs, fmt.Errorf("lease %s is kept wrongly in its pool", e.lease.ID))
		}
		if e.lease.Pool && left(e.lease, e.lease.Parts[0], taken) < 0 {
			errs = append(errs, fmt.Errorf("the children of %s have %s of %s", e.lease.ID, taken[e.lease.Fence], e.lease.Parts[0].Memory))
		}
	}
	for fence, p := range b.pools {
		if p.entry != pools[fence] || p.taken != taken[fence] || p.leases != children[fence] || p.entry == nil && p.leases == 0 {
			errs = append(errs, fmt.Errorf("pool %d is %+v, and should have %d children with %s", fence, *p, children[fence], taken[fence]))
		}
	}
	for e := range b.leases.all {
		if k := b.kin[e.lease.ParentFence]; (k == nil) != (e.lease.ParentFence == 0) || k != nil && k.entry != b.grants.get(e.lease.ParentFence) {
			errs = append(errs, fmt.Errorf("lease %s is kept wrongly as a child", e.lease.ID))
		}
	}
	for fence, k := range b.kin {
		want := families[fence]
		if k.children != want.children || k.devices != want.devices || k.children == 0 {
			errs = append(errs, fmt.Errorf("the children of %d are %+v, and should be %+v", fence, *k, want))
		}
	}
	for fence := range pools {
		if b.pools[fence] == nil {
			errs = append(errs, fmt.Errorf("pool %d is not kept", fence))
		}
	}
	return errors.Join(errs...)
}

// checkGrants checks that the leases in the order of their fences are those on the shelf.
func (b *Book) checkGrants() error {
	n, last := 0, uint64(0)
	for e := range b.grants.all {
		if n++; e.lease.Fence <= last || b.leases.get(e.lease.Key()) != e {
			return fmt.Errorf("lease %s with fence %d follows fence %d wrongly", e.lease.ID, e.lease.Fence, last)
		}
		last = e.lease.Fence
		for l := range b.After(last - 1) {
			if l != e.lease {
				return fmt.Errorf("after fence %d comes %s, not %s", last-1, l.ID, e.lease.ID)
			}
			break
		}
	}
	if n != b.leases.count || b.grants.gaps != len(b.grants.list)-n || b.grants.gaps > max(32, len(b.grants.list)/2) {
		return fmt.Errorf("%d of %d leases are in order, with %d gaps in %d places", n, b.leases.count, b.grants.gaps, len(b.grants.list))
	}
	return nil
}

// checkNoted checks that the leases that a sample is about are the first on each device.
func (b *Book) checkNoted() error {
	for uuid, d := range b.devices {
		for at, s := range d.spots {
			p := s.entry.places[s.part]
			if about := p.measured > 0 || s.entry.lease.Parkable; p.at != at || p.device != d || about != (at < d.noted) {
				return fmt.Errorf("%s is at %d of %s, of which %d are noted", s.entry.lease.ID, at, uuid, d.noted)
			}
		}
	}
	return nil
}

func (b *Book) checkLeases() error {
	var errs []error
	fences, held := make(map[uint64]string), make(map[*Lease]bool)
	for _, first := range b.processes {
		for l := range b.HeldBy(first.lease.Holder) {
			held[l] = true
		}
	}
	for e := range b.leases.all {
		l, key := e.lease, e.lease.Key()
		id := l.ID
		switch other, twice := fences[l.Fence]; {
		case b.leases.get(key) != e || b.waiting.get(key) != e.want || len(e.places) != len(l.Parts) || e.want != nil && e.want.request.Into != l.Fence:
			errs = append(errs, fmt.Errorf("lease %s is kept wrongly", id))
		case l.Fence == 0 || l.Fence > b.fence || twice:
			errs = append(errs, fmt.Errorf("lease %s has fence %d of %d, and %q has it too", id, l.Fence, b.fence, other))
		case !e.rightAlarm():
			errs = append(errs, fmt.Errorf("lease %s has the wrong alarm", id))
		}
		fences[l.Fence] = id
		if err := l.validate(); err != nil {
			errs = append(errs, fmt.Errorf("lease %s: %w", id, err))
		}
		if (l.Holder.PID != 0) != held[l] {
			errs = append(errs, fmt.Errorf("lease %s is not among those of its process", id))
		}
		for i, p := range e.places {
			if p.device != b.devices[l.Parts[i].GPU] || p.at >= len(p.device.spots) || p.device.spots[p.at] != (spot{e, i}) {
				errs = append(errs, fmt.Errorf("lease %s is not where it should be on %s", id, l.Parts[i].GPU))
			}
		}
	}
	for k, e := range b.processes {
		for ; e != nil; e = e.after {
			if b.grants.get(e.lease.Fence) != e || e.lease.Holder.process() != k {
				errs = append(errs, fmt.Errorf("lease %s is wrongly among those of process %d", e.lease.ID, k.pid))
			}
		}
	}
	return errors.Join(append(errs, b.leases.check(), b.waiting.check())...)
}

// check recounts the shelf.
func (s *shelf[T, P]) check() error {
	n := 0
	for x := range s.all {
		if n++; s.get(P(x).chain().key) != x {
			return fmt.Errorf("%+v is not found by its key", P(x).chain().key)
		}
	}
	if n != s.count {
		return fmt.Errorf("%d are counted, and %d are there", s.count, n)
	}
	return nil
}

// rightAlarm reports whether the alarm of a lease rings when something is due
// for it, and only then.
func (e *entry) rightAlarm() bool {
	at, what := e.due()
	return (what != nothing) == e.alarm.isSet() && (what == nothing || e.alarm.at.Equal(at))
}

func (b *Book) checkDevices(taken map[uint64]gpu.MiB) error {
	var errs []error
	var ceiling gpu.MiB
	slots := 0
	for uuid, d := range b.devices {
		ceiling += max(d.Ceiling(), 0)
		slots += d.MaxPipelines
		want, lasts := Sum{Capacity: d.Capacity, Foreign: d.Foreign}, endless{}
		for _, s := range d.spots {
			l := s.entry.lease
			p, measured := l.Parts[s.part], s.entry.places[s.part].measured
			if l.State == Parked {
				want.Overuse += measured
				continue
			}
			memory := left(l, p, taken)
			want.Leased += memory
			want.Overuse += max(memory, measured) - memory
			want.Active += p.Slots
			want.Leases++
			if l.Exclusive {
				want.Alone++
			}
			if l.Endless() {
				lasts.add(l, Load{Memory: max(memory, measured), Slots: p.Slots}, 1)
			}
		}
		if d.Sum != want || d.endless != lasts {
			errs = append(errs, fmt.Errorf("device %s: the sum is %+v with %+v endless, and should be %+v with %+v", uuid, d.Sum, d.endless, want, lasts))
		}
	}
	if ceiling != b.ceiling || slots != b.maxPipelines {
		errs = append(errs, fmt.Errorf("the machine has %s and %d slots, and should have %s and %d", b.ceiling, b.maxPipelines, ceiling, slots))
	}
	return errors.Join(errs...)
}

func (b *Book) checkAccounts(taken map[uint64]gpu.MiB) error {
	users, services, groups := make(map[Owner]Count), make(map[string]Count), make(map[string]Count)
	note := func(h Holder, u Usage, leases, waiting int) {
		users[h.Owner()] = users[h.Owner()].plus(u, leases, waiting)
		services[h.Service] = services[h.Service].plus(u, leases, waiting)
	}
	for e := range b.leases.all {
		used := e.lease.Total()
		if e.lease.Pool {
			used.Memory = left(e.lease, e.lease.Parts[0], taken)
		}
		if e.lease.State == Parked {
			used = Usage{}
		}
		note(e.lease.Holder, used, 1, 0)
		if owner := e.lease.Holder.Owner(); b.grants.get(e.lease.ParentFence) == nil {
			has := users[owner]
			has.GPUs += len(e.lease.Parts)
			users[owner] = has
		}
		for _, group := range e.lease.Groups {
			groups[group] = groups[group].plus(used, 1, 0)
		}
	}
	for w := range b.waiting.all {
		note(w.request.Holder, Usage{}, 0, 1)
	}
	return errors.Join(sameAccounts("user", b.users, users), sameAccounts("service", b.services, services), sameAccounts("group", b.groups, groups))
}

func (c Count) plus(u Usage, leases, waiting int) Count {
	return Count{Usage{c.Memory + u.Memory, c.Slots + u.Slots}, c.Leases + leases, c.Waiting + waiting, c.GPUs}
}

func sameAccounts[K comparable](what string, kept map[K]*Count, want map[K]Count) error {
	if len(kept) != len(want) {
		return fmt.Errorf("%d accounts of a %s are kept, and should be %d", len(kept), what, len(want))
	}
	for name, a := range kept {
		if *a != want[name] {
			return fmt.Errorf("account of %s %v is %+v and should be %+v", what, name, *a, want[name])
		}
	}
	return nil
}

func (b *Book) checkAlarms() error {
	count := b.waiting.count
	for e := range b.leases.all {
		if _, what := e.due(); what != nothing {
			count++
		}
	}
	if len(b.alarms) != count {
		return fmt.Errorf("there are %d alarms, and should be %d", len(b.alarms), count)
	}
	if !b.alarms.ordered() {
		return errors.New("the alarms are out of order")
	}
	return nil
}

// ordered reports whether every alarm is where it should be.
func (h alarms) ordered() bool {
	for i, a := range h {
		if a.place != i+1 || i > 0 && a.at.Before(h[(i-1)/2].at) {
			return false
		}
	}
	return true
}

func (b *Book) checkQueue() error {
	children := 0
	for w := range b.waiting.all {
		l, _, waits := b.queue.Lane(w.request)
		if !waits || l != b.lane(w.request) {
			return fmt.Errorf("request %s is not where it should be in the queue", w.request.ID)
		}
		if !b.queue.Least().Within(w.request.Load()) {
			return fmt.Errorf("the least in the queue is %+v, and %s asks for less", b.queue.Least(), w.request.ID)
		}
		if w.request.Parent != "" {
			children++
		}
	}
	if n := len(b.queue.All()); n != b.waiting.count || children != b.children {
		return fmt.Errorf("%d requests are in the queue, %d of children; %d should be, %d of children", n, b.children, b.waiting.count, children)
	}
	return nil
}
