package mover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/process/kinship"
	"github.com/berth-gpu/berth/internal/text/words"
	"github.com/berth-gpu/berth/internal/when"
)

// order asks to park a lease.
type order struct {
	key    lease.Key
	fence  uint64
	by     access.Actor
	why    string
	source move.Source
	wanter lease.Key  // of the request that it makes room for, if any
	said   bool       // the owner says that its processes share no memory
	done   chan error // gets the result
}

// Park moves the memory of a lease to the memory of the machine, because somebody asked
// for it. The memory stays there until somebody resumes the lease. Park returns when the
// memory has left the device. If it returns an error, nothing has changed or every change
// was undone. Parking goes on if ctx ends. Unshared says that, by the word of the owner,
// the processes of the lease share no memory of the device.
func (p *Mover) Park(ctx context.Context, k lease.Key, fence uint64, by access.Actor, why string, unshared bool) error {
	return p.park(ctx, order{key: k, fence: fence, by: by, why: why, source: move.ByHand, said: unshared})
}

// ParkIdle parks a lease because it is idle. It warns the holder, waits for the grace,
// and parks the lease if it is still idle. After a time slice, the lease waits for its
// turn to come back.
func (p *Mover) ParkIdle(ctx context.Context, k lease.Key, fence uint64, why string) error {
	held := p.Leases.Lease(k, fence)
	if held == nil {
		return fmt.Errorf("park %s: %w", k.ID, lease.ErrUnknown)
	}
	if _, runs := p.use(k, fence); runs {
		return refuse(k.ID, move.Unparkable, "berth runs its program, and sends it away when it is idle", "")
	}
	rules, stays := p.rules(held.Holder.Service)
	if stays {
		return refuse(k.ID, move.Unparkable, "its service says keep: true", "")
	}
	if had := time.Since(p.keptSince(held)); had < rules.Keep {
		return refuse(k.ID, move.Unparkable, fmt.Sprintf("it has had its device for %s, and keeps it for %s at least", words.Duration(had), words.Duration(rules.Keep)), "")
	}
	o := order{key: k, fence: fence, by: access.Daemon(), why: why, source: move.ByLadder}
	if rules.Grace > 0 {
		if err := p.Leases.Unparkable(k, fence); err != nil {
			return err
		}
		if kept := p.Kept(held); kept != "" {
			return refuse(k.ID, move.MemoryShared, kept, "")
		}
		p.Publish(o.warning(held, time.Now().Add(rules.Grace)))
		if err := wait(ctx, rules.Grace); err != nil {
			return err
		}
		if _, idle := p.Idle(fence); !idle {
			return refuse(k.ID, move.Unparkable, "its programs use the device again", "")
		}
	}
	return p.park(ctx, o)
}

// keptSince returns since when a lease has had its device.
func (p *Mover) keptSince(held *lease.Lease) time.Time {
	since := held.Granted
	if held.Returned.After(since) {
		since = held.Returned
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.leases[held.Fence]; r != nil {
		if back := when.Of(r.back); back.After(since) {
			return back
		}
	}
	return since
}

// refuse returns the error that says why a lease is not parked.
func refuse(id string, code move.Refusal, why, next string) error {
	return &move.RefusedError{Do: "park", ID: id, Code: code, Why: why, Next: next}
}

// park hands in an order, and waits until it is done or ctx ends.
func (p *Mover) park(ctx context.Context, o order) error {
	o.done = make(chan error, 1)
	p.mu.Lock()
	over, runs := p.over, p.running != nil
	p.mu.Unlock()
	if !runs {
		return ledger.ErrStopped
	}
	p.post(news{fence: o.fence, order: &o})
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-over:
		return ledger.ErrStopped
	}
}

// accept reserves a lease for an order, or says why it refuses it. A lease has one order
// at a time.
func (p *Mover) accept(o *order) error {
	held := p.Leases.Lease(o.key, o.fence)
	if held == nil {
		return fmt.Errorf("park %s: %w", o.key.ID, lease.ErrUnknown)
	}
	if err := p.Leases.Unparkable(o.key, o.fence); err != nil {
		return err
	}
	if why := p.Denied(held.Parts[0].GPU); why != "" {
		return refuse(held.ID, move.NoRights, why, "")
	}
	in := p.Leases.ParkMandate(o.key, o.by)
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.of(held)
	switch {
	case r.Phase == move.Parking:
		return refuse(held.ID, move.Busy, "it is already being parked", "Wait until that is done.")
	case r.Phase == move.Resuming:
		return refuse(held.ID, move.Busy, "it is being resumed", "Wait until that is done, and park it then.")
	case r.At != park.Here:
		return refuse(held.ID, move.Busy, "its memory is being moved", "Wait until that is done.")
	}
	r.GPU, r.User, r.By, r.Why = held.Parts[0].GPU, held.Holder.User, lease.ByOf(o.by), o.why
	r.order, r.In, r.Said, r.Awake = *o, in, o.said, r.wakes
	r.Processes, r.failed, r.unparked, r.touched, r.astray = nil, "", "", false, false
	return nil
}

// turnDown answers an order that was not accepted.
func (p *Mover) turnDown(o *order, why error) {
	o.done <- why
	if o.source == move.ByPressure { // nobody waits for the answer
		p.bar(o, why)
		p.Log.Warn("a lease could not be parked for one that waits", "lease", o.key.ID, "error", why)
	}
}

// undone returns why a lease was not parked that was prepared, or that has ended. Held is
// nil if it has ended.
func (o *order) undone(held *lease.Lease, why error) error {
	if errors.Is(why, errEnded) || held == nil {
		return fmt.Errorf("park %s: %w: it ended meanwhile", o.key.ID, lease.ErrUnknown)
	}
	step := (*stepError)(nil)
	refused := (*move.RefusedError)(nil)
	switch {
	case errors.As(why, &step) && step.step == move.Ask: // the states of its processes are not known
		return refuse(o.key.ID, move.Unparkable, step.why, "")
	case errors.As(why, &refused):
		return why
	}
	next := ""
	if step != nil && step.never {
		next = "Programs with unified memory, or with memory of other processes, cannot be parked."
	}
	return refuse(o.key.ID, move.Unmoved, why.Error(), next)
}

// Resume brings the memory of a parked lease back to its device. It waits for room for as
// long as wait says, or until ctx ends if wait is absent. Resume returns when the
// programs of the lease run on. If it gives up before there is room, the lease stays
// parked.
func (p *Mover) Resume(ctx context.Context, k lease.Key, fence uint64, by access.Actor, why string, wait gpu.Opt[time.Duration]) error {
	p.mu.Lock()
	r, s := p.leases[fence], park.State{}
	if r != nil {
		s = r.State
	}
	p.mu.Unlock()
	switch {
	case s.Phase == move.Parking:
		return &move.RefusedError{Do: "resume", ID: k.ID, Code: move.Busy, Why: "it is being parked", Next: "Wait until that is done, and resume it then."}
	case s.Phase == move.Resuming:
		p.happen(r, park.Asked)
		return p.awaitBack(ctx, r)
	}
	held := p.Leases.Lease(k, fence)
	if held == nil {
		return fmt.Errorf("resume %s: %w", k.ID, lease.ErrUnknown)
	}
	if held.State != lease.Parked && s.Phase != move.Parked {
		return fmt.Errorf("resume %s: %w: it is %s", k.ID, lease.ErrState, held.State)
	}
	if s.Phase == "" {
		r = p.adopt(held)
	}
	return p.call(ctx, r, held, by, why, wait)
}

// call leases the room of a parked lease again in the book, and waits until its memory is
// back.
func (p *Mover) call(ctx context.Context, r *record, held *lease.Lease, by access.Actor, why string, wait gpu.Opt[time.Duration]) error {
	p.happen(r, park.Called)
	p.mu.Lock()
	over, since := r.waitOver, r.WaitsSince(held.ParkedAt, when.Now())
	p.mu.Unlock()
	if over != nil { // a lease has one request at a time
		select {
		case <-over:
		case <-ctx.Done():
			p.mu.Lock()
			defer p.mu.Unlock()
			p.start(r, func(context.Context, *record) {
				<-over
				p.happen(r, park.CallOver)
			})
			return context.Cause(ctx)
		}
	}
	_, err := p.Leases.Return(ctx, held.Key(), held.Fence, by, why, since, wait)
	p.happen(r, park.CallOver) // bring it back now, or wait for its turn again
	if phase := p.state(r).Phase; err != nil && !((phase == "" || phase == move.Resuming) && errors.Is(err, lease.ErrState)) {
		return err // otherwise its turn has come at the same moment
	}
	return p.awaitBack(ctx, r)
}

// Wake brings a lease back because its program asks for it. It does nothing for a lease
// that is not parked. If ctx ends first, the lease still comes back at its turn.
func (p *Mover) Wake(ctx context.Context, k lease.Key, fence uint64) error {
	held := p.Leases.Lease(k, fence)
	p.mu.Lock()
	r := p.leases[fence]
	if held != nil {
		r = p.of(held)
		r.wakes = true
	}
	here := r == nil || r.Phase == ""
	p.mu.Unlock()
	switch {
	case !here:
		p.happen(r, park.Woken)
		return p.awaitBack(ctx, r)
	case held == nil || held.State != lease.Parked:
		return nil
	}
	return p.Resume(ctx, k, fence, access.Daemon(), "its program asked for it", gpu.Opt[time.Duration]{})
}

// awaitBack waits until the memory of a lease is back on its device.
func (p *Mover) awaitBack(ctx context.Context, r *record) error {
	for {
		p.mu.Lock()
		changed, s, ended, failed := r.changed, r.State, r.ended, r.failed
		stops := p.running == nil || p.running.Err() != nil
		p.mu.Unlock()
		switch {
		case ended:
			return fmt.Errorf("resume %s: %w: it ended meanwhile", r.Key.ID, lease.ErrUnknown)
		case s.Phase == "":
			return nil
		case s.At == park.Lost:
			return &move.RefusedError{Do: "resume", ID: r.Key.ID, Code: move.NotResuming, Why: failed, Next: "End its program by kill -9, and release the lease if it stands then."}
		case stops:
			return ledger.ErrStopped
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// adopt makes a record for a lease that is parked according to the book, but is missing
// in the file, or for a lease of which nobody knows. Its processes are its members.
func (p *Mover) adopt(held *lease.Lease) *record {
	var list []moved
	for _, id := range p.Leases.Members(held.Key(), held.Fence) {
		list = append(list, moved{Process: move.Process(id)})
	}
	if len(list) > 0 {
		list[0].Memory = held.Parts[0].Memory // it is not known which of them has the memory
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.of(held)
	if r.Phase != "" {
		return r
	}
	r.GPU, r.User, r.In, r.Processes = held.Parts[0].GPU, held.Holder.User, kinship.OfUser(held.Holder.UID), list
	r.State = park.State{At: park.Halfway, Phase: move.Resuming, Since: when.Now(), Source: move.ByHand, Returns: held.Parkable}
	if held.State == lease.Parked {
		r.At, r.Phase, r.Since, r.ParkedAt, r.Times = park.Parked, move.Parked, held.ParkedAt, held.ParkedAt, 1
		if !p.recovered {
			r.At = park.Noted
		}
	}
	return r
}
