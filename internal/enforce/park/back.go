package park

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// Resume brings the memory of a parked lease back to its device. It waits for room for as
// long as wait says, or until ctx ends if wait is absent. Resume returns when the
// programs of the lease run on. If it gives up before there is room, the lease stays
// parked.
func (p *Parker) Resume(ctx context.Context, k lease.Key, fence uint64, by access.Actor, why string, wait gpu.Opt[time.Duration]) error {
	p.mu.Lock()
	r := p.leases[fence]
	phase, lost := move.Phase(""), false
	if r != nil {
		phase, lost = r.Phase, r.lost
	}
	p.mu.Unlock()
	switch {
	case phase == move.Parking:
		return &move.RefusedError{Do: "resume", ID: k.ID, Code: move.Busy, Why: "it is being parked", Next: "Wait until that is done, and resume it then."}
	case phase == move.Resuming && !lost:
		return p.awaitBack(ctx, r)
	case lost:
		p.settle(r)
		return p.awaitBack(ctx, r)
	}
	held := p.find(k, fence)
	if held == nil {
		return fmt.Errorf("resume %s: %w", k.ID, lease.ErrUnknown)
	}
	if held.State != lease.Parked && phase != move.Parked {
		return fmt.Errorf("resume %s: %w: it is %s", k.ID, lease.ErrState, held.State)
	}
	if r == nil || phase == "" {
		r = p.adopt(held)
	}
	return p.call(ctx, r, held, by, why, wait)
}

// Wake brings a lease back because its program asks for it. It does nothing for a lease
// that is not parked. If ctx ends first, the lease still comes back at its turn.
func (p *Parker) Wake(ctx context.Context, k lease.Key, fence uint64) error {
	held := p.find(k, fence)
	p.mu.Lock()
	r := p.leases[fence]
	if held != nil {
		p.wakes[fence] = true
	}
	if r == nil || r.Phase == "" {
		p.mu.Unlock()
		if held == nil || held.State != lease.Parked {
			return nil
		}
		return p.Resume(ctx, k, fence, access.Daemon(), "its program asked for it", gpu.Opt[time.Duration]{})
	}
	if !r.Returns {
		r.Wanted = time.Now()
	}
	r.Returns = true // even after it was parked by hand, and while it is being parked
	var stop func()
	if r.Source == move.ByLadder {
		r.Source, stop = move.ByPressure, r.stopWait // it waits for its turn without the pause of the ladder
	}
	p.mu.Unlock()
	if stop != nil {
		stop()
	}
	p.settle(r)
	return p.awaitBack(ctx, r)
}

// adopt makes a record for a lease that is parked according to the book, but is missing
// in the file. Its processes are its members.
func (p *Parker) adopt(held *lease.Lease) *parked {
	var list []moved
	for _, id := range p.Leases.Members(held.Key(), held.Fence) {
		list = append(list, moved{Process: move.Process(id)})
	}
	if len(list) > 0 {
		list[0].Memory = held.Parts[0].Memory // it is not known which of them has the memory
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.leases[held.Fence]; r != nil && r.Phase != "" {
		return r
	}
	r := &parked{
		kept: kept{Key: held.Key(), Fence: held.Fence, GPU: held.Parts[0].GPU, User: held.Holder.User, In: kinship.OfUser(held.Holder.UID), Source: move.ByHand, Returns: held.Parkable, Processes: list},
		mu:   &p.mu, changed: make(chan struct{}), parkedAt: held.ParkedAt,
	}
	if held.State == lease.Parked {
		r.Phase, r.Since, r.Times = move.Parked, held.ParkedAt, 1
	} else {
		r.Phase, r.Since = move.Resuming, time.Now()
	}
	p.leases[held.Fence] = r
	return r
}

// call leases the room of a parked lease again in the book, and waits until its memory is
// back.
func (p *Parker) call(ctx context.Context, r *parked, held *lease.Lease, by access.Actor, why string, wait gpu.Opt[time.Duration]) error {
	p.mu.Lock()
	stop := r.stopWait
	r.calling++
	p.mu.Unlock()
	if stop != nil {
		stop() // a lease has one request at a time
	}
	_, err := p.Leases.Return(ctx, held.Key(), held.Fence, by, why, since(r, held), wait)
	p.mu.Lock()
	r.calling--
	p.mu.Unlock()
	p.settle(r)                                                        // bring it back now, or wait for its turn again
	if err != nil && !(r.isBack() && errors.Is(err, lease.ErrState)) { // its turn may have come at the same moment
		return err
	}
	return p.awaitBack(ctx, r)
}

// since returns since when a lease waits for its turn. A lease that was parked by hand
// waits only from the moment when somebody wants it back: otherwise its owner could keep
// a place in the queue for later.
func since(r *parked, held *lease.Lease) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.Source == move.ByHand && !r.Wanted.IsZero():
		return r.Wanted
	case r.Source == move.ByHand && !r.Returns:
		return time.Now()
	case !held.ParkedAt.IsZero():
		return held.ParkedAt
	}
	return r.Since
}

// awaitBack waits until the memory of a lease is back on its device.
func (p *Parker) awaitBack(ctx context.Context, r *parked) error {
	for {
		p.mu.Lock()
		changed, phase, lost, ended, failed := r.changed, r.Phase, r.lost && !r.moves, r.ended, r.failed
		stops := p.running == nil || p.running.Err() != nil
		p.mu.Unlock()
		switch {
		case ended:
			return fmt.Errorf("resume %s: %w: it ended meanwhile", r.Key.ID, lease.ErrUnknown)
		case phase == "":
			return nil
		case lost:
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

// Returned notes that the book has leased the room of a parked lease again. It does
// not block.
func (p *Parker) Returned(l *lease.Lease) { p.later(l.Fence) }

// Ended notes that a lease has ended. It does not block.
func (p *Parker) Ended(fence uint64) {
	p.mu.Lock()
	delete(p.wakes, fence)
	p.mu.Unlock()
	p.later(fence)
}

// later looks at a lease soon, outside the goroutine that works on the book.
func (p *Parker) later(fence uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.warned, fence)
	if r := p.leases[fence]; r != nil {
		p.start(func(context.Context) { p.settle(r) })
		return
	}
	delete(p.barred, fence)
}

// settle does what the state of a lease in the book asks for: it brings its memory back,
// waits for its turn, or forgets it.
func (p *Parker) settle(r *parked) {
	held := p.find(r.Key, r.Fence)
	p.mu.Lock()
	defer p.mu.Unlock()
	if held == nil && !r.ended {
		r.ended = true
		r.notify()
	}
	switch {
	case r.moves: // the goroutine that moves it settles it
	case held == nil && (r.Phase == move.Parked || r.lost):
		p.abandon(r)
	case held == nil && r.Phase == "":
		p.forget(r)
	case r.Phase == move.Resuming || r.Phase == move.Parked && held.State == lease.Active:
		r.moves, r.lost = true, false
		if r.Phase != move.Resuming {
			r.enter(move.Resuming, time.Now())
		}
		_ = p.write() // write reports its errors itself
		if !p.start(func(ctx context.Context) { p.bring(ctx, r, nil) }) {
			r.moves = false
		}
	case r.Phase == move.Parked && r.Returns && r.stopWait == nil && r.calling == 0:
		p.queueUp(r, held)
	}
}

// forget removes a lease that has ended. The caller holds mu.
func (p *Parker) forget(r *parked) {
	if release := r.release; release != nil {
		p.start(func(context.Context) { release() })
		r.release = nil
	}
	delete(p.leases, r.Fence)
	delete(p.barred, r.Fence)
	delete(p.warned, r.Fence)
	_ = p.write() // write reports its errors itself
}

// abandon leaves alone the processes of a lease that ended while it was parked. They
// cannot run on without room on the device, which nobody leases for them. The caller
// holds mu.
func (p *Parker) abandon(r *parked) {
	if r.left {
		return
	}
	r.left = true
	ids := r.processes()
	p.start(func(ctx context.Context) {
		if n := p.using(ctx, r, ids); n > 0 {
			e := p.event(r, gpu.EventParked, gpu.Warning, fmt.Sprintf("%s ended while it was parked, and %d of its processes live on, such as process %d: they wait for memory that nobody leases for them; end them with kill -9", r.Key.ID, n, ids[0].PID), map[string]any{"failed": true, "processes": n})
			e.Public = fmt.Sprintf("%s ended while it was parked, and some of its processes live on", r.Key.ID)
			p.Publish(e)
		}
		for anyAlive(p.Processes, ids) { // they take memory of the machine
			if wait(ctx, longestLook) != nil {
				return
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.forget(r)
	})
}

// using returns how many processes of a lease live and wait for their memory, after a
// moment in which those that were told to end can do so.
func (p *Parker) using(ctx context.Context, r *parked, ids []move.Process) (n int) {
	const moment = 10 * time.Second
	for began := time.Now(); anyAlive(p.Processes, ids) && time.Since(began) < moment; {
		if wait(ctx, longestLook) != nil {
			return 0
		}
	}
	all, err := p.look(ctx, r)
	if err != nil {
		return 0
	}
	for _, o := range all {
		if o.State == move.Checkpointed || o.State == move.Locked {
			n++
		}
	}
	return n
}

// look asks for the states of the processes of a lease.
func (p *Parker) look(ctx context.Context, r *parked) ([]move.Outcome, error) {
	reading, found := p.Monitor.Find(r.GPU)
	if !found {
		return nil, errors.New("its device is not there")
	}
	m := &movement{p: p, r: r, on: reading.Device}
	defer m.close()
	return m.states(ctx)
}

// queueUp waits for the turn of a parked lease. The caller holds mu.
func (p *Parker) queueUp(r *parked, held *lease.Lease) {
	stopping, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	stop := func() { cancel(); <-over }
	began := p.start(func(ctx context.Context) {
		defer cancel()
		ctx, end := context.WithCancel(ctx)
		defer end()
		forgo := context.AfterFunc(stopping, end)
		p.awaitTurn(ctx, r, held)
		stopped := !forgo()
		p.mu.Lock()
		r.stopWait = nil
		p.mu.Unlock()
		close(over)
		if !stopped {
			p.settle(r)
		}
	})
	if !began {
		cancel()
		return
	}
	r.stopWait = stop
	r.notify()
}

// awaitTurn waits in the queue of the book until a parked lease has its room again, the
// lease ends, or ctx ends.
func (p *Parker) awaitTurn(ctx context.Context, r *parked, held *lease.Lease) {
	from := since(r, held)
	p.mu.Lock()
	source := r.Source
	p.mu.Unlock()
	if source == move.ByLadder {
		from = from.Add(p.Settings().Slice)
		if wait(ctx, time.Until(from)) != nil {
			return
		}
	}
	r.setFrom(from)
	defer r.setFrom(time.Time{})
	p.letPass(ctx, r)
	p.yield(ctx, r, held, from)
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		_, err := p.Leases.Return(ctx, held.Key(), held.Fence, access.Daemon(), "it is its turn", from, gpu.Opt[time.Duration]{})
		now := p.find(held.Key(), held.Fence)
		if err == nil || ctx.Err() != nil || now == nil || now.State != lease.Parked {
			return
		}
		r.setFailed("it cannot wait for its turn: "+err.Error(), true)
		if wait(ctx, pause) != nil {
			return
		}
	}
}

// letPass waits until the request that a lease was parked for has its room. The lease may
// be ahead of it in the queue, by the share of its user, and would take the room back.
func (p *Parker) letPass(ctx context.Context, r *parked) {
	const enough = 5 * time.Second // for a book that writes to a slow disk
	for last := time.Now(); ; {
		p.mu.Lock()
		wanter, uuid := r.wanter, r.GPU
		if p.leaving(uuid) {
			last = time.Now()
		}
		p.mu.Unlock()
		if _, _, waits := p.Leases.FindWaiting(wanter); !waits || time.Since(last) > enough || wait(ctx, firstLook) != nil {
			return
		}
	}
}

// yield waits while requests behind a parked lease in the queue have to go first; see
// Yields.
func (p *Parker) yield(ctx context.Context, r *parked, held *lease.Lease, from time.Time) {
	self := placement.Holding{Fence: r.Fence, GPU: r.GPU, Priority: held.Priority, Since: from}
	const turns = 4 // a request whose turn does not come must not hold it up forever
	began := time.Now()
	for {
		rules := p.Settings().Rules
		if time.Since(began) > turns*(rules.Keep+rules.Slice+time.Minute) {
			return
		}
		pressure := p.Leases.Queue()
		p.overlay(&pressure)
		p.addYielding(&pressure, r)
		if !Yields(time.Now(), rules, pressure, self) || wait(ctx, longestLook) != nil {
			return
		}
		if now := p.find(held.Key(), held.Fence); now == nil || now.State != lease.Parked {
			return
		}
	}
}

// addYielding adds to the wants the other parked leases on the device of r that wait for
// their turn and let others go first.
func (p *Parker) addYielding(pressure *placement.Pressure, r *parked) {
	p.mu.Lock()
	var others []*parked
	since := map[uint64]time.Time{}
	for _, o := range p.leases {
		asked := slices.ContainsFunc(pressure.Wants, func(w placement.Want) bool { return w.Into == o.Fence })
		if o != r && o.GPU == r.GPU && o.Phase == move.Parked && !o.from.IsZero() && !asked {
			others = append(others, o)
			since[o.Fence] = o.from
		}
	}
	p.mu.Unlock()
	for _, o := range others {
		if held := p.find(o.Key, o.Fence); held != nil && held.State == lease.Parked {
			part, sum := held.Parts[0], p.Leases.Sums()[o.GPU]
			pressure.Wants = append(pressure.Wants, placement.Want{
				Into: o.Fence, Priority: held.Priority, Since: since[o.Fence],
				Rooms: []placement.Room{{GPU: o.GPU, Missing: part.Memory - sum.Available(), MissingSlots: part.Slots - sum.FreeSlots()}},
			})
		}
	}
}

// leaving reports whether any lease on a device is being parked. The caller holds mu.
func (p *Parker) leaving(uuid string) bool {
	for _, r := range p.leases {
		if r.GPU == uuid && r.Phase == move.Parking {
			return true
		}
	}
	return false
}

// bring brings the memory of a lease back to its device. It tries again until it succeeds
// or finds that it never can. It calls first with the result of the first try, unless
// first is nil.
func (p *Parker) bring(ctx context.Context, r *parked, first func(error)) {
	defer p.Nudge()
	if first == nil {
		first = func(error) {}
	}
	p.suspend(r)
	began, moving := time.Now(), r.stepTime()
	p.mu.Lock()
	away := r.parkedAt
	memory := r.host()
	p.mu.Unlock()
	if !away.IsZero() {
		p.tell(r, gpu.EventResuming, gpu.Note, fmt.Sprintf("%s returns to its device: %s move back", r.Key.ID, memory), map[string]any{"memory_mb": memory, "parked_seconds": seconds(time.Since(away))})
	}
	for pause, try := time.Second, 0; ; pause, try = min(2*pause, 30*time.Second), try+1 {
		all, err := p.moveTo(ctx, r, Back)
		if ctx.Err() != nil {
			first(ledger.ErrStopped)
			return // the next daemon goes on
		}
		stuck := Stuck(Back, all)
		gone := p.hasEnded(r) && !anyAlive(p.Processes, r.ids())
		switch {
		case err == nil && len(stuck) == 0 || gone:
			p.arrivedBack(r, memory, time.Since(began), r.stepTime()-moving, away)
			first(nil)
			return
		case err == nil && allFailed(stuck):
			p.lose(r, stuck)
			first(errors.New("lost"))
			return
		case err == nil:
			err = fmt.Errorf("process %d is %s", stuck[0].PID, stuck[0].State)
		}
		r.setFailed(err.Error(), true)
		if try == 0 {
			p.tellApart(r, gpu.EventResumed, gpu.Serious, fmt.Sprintf("%s is not back on its device, and berth tries again", r.Key.ID), err.Error())
			first(err)
			first = func(error) {}
		}
		if wait(ctx, pause) != nil {
			return
		}
	}
}

func allFailed(stuck []move.Outcome) bool {
	for _, o := range stuck {
		if o.State != move.Failed {
			return false
		}
	}
	return true
}

// arrivedBack notes that the memory of a lease is back, and that its processes run.
func (p *Parker) arrivedBack(r *parked, memory gpu.MiB, took, steps time.Duration, away time.Time) {
	p.mu.Lock()
	r.moves, r.Returns, r.failed, r.lost, r.Processes, r.Wanted = false, false, "", false, nil, time.Time{}
	r.back, r.parkedAt = time.Now(), time.Time{}
	r.enter("", r.back)
	_ = p.write() // write reports its errors itself; the next daemon finds nothing to do
	release, ended := r.release, r.ended
	r.release = nil
	p.mu.Unlock()
	if release != nil {
		release()
	}
	if !away.IsZero() && !ended {
		p.tell(r, gpu.EventResumed, gpu.Note, fmt.Sprintf("%s is back on its device", r.Key.ID), figures(memory, took, steps, map[string]any{"parked_seconds": seconds(time.Since(away))}))
	}
	p.settle(r)
}

// lose notes that processes of a lease cannot be brought back.
func (p *Parker) lose(r *parked, stuck []move.Outcome) {
	why := "its memory cannot be brought back: " + Refused(stuck)
	p.mu.Lock()
	r.moves, r.lost, r.failed = false, true, why
	r.notify()
	p.mu.Unlock()
	e := p.event(r, gpu.EventResumed, gpu.Serious, fmt.Sprintf("%s is lost: %s; end its program by kill -9, and release the lease if it stands then", r.Key.ID, why), map[string]any{"failed": true})
	e.Public = fmt.Sprintf("%s is lost: its memory cannot be brought back", r.Key.ID)
	p.Publish(e)
	if p.hasEnded(r) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.abandon(r)
	}
}
