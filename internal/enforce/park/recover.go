package park

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/lease"
)

// recover goes on with the work of an earlier daemon: it brings the processes to the
// state that the book says.
func (p *Parker) recover() {
	for _, held := range p.Leases.View().Leases {
		if p.known(held.Fence) || len(held.Parts) == 0 {
			continue
		}
		// A parked lease that the file does not have, or any lease if there is no
		// file to go by.
		if held.State == lease.Parked || p.damaged && p.Leases.Unparkable(held.Key(), held.Fence) == nil {
			p.adopt(held.Lease)
		}
	}
	p.mu.Lock()
	p.damaged = false // the next file has everything that was found
	list := make([]*parked, 0, len(p.leases))
	for _, r := range p.leases {
		list = append(list, r)
	}
	p.mu.Unlock()
	for _, r := range list {
		p.revive(r, p.find(r.Key, r.Fence))
	}
}

func (p *Parker) known(fence uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leases[fence] != nil
}

// revive goes on with one lease.
func (p *Parker) revive(r *parked, held *lease.Lease) {
	p.mu.Lock()
	switch {
	case held == nil:
		r.ended = true
		if r.Phase != move.Parked { // it ended while its memory moved, so its locked processes must go on
			r.Phase = move.Resuming
		}
	case held.State == lease.Parked:
		r.parkedAt = held.ParkedAt
		r.Returns = r.Returns || r.Source != move.ByHand
		if r.Phase != move.Parked {
			r.Times = max(r.Times, 1)
			r.enter(move.Parked, held.ParkedAt)
		}
		r.moves = true
		if !p.start(func(ctx context.Context) { p.confirm(ctx, r) }) {
			r.moves = false
		}
		p.mu.Unlock()
		return
	case r.Phase != move.Resuming:
		if r.Phase == move.Parked {
			r.parkedAt = r.Since
		}
		r.enter(move.Resuming, time.Now())
	}
	p.mu.Unlock()
	p.settle(r)
}

// confirm makes sure that the memory of a lease that is parked in the book is off its
// device.
func (p *Parker) confirm(ctx context.Context, r *parked) {
	p.suspend(r)
	err := error(nil)
	for pause := time.Second; ; pause = min(2*pause, 30*time.Second) {
		var all []move.Outcome
		all, err = p.moveTo(ctx, r, Away)
		if stuck := Stuck(Away, all); err == nil && len(stuck) > 0 {
			err = fmt.Errorf("process %d is %s", stuck[0].PID, stuck[0].State)
		}
		if err == nil || ctx.Err() != nil || p.hasEnded(r) || p.isActive(r) {
			break
		}
		p.mu.Lock()
		told := r.failed != ""
		p.mu.Unlock()
		r.setFailed("its memory is not off its device: "+err.Error(), true)
		if !told {
			p.tellApart(r, gpu.EventParked, gpu.Serious, fmt.Sprintf("%s is parked, and its memory is not off its device", r.Key.ID), err.Error())
		}
		if wait(ctx, pause) != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	r.moves = false
	if err == nil {
		r.failed = ""
	}
	r.notify()
	p.mu.Unlock()
	p.settle(r)
}

// isActive reports whether a lease is active in the book.
func (p *Parker) isActive(r *parked) bool {
	held := p.find(r.Key, r.Fence)
	return held != nil && held.State == lease.Active
}
