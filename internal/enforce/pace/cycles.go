package pace

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

const (
	// late is how long after its end a pause may be reported.
	late = 500 * time.Millisecond
	// again is how long a lease that could not be stopped runs until the next try.
	again = 5 * time.Second
	// rounds is how often the processes of a lease are listed in one cycle. In each round
	// fewer are left that could start others.
	rounds = 5
	// mostAtOnce is the most processes in one order. The guardian takes a tenth of a
	// millisecond for each, and meanwhile no other pause ends.
	mostAtOnce = 64
)

// othersText says why a lease that its owner holds to a share is not paced.
const othersText = "all its processes belong to other users, and only an operator may have them stopped"

// cycles stops and continues the processes of a lease until nobody holds it any more, the
// lease ends, or ctx ends.
func (p *Pacer) cycles(ctx context.Context, l *paced) {
	defer p.guard.tell(order{Lease: l.Fence, Free: true})
	var renewal renewal
	for ctx.Err() == nil {
		held := p.Leases.Lease(l.Key, l.Fence)
		cycle, on := l.next()
		if (held == nil || !on) && p.forget(l, held) {
			return
		}
		if len(held.Scope) > 0 { // it got a scope meanwhile
			p.Let(l.Fence, gpu.By{}, sources()...)
			continue
		}
		run := cycle.Run
		why := p.denied(held)
		if why == "" {
			why = p.pause(ctx, l, held, cycle)
		}
		switch {
		case why != "":
			run = again
			if l.refuses(why) {
				p.Event(refusedEvent(held, l.counting(), why))
			}
		case cycle.Pause > 0:
			if l.refuses("") {
				p.Event(pacedEvent(held, l.counting(), l.share()))
			}
			if l.stopsWith() != 0 {
				run += cycle.Pause
			}
		}
		if held.Binding == lease.ByTTL && renewal.due(held.Expires, held.TTL, l.stoppedFor(), time.Now()) {
			if _, err := p.Leases.Renew(ctx, l.Key.Name(), l.Fence, 0, access.Daemon(), nil); err == nil { // if it fails, the next cycle tries again
				renewal.paid(held.TTL)
			}
		}
		select {
		case <-time.After(run):
		case <-l.wake:
		case <-ctx.Done():
		}
	}
}

// forget removes a lease that has ended (held is nil), or that nobody holds any more. It
// returns false if somebody holds it again.
func (p *Pacer) forget(l *paced, held *lease.Lease) bool {
	p.mu.Lock()
	last, holds := l.told()
	if held != nil && holds {
		p.mu.Unlock()
		return false
	}
	delete(p.leases, l.Fence)
	p.mu.Unlock()
	_ = p.drop(l.Fence)
	if held != nil {
		p.Event(endedEvent(held, last))
	}
	return true
}

// pause stops the processes of a lease for a while, and returns when they run
// again. If they must not be stopped, it returns the reason.
func (p *Pacer) pause(ctx context.Context, l *paced, held *lease.Lease, cycle Cycle) (refused string) {
	hold := l.counting()
	in := hold.mandate(held)
	members, spared := p.table.Reach(in, p.Leases.Family(l.Key, l.Fence))
	l.members(members)
	switch {
	case cycle.Pause == 0:
		return ""
	case len(members) == 0 && len(spared) > 0 && hold.Source == ByOwner:
		return othersText
	case len(members) == 0 && len(spared) > 0:
		return "its processes cannot be looked at now"
	case len(members) == 0:
		return ""
	case l.spares(spared):
		p.Event(lease.Sparing(pacedEvent(held, hold, hold.Share), p.table.Describe(spared)))
	}
	over := l.stopping()
	p.mu.Lock()
	suspended := p.suspended[l.Fence] > 0 || held.State == lease.Parked
	p.mu.Unlock()
	if suspended { // Suspend waits for pauses that began before
		l.freed()
		return ""
	}
	known, parent := p.elsewhere(l, held)
	stopped := 0
	for range rounds {
		fresh := slices.DeleteFunc(members, func(id process.ID) bool { return known[id] || stoppable(p.table, id) == errLeave })
		if len(fresh) == 0 {
			break
		}
		if err := p.remember(l.Fence, fresh); err != nil {
			l.freed()
			p.guard.tell(order{Lease: l.Fence, Free: true})
			return err.Error()
		}
		for _, id := range fresh {
			known[id] = true
		}
		l.stops(fresh)
		for some := range slices.Chunk(fresh, mostAtOnce) {
			more, err := p.guard.ask(order{Lease: l.Fence, In: in, Stop: some, Millis: cycle.Pause.Milliseconds(), Again: stopped > 0})
			if err != nil {
				p.resume(l.freed()) // the guardian may be gone, and what continues its processes finds none here
				return err.Error()
			}
			stopped += more
		}
		if stopped == 0 {
			break
		}
		members, _ = p.table.Reach(in, p.Leases.Family(l.Key, l.Fence))
	}
	if stopped == 0 { // all of them are left alone
		l.freed()
		l.stopWith(parent)
		return ""
	}
	l.stopWith(0)
	limit := time.After(cycle.Pause + late)
	for {
		select {
		case <-over:
			return ""
		case <-limit:
			p.guard.drop(p.guard.running())
			return ""
		case <-l.wake: // somebody has let it go, or has changed its share
			if l.share() >= 1 {
				p.guard.tell(order{Lease: l.Fence, Free: true})
			}
		case <-ctx.Done():
			p.guard.tell(order{Lease: l.Fence, Free: true})
			return ""
		}
	}
}

// elsewhere returns the processes of a lease that stop in the cycles of another one, and the
// fence of its parent if some stop with that. The processes of a child are in two families,
// and stop for the one with the lower share, or for the parent if both have the same: two
// cycles would stop them twice.
func (p *Pacer) elsewhere(l *paced, held *lease.Lease) (list map[process.ID]bool, parent uint64) {
	p.mu.Lock()
	all := slices.Collect(maps.Values(p.leases))
	p.mu.Unlock()
	list = map[process.ID]bool{}
	share := l.share()
	for _, o := range all {
		told, holds := o.told()
		other := p.Leases.Lease(o.Key, o.Fence)
		if !holds || told.Refused != "" || other == nil {
			continue
		}
		if above := held.ParentFence == o.Fence && told.Share() <= share; above {
			parent = o.Fence
		} else if below := other.ParentFence == l.Fence && told.Share() < share; !below {
			continue
		}
		reached, _ := p.table.Reach(told.Holds[0].mandate(other), p.Leases.Family(o.Key, o.Fence))
		for _, id := range reached {
			list[id] = true
		}
	}
	return list, parent
}

// renewal keeps for how long a lease could not be renewed because its processes were
// stopped.
type renewal struct {
	expires time.Time // when it was last looked at
	counted time.Duration
	owed    time.Duration
	ours    bool // the next change of expires is the pacer's own
}

// due reports whether the pacer has to renew a lease: it is about to expire, and its
// holder was stopped for a part of the time that it had to renew it.
func (r *renewal) due(expires time.Time, ttl, lasted time.Duration, now time.Time) bool {
	if !expires.Equal(r.expires) {
		if !r.ours {
			r.owed = 0 // the holder has renewed it
		}
		r.expires, r.ours = expires, false
	}
	r.owed += lasted - r.counted
	r.counted = lasted
	const soon = 4 * time.Second // more than a cycle
	return r.owed > 0 && expires.Sub(now) <= min(soon, ttl/2)
}

// paid notes that the pacer has renewed the lease.
func (r *renewal) paid(ttl time.Duration) {
	r.owed -= ttl
	r.ours = true
}

// attend starts and ends the meters of devices.
func (p *Pacer) attend(ctx context.Context, group *sync.WaitGroup) {
	wanted := map[string][]*paced{}
	p.mu.Lock()
	leases := slices.Collect(maps.Values(p.leases))
	p.mu.Unlock()
	for _, l := range leases {
		if held := p.Leases.Lease(l.Key, l.Fence); held != nil {
			for _, part := range held.Parts {
				wanted[part.GPU] = append(wanted[part.GPU], l)
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for uuid, m := range p.meters {
		m.serve(wanted[uuid])
		if len(wanted[uuid]) == 0 {
			m.stop()
			delete(p.meters, uuid)
		}
	}
	for uuid, leases := range wanted {
		if p.meters[uuid] == nil {
			m := &meter{devices: p.Devices, uuid: uuid, leases: leases}
			m.ctx, m.stop = context.WithCancel(ctx)
			p.meters[uuid] = m
			group.Go(m.run)
		}
	}
}
