package mover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
	"github.com/berth-gpu/berth/internal/when"
)

// Each of the acts below goes on until it can report what came of it, or until the daemon
// stops: then the next daemon goes on.

// depart parks a lease. If it cannot, it answers the order when the lease is back.
func (p *Mover) depart(ctx context.Context, r *record) {
	defer p.Nudge()
	kept := r.order // another order may come before this one is answered
	o := &kept
	err := p.prepare(ctx, r, o)
	prepared := err == nil
	began, moving := time.Now(), r.Moving
	if prepared {
		host := memory(r.Processes)
		p.Publish(lease.Sparing(r.event(gpu.EventParking, gpu.Warning, fmt.Sprintf("%s is being parked%s: its memory moves to the memory of the machine", o.key.ID, because(o.why)),
			map[string]any{"memory_mb": host, "host_mb": host, "reason": o.why, "for": o.wanter.ID, "source": string(o.source)}), r.spared))
		if err = p.suspend(r); err == nil {
			err = p.away(ctx, r, o)
		}
	}
	switch {
	case err == nil:
		p.mu.Lock()
		r.barred, r.warned = bar{}, time.Time{}
		if o.source == move.ByPressure {
			p.counts.Turns++
		}
		p.mu.Unlock()
		p.happen(r, park.Departed, r.parked(o, time.Since(began), r.Moving-moving))
		o.done <- nil
	case prepared && ctx.Err() != nil:
		o.done <- ledger.ErrStopped
	default:
		p.bar(o, err)
		if held := p.Leases.Lease(o.key, o.fence); prepared || held == nil {
			err = o.undone(held, err)
		}
		p.giveUp(ctx, r, o, err)
	}
}

// giveUp reports that a lease could not be parked, and answers the order when the lease is
// where it was, or when that takes long.
func (p *Mover) giveUp(ctx context.Context, r *record, o *order, refusal error) {
	told := r.event(gpu.EventParked, gpu.Warning, fmt.Sprintf("%s was not parked: %s", o.key.ID, reason(refusal)), map[string]any{"failed": true, "reason": reason(refusal)})
	told.Public = fmt.Sprintf("%s was not parked", o.key.ID)
	switch {
	case r.touched:
		why := "it could not be parked: " + reason(refusal)
		p.mu.Lock()
		r.failed, r.unparked, r.tried = why, why, false
		p.mu.Unlock()
		p.happen(r, park.Failed, told)
		p.awaitTry(ctx, r)
	case o.source == move.ByHand: // the caller gets the error
		p.happen(r, park.Refused)
	default:
		p.happen(r, park.Refused, told)
	}
	o.done <- refusal
}

// awaitTry waits until berth has tried to bring a lease back, for a minute at most. It
// does not wait for a lease that has ended: that may take until others leave the device.
func (p *Mover) awaitTry(ctx context.Context, r *record) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		p.mu.Lock()
		over, changed := r.tried || r.ended || r.At != park.Coming, r.changed
		p.mu.Unlock()
		if over {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// bar keeps berth from soon trying again to park a lease that could not be parked.
func (p *Mover) bar(o *order, why error) {
	held := p.Leases.Lease(o.key, o.fence)
	if o.source == move.ByHand || held == nil {
		return
	}
	const first, longest = time.Minute, 24 * time.Hour
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.of(held)
	wait := min(first<<min(r.barred.times, 10), longest)
	if step := (*stepError)(nil); errors.As(why, &step) && step.never {
		wait = longest
	}
	r.barred = bar{until: time.Now().Add(wait), times: r.barred.times + 1}
	r.warned = time.Time{}
}

// prepare finds the processes of a lease, checks that it can be parked, and records it in
// the file.
func (p *Mover) prepare(ctx context.Context, r *record, o *order) error {
	reading, found := p.Monitor.Find(r.GPU)
	if !found {
		return refuse(o.key.ID, move.Unparkable, "its device is not there", "")
	}
	s, err := p.sample(ctx, r.GPU)
	if err != nil {
		return refuse(o.key.ID, move.Unparkable, err.Error(), "")
	}
	list, err := p.members(r)
	if err != nil {
		return err
	}
	if err := p.separate(r, list); err != nil {
		return err
	}
	for _, m := range list {
		if i := slices.IndexFunc(s.Processes, func(on gpu.Process) bool { return on.PID == m.PID }); i >= 0 && !s.Processes[i].Memory.Known() {
			return refuse(o.key.ID, move.Unparkable, fmt.Sprintf("the driver does not say how much memory process %d has", m.PID), "")
		}
		if err := p.Processes.Signal(kinship.Authority(), process.ID(m.Process), process.Probe); errors.Is(err, fs.ErrPermission) {
			return refuse(o.key.ID, move.NoRights, fmt.Sprintf("process %d belongs to another user, and the daemon is not root", m.PID), "Start the daemon as root.")
		}
		if p.Processes.Stopped(process.ID(m.Process)) {
			return refuse(o.key.ID, move.Unparkable, fmt.Sprintf("process %d is stopped, and does not answer the driver", m.PID), fmt.Sprintf("Continue it with kill -CONT %d.", m.PID))
		}
	}
	if err := p.enter(r, o, reading.Device.Vendor == gpu.Simulated, list); err != nil {
		return err
	}
	if err := p.write(); err != nil {
		return refuse(o.key.ID, move.Unparkable, err.Error(), "")
	}
	return nil
}

// enter records the processes of a lease that is about to be parked, if the machine has the
// memory for them.
func (p *Mover) enter(r *record, o *order, simulated bool, list []moved) error {
	group := p.Machine.Group(identities(list))
	p.mu.Lock()
	defer p.mu.Unlock()
	r.Simulated = simulated
	r.Processes = nil // they must not count twice
	host, err := p.hostFor(r.Simulated, group)
	if err != nil {
		return refuse(o.key.ID, move.NoHost, err.Error(), "")
	}
	if why := host.Refuse(memory(list)); why != "" {
		return refuse(o.key.ID, move.NoHost, why, "")
	}
	if o.source != move.ByHand && len(list) > 0 && memory(list) == 0 {
		return refuse(o.key.ID, move.Unparkable, "its programs run and have nothing on the device yet, so they may begin at any moment", "")
	}
	r.Processes = list
	return nil
}

// away moves all memory of a lease off its device, and notes in the book that it is
// parked.
func (p *Mover) away(ctx context.Context, r *record, o *order) error {
	const rounds = 5 // each leaves fewer processes that could start others
	for range rounds {
		all, err := p.moveTo(ctx, r, park.Away)
		if err == nil {
			err = notThere(park.Away, all)
		}
		if err == nil {
			err = p.newMembers(r)
		}
		switch {
		case err != nil:
			return err
		case len(r.Processes) > len(all):
			continue
		}
		if err := p.awaitGone(ctx, r); err != nil {
			return err
		}
		_, err = p.Leases.Park(ctx, o.key, o.fence, o.by, o.why)
		return err
	}
	return errors.New("it keeps starting processes")
}

// notThere returns an error if a process is not where a goal wants it.
func notThere(goal park.Goal, all []move.Outcome) error {
	if stuck := park.Stuck(goal, all); len(stuck) > 0 {
		return fmt.Errorf("process %d is %s", stuck[0].PID, stuck[0].State)
	}
	return nil
}

// check makes sure that the memory of a lease that is parked in the book is off its
// device.
func (p *Mover) check(ctx context.Context, r *record) {
	_ = p.suspend(r) // its memory is away already
	for pause := time.Second; ; pause = min(2*pause, 30*time.Second) {
		all, err := p.moveTo(ctx, r, park.Away)
		if err == nil {
			err = notThere(park.Away, all)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			p.fail(r, "")
			break
		}
		if held := p.Leases.Lease(r.Key, r.Fence); held == nil || held.State == lease.Active {
			break
		}
		p.fail(r, "its memory is not off its device: "+err.Error())
		if p.goAstray(r) {
			p.tellApart(r, gpu.EventParked, gpu.Serious, fmt.Sprintf("%s is parked, and its memory is not off its device", r.Key.ID), err.Error())
		}
		if wait(ctx, pause) != nil {
			return
		}
	}
	p.happen(r, park.Checked)
}

// takeOff takes the memory of new processes of a parked lease off the device: others have
// leased that memory. The processes then wait with the rest of their lease.
func (p *Mover) takeOff(ctx context.Context, r *record) {
	err := p.newMembers(r)
	if err == nil {
		err = p.separate(r, r.Processes)
	}
	if err != nil {
		const what = "a process of it uses the device, and cannot be parked"
		p.fail(r, what+": "+reason(err))
		if p.goAstray(r) {
			p.tellApart(r, gpu.EventParked, gpu.Serious, fmt.Sprintf("%s is parked, and %s", r.Key.ID, what), reason(err))
		}
		p.happen(r, park.Checked)
		return
	}
	p.Publish(r.event(gpu.EventParking, gpu.Warning, fmt.Sprintf("%s is parked, and a process of it began to use the device: it is parked too", r.Key.ID), map[string]any{"source": string(move.ByPressure)}))
	p.check(ctx, r)
}

// goAstray notes that memory of a parked lease may be on its device, and could not be taken
// off. It reports whether that is news.
func (p *Mover) goAstray(r *record) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	news := !r.astray
	r.astray = true
	return news
}

// Astray reports whether memory of a parked lease may be on its device, and could not be
// taken off, and how much of it may be there.
func (p *Mover) Astray(fence uint64) (most gpu.MiB, astray bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.leases[fence]
	if r == nil || r.Phase != move.Parked || !r.astray {
		return 0, false
	}
	for _, m := range r.Processes {
		if m.Memory > 0 {
			most += remains
		}
	}
	return max(most, remains), true
}

// bring brings the memory of a lease back to its device. It tries again until it succeeds
// or finds that it never can.
func (p *Mover) bring(ctx context.Context, r *record) {
	defer p.Nudge()
	_ = p.suspend(r) // it has to come back
	began, moving, parked, size := time.Now(), r.Moving, p.state(r).ParkedAt, memory(r.Processes)
	if !parked.IsZero() {
		p.Publish(r.event(gpu.EventResuming, gpu.Note, fmt.Sprintf("%s returns to its device: %s move back", r.Key.ID, size), map[string]any{"memory_mb": size, "parked_seconds": seconds(time.Since(parked))}))
	}
	for pause, first := time.Second, true; ; pause, first = min(2*pause, 30*time.Second), false {
		all, err := p.moveTo(ctx, r, park.Back)
		if ctx.Err() != nil {
			return
		}
		over := p.hasEnded(r)
		stuck := park.Stuck(park.Back, all)
		if err == nil && len(stuck) == 0 || over && ended(p.Processes, identities(r.Processes)) {
			var tell []gpu.Event
			if !parked.IsZero() && !over {
				tell = append(tell, r.event(gpu.EventResumed, gpu.Note, fmt.Sprintf("%s is back on its device", r.Key.ID), figures(size, time.Since(began), r.Moving-moving, map[string]any{"parked_seconds": seconds(time.Since(parked))})))
			}
			p.mu.Lock()
			r.failed, r.unparked, r.back, r.tried = r.unparked, "", time.Now(), true
			p.mu.Unlock()
			p.happen(r, park.Arrived, tell...)
			return
		}
		if err == nil && !slices.ContainsFunc(stuck, func(o move.Outcome) bool { return o.State != move.Failed }) {
			why := "its memory cannot be brought back: " + park.Refusals(stuck)
			e := r.event(gpu.EventResumed, gpu.Serious, fmt.Sprintf("%s is lost: %s; end its program by kill -9, and release the lease if it stands then", r.Key.ID, why), map[string]any{"failed": true})
			e.Public = fmt.Sprintf("%s is lost: its memory cannot be brought back", r.Key.ID)
			p.mu.Lock()
			r.failed, r.unparked, r.tried = why, "", true
			p.mu.Unlock()
			p.happen(r, park.GaveUp, e)
			return
		}
		if err == nil {
			err = notThere(park.Back, all)
		}
		p.fail(r, err.Error())
		if first {
			p.tellApart(r, gpu.EventResumed, gpu.Serious, fmt.Sprintf("%s is not back on its device, and berth tries again", r.Key.ID), err.Error())
			p.mu.Lock()
			r.unparked, r.tried = "", true
			r.notify()
			p.mu.Unlock()
		}
		if wait(ctx, pause) != nil {
			return
		}
	}
}

// watch waits until the processes of a lease have ended that ended while it was parked, or
// was lost. They cannot run on without room on the device, which nobody leases for them,
// and they take memory of the machine.
func (p *Mover) watch(ctx context.Context, r *record) {
	const moment = 10 * time.Second // in which those that were told to end can do so
	ids := identities(r.Processes)
	for began, told := time.Now(), false; !ended(p.Processes, ids); {
		if !told && time.Since(began) >= moment {
			told = true
			if n := p.stranded(ctx, r); n > 0 {
				e := r.event(gpu.EventParked, gpu.Warning, fmt.Sprintf("%s ended while it was parked, and %d of its processes live on, such as process %d: they wait for memory that nobody leases for them; end them with kill -9", r.Key.ID, n, ids[0].PID), map[string]any{"failed": true, "processes": n})
				e.Public = fmt.Sprintf("%s ended while it was parked, and some of its processes live on", r.Key.ID)
				p.Publish(e)
			}
		}
		if wait(ctx, longestLook) != nil {
			return
		}
	}
	p.happen(r, park.Emptied)
}

// stranded returns how many processes of a lease live and wait for their memory.
func (p *Mover) stranded(ctx context.Context, r *record) (n int) {
	reading, found := p.Monitor.Find(r.GPU)
	if !found {
		return 0
	}
	m := &movement{p: p, r: r, on: reading.Device}
	defer m.close()
	all, _ := m.states(ctx) // without an answer there is nothing to tell
	for _, o := range all {
		if o.State == move.Checkpointed || o.State == move.Locked {
			n++
		}
	}
	return n
}

// queue waits for the turn of a parked lease. The caller holds mu.
func (p *Mover) queue(r *record) {
	if p.running == nil {
		r.Waits = false
		return
	}
	ctx, stop := context.WithCancel(p.running)
	over := make(chan struct{})
	r.stopWait, r.waitOver = stop, over
	if !p.start(r, func(context.Context, *record) {
		p.awaitTurn(ctx, r)
		stop()
		p.mu.Lock()
		r.stopWait, r.waitOver, r.from = nil, nil, time.Time{}
		p.mu.Unlock()
		close(over)
		p.happen(r, park.WaitOver)
	}) {
		stop()
		r.Waits, r.stopWait, r.waitOver = false, nil, nil
	}
}

// awaitTurn waits in the queue of the book until a parked lease has its room again, the
// lease ends, or ctx ends.
func (p *Mover) awaitTurn(ctx context.Context, r *record) {
	held := p.Leases.Lease(r.Key, r.Fence)
	if held == nil {
		return
	}
	rules, _ := p.rules(held.Holder.Service)
	p.mu.Lock()
	from, source := r.WaitsSince(held.ParkedAt, when.Now()), r.Source
	p.mu.Unlock()
	if source == move.ByLadder {
		from = from.Add(rules.Slice)
		if wait(ctx, time.Until(from)) != nil {
			return
		}
	}
	p.mu.Lock()
	r.from = from
	p.mu.Unlock()
	p.letPass(ctx, r)
	p.yield(ctx, r, held.Priority, from)
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		_, err := p.Leases.Return(ctx, r.Key, r.Fence, access.Daemon(), "it is its turn", from, gpu.Opt[time.Duration]{})
		now := p.Leases.Lease(r.Key, r.Fence)
		if err == nil || ctx.Err() != nil || now == nil || now.State != lease.Parked {
			return
		}
		p.fail(r, "it cannot wait for its turn: "+err.Error())
		if wait(ctx, pause) != nil {
			return
		}
	}
}

// letPass waits until the request that a lease was parked for has its room. The lease may
// be ahead of it in the queue, by the share of its user, and would take the room back.
func (p *Mover) letPass(ctx context.Context, r *record) {
	const enough = 5 * time.Second // for a book that writes to a slow disk
	for last := time.Now(); ; {
		p.mu.Lock()
		wanter := r.order.wanter
		for _, o := range p.leases {
			if o.GPU == r.GPU && o.Phase == move.Parking {
				last = time.Now()
			}
		}
		p.mu.Unlock()
		if _, _, waits := p.Leases.FindWaiting(wanter); !waits || time.Since(last) > enough || wait(ctx, firstLook) != nil {
			return
		}
	}
}

// yield waits while requests behind a parked lease in the queue have to go first; see
// park.Yields.
func (p *Mover) yield(ctx context.Context, r *record, priority int, from time.Time) {
	self := placement.Holding{Fence: r.Fence, GPU: r.GPU, Priority: priority, Since: from}
	const turns = 4 // a request whose turn does not come must not hold it up forever
	began := time.Now()
	for {
		rules, _ := p.rules("")
		if time.Since(began) > turns*(rules.Keep+rules.Slice+time.Minute) {
			return
		}
		// All look at the same moments, so that they share the looks.
		if !p.looks.do(p.look).Yields(self) || wait(ctx, longestLook-time.Duration(time.Now().UnixNano())%longestLook) != nil {
			return
		}
		if now := p.Leases.Lease(r.Key, r.Fence); now == nil || now.State != lease.Parked {
			return
		}
	}
}

// look looks at the queue. The parked leases that let others go first are among the wants.
func (p *Mover) look() *park.Yielding {
	now, pressure := time.Now(), p.Leases.Queue()
	p.overlay(&pressure, now)
	asked := map[uint64]bool{}
	for _, w := range pressure.Wants {
		asked[w.Into] = true
	}
	p.mu.Lock()
	var others []*record
	since := map[uint64]time.Time{}
	for _, o := range p.leases {
		if o.Phase == move.Parked && !o.from.IsZero() && !asked[o.Fence] {
			others = append(others, o)
			since[o.Fence] = o.from
		}
	}
	p.mu.Unlock()
	sums := p.Leases.Sums()
	for _, o := range others {
		if held := p.Leases.Lease(o.Key, o.Fence); held != nil && held.State == lease.Parked {
			part, sum := held.Parts[0], sums[o.GPU]
			pressure.Wants = append(pressure.Wants, placement.Want{
				Into: o.Fence, Priority: held.Priority, Since: since[o.Fence],
				Rooms: []placement.Room{{GPU: o.GPU, Missing: part.Memory - sum.Available(), MissingSlots: part.Slots - sum.FreeSlots()}},
			})
		}
	}
	return park.NewYielding(now, pressure)
}
