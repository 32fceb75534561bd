package reclaim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/text/words"
)

// ErrUnmeasured refuses an optimization whose result could not be measured.
var ErrUnmeasured = errors.New("monitoring is stopped, so berth could not measure what an optimization frees: start monitoring first")

// mostWaiting is the most optimizations that may wait, one for each user. Each takes
// seconds, and repeats what the one before has just done.
const mostWaiting = 8

// Optimize goes up the ladder for an actor, and returns what each rung did. May reports
// whether the actor may change a lease. One optimization runs at a time. A few others
// wait until it is done, and Optimize refuses more with a *lease.BusyError. A dry run
// changes nothing, does not wait, and goes by the newest samples; each user has one at a
// time.
func (r *Reclaim) Optimize(ctx context.Context, by access.Actor, b api.Optimize, may func(*lease.Lease) bool) (api.Optimization, error) {
	return r.optimize(ctx, by, b, nil, may)
}

// optimize goes up the ladder for the leases and processes on some devices, or on all if
// gpus is empty; only the rungs in only, if there are any. If ctx ends, it stops after the current rung, and returns what it has
// done so far.
func (r *Reclaim) optimize(ctx context.Context, by access.Actor, b api.Optimize, gpus []string, may func(*lease.Lease) bool, only ...string) (done api.Optimization, err error) {
	defer r.Faults.Confine(&err, by.User, "an optimization")
	if !r.Monitor.Running() {
		return api.Optimization{}, ErrUnmeasured
	}
	begin := r.begin
	if b.DryRun {
		begin = r.beginDry
	}
	end, err := begin(ctx, &by)
	if err != nil {
		return api.Optimization{}, err
	}
	defer end()
	settings := r.now()
	c := &climb{Reclaim: r, Optimize: b, gpus: gpus, only: only, may: may, by: by, set: settings.Optimization, services: settings.Services, began: time.Now()}
	return c.all(ctx)
}

// begin waits until no other optimization runs. The caller calls end when its own is
// over. The daemon, which runs one at a time, waits for one of a user that is next, and not
// for the users behind it.
func (r *Reclaim) begin(ctx context.Context, by *access.Actor) (end func(), err error) {
	if by.Door == access.Itself {
		return func() { <-r.running }, enter(ctx, r.running)
	}
	owner := lease.OwnerOf(by)
	if err = r.ask(owner); err != nil {
		return nil, err
	}
	if err = enter(ctx, r.turn); err == nil {
		err = enter(ctx, r.running)
		<-r.turn
	}
	if err != nil {
		r.leave(owner)
		return nil, err
	}
	return func() { <-r.running; r.leave(owner) }, nil
}

// beginDry does the same for a dry run, which copies all leases: it refuses a user who has
// one already.
func (r *Reclaim) beginDry(_ context.Context, by *access.Actor) (end func(), err error) {
	owner := lease.OwnerOf(by)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dry[owner] {
		return nil, &lease.BusyError{Why: "a dry run that you asked for runs already"}
	}
	r.dry[owner] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.dry, owner)
	}, nil
}

// enter waits until there is room in a channel, and takes it.
func enter(ctx context.Context, room chan<- struct{}) error {
	select {
	case room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ask admits an optimization of a user to the queue. Each user has one at a time, so that
// nobody keeps others from theirs.
func (r *Reclaim) ask(by lease.Owner) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.asking[by]:
		return &lease.BusyError{Why: "an optimization that you asked for runs already, or waits for its turn"}
	case len(r.asking) > mostWaiting:
		return &lease.BusyError{Why: "an optimization runs, and others wait for their turn already"}
	}
	r.asking[by] = true
	return nil
}

func (r *Reclaim) leave(by lease.Owner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.asking, by)
}

// climb is one optimization.
type climb struct {
	*Reclaim
	api.Optimize
	gpus     []string                // UUIDs of the devices that it covers; all if empty
	only     []string                // the rungs that it goes up; all if empty
	may      func(*lease.Lease) bool // whether the actor may change a lease; nil means any
	by       access.Actor
	set      config.Optimization
	services map[string]config.Service
	began    time.Time

	view   ledger.View // at the beginning of the rung
	shrunk gpu.MiB     // memory that has become available since leases were shrunk
}

// all goes up the whole ladder.
func (c *climb) all(ctx context.Context) (api.Optimization, error) {
	o := api.Optimization{DryRun: c.DryRun, Service: c.Service, Began: c.began, Rungs: []api.Rung{}, Devices: []api.Reclaimed{}}
	first := c.measure(ctx)
	before := first
	for _, rung := range rungs {
		if ctx.Err() != nil {
			break
		}
		if len(c.only) > 0 && !slices.Contains(c.only, rung.name) {
			continue
		}
		began := time.Now()
		c.view = c.Leases.View()
		one := api.Rung{Name: rung.name}
		one.Done, one.Left = rung.do(c, ctx)
		if !c.DryRun {
			after := c.measure(context.WithoutCancel(ctx))
			switch {
			case rung.name == Shrink: // others may have leased it already
				one.Freed = c.shrunk
			case len(one.Done) > 0 && rung.name != Moving:
				one.Freed = before.until(after)
			}
			before = after
		}
		one.Took = time.Since(began).Seconds()
		one.Done, one.Left = append([]api.RungStep{}, one.Done...), append([]api.RungStep{}, one.Left...)
		o.Rungs = append(o.Rungs, one)
		c.reached(one, rung.text)
	}
	o.Took = time.Since(c.began).Seconds()
	o.Devices = append(o.Devices, first.compare(before)...)
	c.over(o)
	return o, context.Cause(ctx)
}

// chosen reports whether the optimization covers a lease.
func (c *climb) chosen(held ledger.Held) bool {
	return (c.Service == "" || held.Holder.Service == c.Service) &&
		slices.ContainsFunc(held.Parts, func(p lease.Part) bool { return c.covers(p.GPU) })
}

// covers reports whether the optimization covers a device.
func (c *climb) covers(uuid string) bool { return len(c.gpus) == 0 || slices.Contains(c.gpus, uuid) }

// leases returns the leases that take room and that the optimization covers, and the
// number of others that the actor may not change.
func (c *climb) leases() (mine []ledger.Held, others int) {
	for _, held := range c.view.Leases {
		switch {
		case !c.chosen(held) || held.State != lease.Active:
		case c.may != nil && !c.may(held.Lease):
			others++
		default:
			mine = append(mine, held)
		}
	}
	return mine, others
}

// step returns the report of a rung about a lease.
func step(held ledger.Held, before, after gpu.MiB, format string, args ...any) api.RungStep {
	s := api.RungStep{Lease: held.ID, User: held.Holder.User, Before: before, After: after, Text: fmt.Sprintf(format, args...)}
	if len(held.Parts) == 1 {
		s.GPU = held.Parts[0].GPU
	}
	return s
}

// othersLeft returns the report of a rung about leases that the actor may not change.
func othersLeft(n int) []api.RungStep {
	if n == 0 {
		return nil
	}
	return []api.RungStep{{Text: fmt.Sprintf("%s of other users: only their owners and operators may change them", words.Count(n, "lease"))}}
}

// measured returns how much memory the processes of a lease use on all its devices.
func measured(held ledger.Held) (sum gpu.MiB) {
	for _, m := range held.Measured {
		sum += m.Or(0)
	}
	return sum
}
