package park

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
	"github.com/berth-gpu/berth/internal/text/words"
)

// order asks to park a lease.
type order struct {
	key    lease.Key
	fence  uint64
	by     access.Actor
	why    string
	source move.Source
	wanter lease.Key // of the request that it makes room for, if any
	said   bool      // the owner says that its processes share no memory
}

// Park moves the memory of a lease to the memory of the machine, because somebody asked
// for it. The memory stays there until somebody resumes the lease. Park returns when the
// memory has left the device. If it returns an error, nothing has changed or every change
// was undone. Parking goes on if ctx ends. Unshared says that, by the word of the owner,
// the processes of the lease share no memory of the device.
func (p *Parker) Park(ctx context.Context, k lease.Key, fence uint64, by access.Actor, why string, unshared bool) error {
	return p.park(ctx, order{key: k, fence: fence, by: by, why: why, source: move.ByHand, said: unshared})
}

// ParkIdle parks a lease because it is idle. It warns the holder, waits for the grace,
// and parks the lease if it is still idle. After a time slice, the lease waits for its
// turn to come back.
func (p *Parker) ParkIdle(ctx context.Context, k lease.Key, fence uint64, why string) error {
	held := p.find(k, fence)
	if held == nil {
		return fmt.Errorf("park %s: %w", k.ID, lease.ErrUnknown)
	}
	settings := p.Settings()
	if had := time.Since(p.keptSince(held)); had < settings.Keep {
		return refuse(k.ID, move.Unparkable, fmt.Sprintf("it has had its device for %s, and keeps it for %s at least", words.Duration(had), words.Duration(settings.Keep)), "")
	}
	grace := settings.Grace
	o := order{key: k, fence: fence, by: access.Daemon(), why: why, source: move.ByLadder}
	if grace > 0 {
		if err := p.Leases.Unparkable(k, fence); err != nil {
			return err
		}
		if kept := p.Kept(held); kept != "" {
			return refuse(k.ID, move.MemoryShared, kept, "")
		}
		p.Publish(o.warning(held, time.Now().Add(grace)))
		if err := wait(ctx, grace); err != nil {
			return err
		}
		if _, idle := p.Idle(fence); !idle {
			return refuse(k.ID, move.Unparkable, "its programs use the device again", "")
		}
	}
	return p.park(ctx, o)
}

// keptSince returns since when a lease has had its device.
func (p *Parker) keptSince(held *lease.Lease) time.Time {
	since := held.Granted
	if held.Returned.After(since) {
		since = held.Returned
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.leases[held.Fence]; r != nil && r.back.After(since) {
		since = r.back
	}
	return since
}

// refuse returns the error that says why a lease is not parked.
func refuse(id string, code move.Refusal, why, next string) error {
	return &move.RefusedError{Do: "park", ID: id, Code: code, Why: why, Next: next}
}

// park carries out an order, and waits until it is done or ctx ends.
func (p *Parker) park(ctx context.Context, o order) error {
	done, err := p.begin(o)
	if err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin begins to carry out an order. The channel gets the result.
func (p *Parker) begin(o order) (<-chan error, error) {
	held := p.find(o.key, o.fence)
	if held == nil {
		return nil, fmt.Errorf("park %s: %w", o.key.ID, lease.ErrUnknown)
	}
	r, err := p.engage(held, o)
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.start(func(ctx context.Context) { p.carryOut(ctx, r, o, done) }) {
		p.disengage(r)
		return nil, ledger.ErrStopped
	}
	return done, nil
}

// engage reserves a lease for an order. From then on it refuses other orders.
func (p *Parker) engage(held *lease.Lease, o order) (*parked, error) {
	if err := p.Leases.Unparkable(o.key, o.fence); err != nil {
		return nil, err
	}
	if why := p.Denied(held.Parts[0].GPU); why != "" {
		return nil, refuse(held.ID, move.NoRights, why, "")
	}
	in := p.Leases.ParkMandate(o.key, o.by)
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.leases[held.Fence]
	if r == nil {
		r = &parked{kept: kept{Key: o.key, Fence: held.Fence}, mu: &p.mu, changed: make(chan struct{})}
	}
	switch {
	case r.Phase == move.Parking:
		return nil, refuse(held.ID, move.Busy, "it is already being parked", "Wait until that is done.")
	case r.Phase == move.Resuming:
		return nil, refuse(held.ID, move.Busy, "it is being resumed", "Wait until that is done, and park it then.")
	case r.Phase != "" || r.moves:
		return nil, refuse(held.ID, move.Busy, "its memory is being moved", "Wait until that is done.")
	}
	r.GPU, r.User, r.Source, r.By, r.Why = held.Parts[0].GPU, held.Holder.User, o.source, lease.ByOf(o.by), o.why
	r.wanter, r.In, r.Said = o.wanter, in, o.said
	r.Processes, r.failed, r.Returns, r.lost, r.touched, r.moves, r.Wanted = nil, "", false, false, false, true, time.Time{}
	p.leases[r.Fence] = r
	r.Awake = p.wakes[r.Fence]
	r.enter(move.Parking, time.Now())
	return r, nil
}

// disengage ends the reservation of a lease whose memory was not touched. The caller
// holds mu.
func (p *Parker) disengage(r *parked) {
	r.moves, r.Processes = false, nil
	r.enter("", time.Now())
	if r.Times == 0 && r.failed == "" {
		delete(p.leases, r.Fence)
	}
}

// carryOut parks a lease, and undoes its changes if that fails.
func (p *Parker) carryOut(ctx context.Context, r *parked, o order, done chan<- error) {
	defer p.Nudge()
	if err := p.prepare(ctx, r, o); err != nil {
		p.leaveIt(r, o, err)
		done <- err
		return
	}
	began, moving := time.Now(), r.stepTime()
	p.Publish(lease.Sparing(p.event(r, gpu.EventParking, gpu.Warning, fmt.Sprintf("%s is being parked%s: its memory moves to the memory of the machine", o.key.ID, because(o.why)),
		map[string]any{"memory_mb": r.host(), "host_mb": r.host(), "reason": o.why, "for": o.wanter.ID, "source": string(o.source)}), r.sparing()))
	p.suspend(r)
	err := p.away(ctx, r, o)
	switch {
	case err == nil:
		p.arrivedAway(r, o, time.Since(began), r.stepTime()-moving)
		done <- nil
	case ctx.Err() != nil: // the next daemon goes on
		done <- ledger.ErrStopped
	case !r.wasTouched():
		err = o.undone(p.find(o.key, o.fence), err)
		p.leaveIt(r, o, err)
		done <- err
	default:
		p.undo(ctx, r, o, err, done)
	}
}

// leaveIt notes that a lease whose processes were not touched is not parked.
func (p *Parker) leaveIt(r *parked, o order, why error) {
	p.mu.Lock()
	p.disengage(r)
	_ = p.write() // write reports its errors itself; the next daemon finds nothing to do
	p.bar(r.Fence, o, why)
	release := r.release
	r.release = nil
	p.mu.Unlock()
	if release != nil {
		release()
	}
	if o.source != move.ByHand { // otherwise the caller gets the error
		p.refused(r, o, why)
	}
}

// prepare finds the processes of a lease, checks that it can be parked, and records it in
// the file.
func (p *Parker) prepare(ctx context.Context, r *parked, o order) error {
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
	p.mu.Lock()
	defer p.mu.Unlock()
	r.Simulated = reading.Device.Vendor == gpu.Simulated
	if err := p.reserve(r, list); err != nil {
		return err
	}
	if o.source != move.ByHand && len(list) > 0 && r.host() == 0 {
		return refuse(o.key.ID, move.Unparkable, "its programs run and have nothing on the device yet, so they may begin at any moment", "")
	}
	if err := p.write(); err != nil {
		return refuse(o.key.ID, move.Unparkable, err.Error(), "")
	}
	return nil
}

// reserve reserves memory of the machine for the processes of a lease. The caller
// holds mu.
func (p *Parker) reserve(r *parked, list []moved) error {
	r.Processes = nil // they must not count twice
	whole := parked{kept: kept{Processes: list}}
	host, err := p.hostFor(r.Simulated, whole.processes())
	if err != nil {
		return refuse(r.Key.ID, move.NoHost, err.Error(), "")
	}
	if why := host.Refuse(whole.host()); why != "" {
		return refuse(r.Key.ID, move.NoHost, why, "")
	}
	r.Processes = list
	return nil
}

// members returns the processes of a lease, with the memory that they have on its device.
// It refuses a lease if berth must not act on one of its processes that uses a device, or
// if a process also uses another device. It leaves alone processes of other users that
// use no device.
func (p *Parker) members(r *parked) ([]moved, error) {
	var list []moved
	index := map[process.ID]int{}
	reached, spared := p.Processes.Reach(r.mandate(), p.Leases.Members(r.Key, r.Fence))
	r.setSpared(p.Processes.Describe(spared))
	for _, id := range reached {
		index[id] = len(list)
		list = append(list, moved{Process: move.Process(id)})
	}
	for uuid := range p.Leases.Sums() {
		for _, on := range p.Leases.Processes(uuid) {
			if len(on.Line) == 0 {
				continue
			}
			i, member := index[on.Line[0]]
			ours := on.Lease != nil && on.Lease.Fence == r.Fence
			switch {
			case slices.Contains(spared, on.Line[0]):
				return nil, refuseOthers(r.Key.ID, on.Line[0].PID)
			case member && uuid == r.GPU:
				list[i].Memory += on.Memory
			case member:
				return nil, refuse(r.Key.ID, move.Unparkable, fmt.Sprintf("process %d also uses another device", on.Line[0].PID), "")
			case ours && uuid == r.GPU:
				return nil, refuse(r.Key.ID, move.Unparkable, fmt.Sprintf("process %d is counted with the lease, but it is not certain that it belongs to it (%s)", on.Line[0].PID, on.By),
					"Start it with berth exec, or under the process that holds the lease.")
			}
		}
	}
	return list, nil
}

// refuseOthers refuses to park a lease that has a process which the user of the mandate
// could not signal: the processes of a lease are parked together or not at all.
func refuseOthers(id string, pid int) error {
	return refuse(id, move.Unparkable, fmt.Sprintf("process %d uses the device and belongs to another user", pid), "Ask an operator to park it, or end that process first.")
}

// away moves all memory of a lease off its device, and notes in the book that it is
// parked.
func (p *Parker) away(ctx context.Context, r *parked, o order) error {
	const rounds = 5 // each leaves fewer processes that could start others
	for range rounds {
		all, err := p.moveTo(ctx, r, Away)
		if err != nil {
			return err
		}
		if stuck := Stuck(Away, all); len(stuck) > 0 {
			return fmt.Errorf("process %d is %s", stuck[0].PID, stuck[0].State)
		}
		if _, err := p.newMembers(r); err != nil {
			return err
		}
		if len(r.ids()) > len(all) {
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

// remeasure measures the memory of the processes of a lease on the device. It may have
// grown until they were locked.
func (p *Parker) remeasure(ctx context.Context, r *parked) error {
	if _, err := p.sample(ctx, r.GPU); err != nil {
		return err
	}
	if _, err := p.newMembers(r); err != nil {
		return err
	}
	return p.separate(r, r.moved())
}

// newMembers adds the processes that a lease has started meanwhile, and reports whether
// there are any.
func (p *Parker) newMembers(r *parked) (found bool, err error) {
	list, err := p.members(r)
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all, more := slices.Clone(r.Processes), gpu.MiB(0)
	for _, m := range list {
		i := slices.IndexFunc(all, func(known moved) bool { return known.Process == m.Process })
		if i < 0 {
			i, found = len(all), true
			all = append(all, moved{Process: m.Process})
		}
		if m.Memory > all[i].Memory {
			more += m.Memory - all[i].Memory
			all[i].Memory = m.Memory
		}
	}
	if more > 0 {
		host, err := p.hostFor(r.Simulated, r.processes())
		if err != nil {
			return false, err
		}
		if r.Phase == move.Parking {
			host.Coming -= r.host() // that memory is there by now
		}
		if why := host.Refuse(more); why != "" {
			return false, refuse(r.Key.ID, move.NoHost, why, "")
		}
	}
	if !found && more == 0 {
		return false, nil
	}
	r.Processes = all
	return found, p.write()
}

// arrivedAway notes that a lease is parked.
func (p *Parker) arrivedAway(r *parked, o order, took, steps time.Duration) {
	p.mu.Lock()
	r.moves, r.parkedAt = false, time.Now()
	r.Times++
	r.Returns = r.Returns || o.source != move.ByHand
	r.enter(move.Parked, r.parkedAt)
	_ = p.write() // write reports its errors itself; the book is right
	delete(p.barred, r.Fence)
	delete(p.warned, r.Fence)
	if o.source == move.ByPressure {
		p.counts.Turns++
	}
	host, ground := r.host(), r.Ground
	p.mu.Unlock()
	text := fmt.Sprintf("%s is parked: %s of its memory are in the memory of the machine", o.key.ID, host)
	if host == 0 {
		text = fmt.Sprintf("%s is parked: its programs had no memory on the device", o.key.ID)
	}
	p.tell(r, gpu.EventParked, gpu.Note, text, figures(host, took, steps, map[string]any{"host_mb": host, "reason": o.why, "unshared_by": string(ground)}))
	p.settle(r)
}

// undo brings back what was moved of a lease that could not be parked.
func (p *Parker) undo(ctx context.Context, r *parked, o order, why error, done chan<- error) {
	p.mu.Lock()
	r.enter(move.Resuming, time.Now())
	_ = p.write() // write reports its errors itself
	p.bar(r.Fence, o, why)
	p.mu.Unlock()
	refusal := o.undone(p.find(o.key, o.fence), why)
	p.refused(r, o, refusal)
	failed := "it could not be parked: " + reason(refusal)
	r.setFailed(failed, true)
	var once sync.Once
	answer := func() { once.Do(func() { done <- refusal }) }
	if r.isEnded() {
		answer() // bringing it back may take until others leave the device
	}
	late := time.AfterFunc(time.Minute, answer)
	defer late.Stop()
	p.bring(ctx, r, func(err error) {
		if err == nil {
			r.setFailed(failed, true)
		}
		answer()
	})
}

// undone returns why a lease was not parked after its memory was touched. Held is nil if
// the lease has ended.
func (o order) undone(held *lease.Lease, why error) error {
	if errors.Is(why, errEnded) || held == nil {
		return fmt.Errorf("park %s: %w: it ended meanwhile", o.key.ID, lease.ErrUnknown)
	}
	step := (*stepError)(nil)
	refused := (*move.RefusedError)(nil)
	switch {
	case errors.As(why, &step) && step.step == "": // the states of its processes are not known
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

// bar keeps berth from soon trying again to park a lease that could not be parked. The
// caller holds mu.
func (p *Parker) bar(fence uint64, o order, why error) {
	if o.source == move.ByHand {
		return
	}
	const first, longest = time.Minute, 24 * time.Hour
	b := p.barred[fence]
	wait := min(first<<min(b.times, 10), longest)
	if step := (*stepError)(nil); errors.As(why, &step) && step.never {
		wait = longest
	}
	p.barred[fence] = bar{until: time.Now().Add(wait), times: b.times + 1}
	delete(p.warned, fence)
}
