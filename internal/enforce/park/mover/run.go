package mover

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/idle"
	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/when"
)

const (
	// often is the shortest time between two looks at the queue.
	often = 50 * time.Millisecond
	// watchful is how often Run checks whether a parked lease begins to use its device.
	watchful = 2 * time.Second
)

// Run carries on with the leases that an earlier daemon had parked, and parks leases when
// others wait for their devices, until ctx ends. A step that a driver is taking at that
// time goes on without the daemon.
func (p *Mover) Run(ctx context.Context) {
	stop, over := make(chan struct{}), make(chan struct{})
	p.mu.Lock()
	p.running, p.over = ctx, over
	p.mu.Unlock()
	go func() {
		defer close(over)
		p.attend(stop)
	}()
	defer p.stop(stop)
	p.recover()
	p.Nudge()
	var due <-chan time.Time // when to look again, even if nothing changes
	for {
		select {
		case <-p.nudged:
		case <-due:
		case <-ctx.Done():
			return
		}
		next := p.turn(time.Now())
		if soon := time.Now().Add(watchful); p.confine() && (next.IsZero() || next.After(soon)) {
			next = soon
		}
		if !next.IsZero() {
			due = time.After(time.Until(next))
		}
		if wait(ctx, often) != nil {
			return
		}
	}
}

// stop waits until all work has ended, and wakes all waiting goroutines.
func (p *Mover) stop(attending chan<- struct{}) {
	p.mu.Lock()
	p.running = nil // nothing begins any more
	over := p.over
	p.mu.Unlock()
	p.working.Wait()
	close(attending)
	<-over
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.leases {
		r.notify()
	}
}

// turn parks the leases whose turn is over. It returns when to look again, or zero if
// only a change calls for that.
func (p *Mover) turn(now time.Time) time.Time {
	if _, waiting := p.Leases.Len(); waiting == 0 {
		p.spare(func(uint64) bool { return true })
		return time.Time{}
	}
	pressure := p.Leases.Queue()
	parkable := p.overlay(&pressure, now)
	plan := park.Turn(now, pressure)
	spare := map[uint64]bool{}
	for _, fence := range plan.Spare {
		spare[fence] = true
	}
	p.spare(func(fence uint64) bool { return spare[fence] })
	for _, a := range plan.Warn {
		p.caution(a, now)
	}
	for _, a := range plan.Park {
		o := orderFor(a)
		if a.Program {
			p.services().Away(o.key, o.fence, o.wanter, o.why)
			continue
		}
		o.done = make(chan error, 1)
		p.await(news{fence: o.fence, order: &o})
	}
	next := plan.Next
	rules, _ := p.rules("")
	if soon := now.Add(idle.Often(rules.IdleAfter)); parkable && (next.IsZero() || next.After(soon)) {
		next = soon
	}
	return next
}

// overlay adds what the book does not know to the pressure, and reports whether any lease
// could be parked or sent away.
func (p *Mover) overlay(pressure *placement.Pressure, now time.Time) (parkable bool) {
	simulated, seen := onlySimulated(p.Leases.Sums()), map[string][]ledger.Process{}
	for i := range pressure.Holdings { // collect the answers of others before mu is held
		h := &pressure.Holdings[i]
		var stays bool
		if h.Rules, stays = p.rules(h.Service); !p.run(h, stays) {
			h.Parkable = h.Parkable && !stays && p.Denied(h.GPU) == "" && !p.keeps(h, seen)
			if f, idle := p.Idle(h.Fence); idle {
				h.Idle = f.Since
			}
		}
		parkable = parkable || h.Parkable
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range pressure.Holdings {
		h := &pressure.Holdings[i]
		if r := p.leases[h.Fence]; r != nil {
			h.Leaves = h.Leaves || r.Phase == move.Parking
			h.Parkable = h.Parkable && r.At != park.Lost
			if !h.Program {
				h.Warned, h.Barred = r.warned, r.barred.until
			}
			switch back := when.Of(r.back); { // the book leases its room before its memory comes back
			case r.Phase == move.Resuming:
				h.Since, h.Idle = when.Stored(now), time.Time{}
			case back.After(h.Since):
				h.Since = back
			}
		}
	}
	if parkable {
		host, err := p.hostFor(simulated, gpu.Opt[gpu.MiB]{})
		if err == nil {
			pressure.Host = host.Room()
		}
	}
	return parkable
}

// onlySimulated reports whether all devices are simulated.
func onlySimulated(sums map[string]ledger.DeviceSum) bool {
	for _, s := range sums {
		if s.Device.Vendor != gpu.Simulated {
			return false
		}
	}
	return true
}

// caution warns the holder of a lease that it is about to be parked.
func (p *Mover) caution(a park.Action, now time.Time) {
	held := p.Leases.Lease(a.Key, a.Fence)
	if held == nil {
		return
	}
	p.mu.Lock()
	p.of(held).warned = now
	p.mu.Unlock()
	o := orderFor(a)
	p.Publish(o.warning(held, now.Add(a.Rules.Grace)))
}

func orderFor(a park.Action) order {
	why := fmt.Sprintf("%s waits for its device", a.For.Key.ID)
	if a.For.Into != 0 {
		why = fmt.Sprintf("it is the turn of %s", a.For.Key.ID)
	}
	return order{key: a.Key, fence: a.Fence, by: access.Daemon(), why: why, source: move.ByPressure, wanter: a.For.Key}
}

// spare forgets that leases were about to be parked.
func (p *Mover) spare(which func(fence uint64) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for fence, r := range p.leases {
		if which(fence) {
			r.warned = time.Time{}
		}
	}
}

// recover goes on with the work of an earlier daemon: it brings the processes to the
// state that the book says.
func (p *Mover) recover() {
	p.mu.Lock()
	damaged := p.damaged
	p.mu.Unlock()
	for _, held := range p.Leases.View().Leases {
		// A parked lease that the file may not have, or any lease if there is no file to
		// go by.
		if len(held.Parts) > 0 && (held.State == lease.Parked || damaged && p.Leases.Unparkable(held.Key(), held.Fence) == nil) {
			p.adopt(held.Lease)
		}
	}
	p.mu.Lock()
	p.damaged = false // the next file has everything that was found
	p.recovered = true
	list := slices.Collect(maps.Values(p.leases))
	p.mu.Unlock()
	for _, r := range list {
		p.happen(r, park.Recovered)
	}
}

// confine takes the memory of processes that begin to use a device under a parked lease
// off it again. It reports whether any lease is parked.
func (p *Mover) confine() (any bool) {
	p.mu.Lock()
	var list []*record
	for _, r := range p.leases {
		any = any || r.Phase == move.Parked
		if r.At == park.Parked {
			list = append(list, r)
		}
	}
	p.mu.Unlock()
	intruders, looked := map[uint64]bool{}, map[string]bool{} // fences, and devices
	for _, r := range list {
		if !looked[r.GPU] {
			looked[r.GPU] = true
			for _, on := range p.Leases.Processes(r.GPU) {
				if on.Lease != nil && on.Memory > remains && on.By.Certain() {
					intruders[on.Lease.Fence] = true
				}
			}
		}
		if intruders[r.Fence] {
			p.happen(r, park.Intruded)
			continue
		}
		p.mu.Lock()
		if r.astray {
			r.astray, r.failed = false, ""
			r.notify()
		}
		p.mu.Unlock()
	}
	return any
}
