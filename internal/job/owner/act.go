package owner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/job/service"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/text/words"
	"github.com/berth-gpu/berth/internal/when/later"
)

const (
	// lookAfter is when the owner looks again at a minder that nobody watches, and
	// beginWithin how long a minder may take to ask for its order.
	lookAfter   = 3 * time.Second
	beginWithin = 30 * time.Second
	// endAgain is when a program that lives is told to end again.
	endAgain = 15 * time.Second
	// callWithin is how long the calls for sleep or wake may take, and freedWithin how long
	// after them the memory may take to be free. It is measured every freedPause.
	callWithin  = 2 * time.Minute
	freedWithin = 5 * time.Second
	freedPause  = 250 * time.Millisecond
	// lastLines is how many lines of its log are kept of a failure, and linesWithin how long
	// reading them may take.
	lastLines   = 20
	linesWithin = 5 * time.Second
	// logParts is how many older parts of a log are kept.
	logParts = 3
	// tidyAfter is how often records of runs that nobody needs are removed.
	tidyAfter = time.Hour
	// startedPause is how often a record is read until it says that the command has begun.
	startedPause = 100 * time.Millisecond
)

// act does what follows from an event.
func (o *Owner) act(s *owned, a service.Act) {
	switch a {
	case service.Acquire:
		o.acquire(s)
	case service.Launch:
		o.launch(s)
	case service.Probe:
		o.probe(s)
	case service.Open:
		o.answer(s)
	case service.Close, service.Cut:
		// The fronts are told the state.
	case service.DoPark:
		o.park(s)
	case service.DoSleep:
		o.sleep(s)
	case service.End:
		o.end(s)
	case service.Resume:
		o.resume(s)
	case service.Wake:
		o.wake(s)
	case service.Withdraw:
		// What was begun in the state before is given up.
	case service.Release:
		// It is a debt.
	case service.Refuse:
		o.refuse(s, failed(s.name, s.life.Failure))
	}
}

// beside does something that takes time, and then, in the goroutine that decides, what it
// returns, if nothing has happened to the service meanwhile. Its context ends when
// something happens to the service.
func (o *Owner) beside(s *owned, work func(context.Context) func()) {
	ctx, cancel := context.WithCancel(o.running)
	before, turn := s.cancel, s.turn
	s.cancel = func() { before(); cancel() }
	o.busy.Go(func() {
		then := work(ctx)
		o.post(func() {
			if cancel(); s.turn == turn && then != nil {
				then()
			}
		})
	})
}

// fail lets a service fail that comes, or comes back.
func (o *Owner) fail(s *owned, e service.Event, why string, lines []string) {
	o.surely(s, e, service.Facts{}, func(l *service.Life) { l.Fail(why, lines, time.Now()) })
}

// acquire asks for the lease of a service.
func (o *Owner) acquire(s *owned) {
	a, done, given := askFor(&s.life), make(chan struct{}), s.life.Instance.Spec.Port
	s.acquiring = done
	o.beside(s, func(ctx context.Context) func() {
		defer close(done)
		l, err := o.leases.Acquire(ctx, a)
		for later.Passes(err) && pause(ctx, later.After(err, brokenPause)) {
			l, err = o.leases.Acquire(ctx, a)
		}
		port := given
		for err == nil && port == 0 {
			free, none := o.FreePort()
			switch {
			case none == nil && !o.takenPort(free):
				port = free
			case none != nil && !pause(ctx, brokenPause): // it is no fault of the service
				err = none
			}
		}
		if err != nil {
			return func() { o.fail(s, service.Refused, "it got no lease: "+err.Error(), nil) }
		}
		return func() {
			o.surely(s, service.Granted, service.Facts{}, func(life *service.Life) {
				i := life.Instance
				i.Fence, i.Granted, i.Port, i.Devices = l.Fence, time.Now(), port, nil
				for _, p := range l.Parts {
					i.Devices, i.Memory = append(i.Devices, p.GPU), p.Memory
				}
			})
		}
	})
}

// pause waits for some time, and reports whether ctx still goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// takenPort reports whether another service has a port.
func (o *Owner) takenPort(port int) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	for _, s := range o.services {
		if i := s.life.Instance; i != nil && i.Port == port || s.spec != nil && s.spec.Port == port {
			return true
		}
	}
	return false
}

// pay gives a lease back and forgets a run, after the request for the lease was answered.
func (o *Owner) pay(d debt, answered chan struct{}) {
	o.busy.Go(func() {
		if answered != nil {
			<-answered
		}
		k, fence := d.keyOf(), d.Fence
		if fence == 0 {
			fence, _ = o.leases.Stands(k, 0)
		}
		if fence != 0 {
			o.leases.Release(k, fence, "the program of its service has ended, or is not needed")
		}
		if d.Run != "" {
			if err := o.Minders.Remove(d.Run); err != nil {
				o.Log.Warn("the record of a run cannot be removed", "service", d.Service, "error", err)
			}
		}
		o.post(func() { o.paid(d) })
	})
}

// paid notes that a debt is none any more.
func (o *Owner) paid(d debt) {
	var rest []debt
	for _, other := range o.debts {
		if other.Lease != d.Lease {
			rest = append(rest, other)
		}
	}
	if err := o.write(nil, nil, rest); err != nil {
		o.after(brokenPause, func() { o.paid(d) })
	}
}

// launch starts a minder for a service that has its lease.
func (o *Owner) launch(s *owned) {
	run, number, turn := s.life.Instance.Run(), s.life.Instance.Number, s.turn
	o.busy.Go(func() {
		id, err := o.Minders.Start(o.running, run, runs.Limits{})
		o.post(func() {
			switch {
			case !s.is(number):
			case err != nil:
				o.Log.Warn("a minder could not be started", "service", s.name, "error", err)
				o.look(s, "no minder could be started: "+err.Error())
			default:
				o.watch(s, id)
			}
		})
	})
	o.after(beginWithin, func() {
		if s.turn == turn {
			o.look(s, "its minder did not begin within "+words.Duration(beginWithin))
		}
	})
}

// is reports whether the service still is in this run.
func (s *owned) is(number int64) bool {
	return s.life.Instance != nil && s.life.Instance.Number == number
}

// watch has the end of a minder noticed, once.
func (o *Owner) watch(s *owned, id process.ID) {
	if s.watched == id && id != (process.ID{}) {
		return
	}
	number := s.life.Instance.Number
	s.watched = id
	_, err := o.Minders.Watch(id, func() {
		o.post(func() {
			if s.watched == id {
				s.watched = process.ID{}
			}
			if s.is(number) {
				o.look(s, "its minder ended before it began")
			}
		})
	})
	if err != nil {
		s.watched = process.ID{}
	}
	switch {
	case errors.Is(err, process.ErrGone):
		o.look(s, "its minder ended before it began")
	case err != nil: // too many open files, perhaps
		o.after(lookAfter, func() {
			if s.is(number) {
				o.watch(s, id)
			}
		})
	}
}

// look looks what became of a run. Unbegun is why it failed if no minder has begun; if
// that is empty, one is started.
func (o *Owner) look(s *owned, unbegun string) {
	run, number := s.life.Instance.Run(), s.life.Instance.Number
	o.busy.Go(func() {
		record, alive, err := o.Minders.Read(run)
		o.post(func() {
			switch {
			case !s.is(number):
			case err != nil, alive && record.PID == 0: // it has locked the record, and writes it at once
				o.after(lookAfter, func() {
					if s.is(number) {
						o.look(s, unbegun)
					}
				})
			case alive:
				o.noteLog(s, record.Output)
				o.watch(s, record.Minder())
			case record.PID == 0 && unbegun == "" && s.life.State == service.Starting:
				o.launch(s)
			default:
				o.ended(s, record, unbegun)
			}
		})
	})
}

// noteLog notes where the log of a program is.
func (o *Owner) noteLog(s *owned, path string) {
	if path == "" || s.life.Instance == nil || s.life.Instance.Log == path {
		return
	}
	i := *s.life.Instance
	i.Log = path
	o.set(func() { s.life.Instance, s.life.Log = &i, path }) // it is written down with the next change, and in the record of the run
}

// ended takes in how a program has ended, as far as its record says it. The minder does
// not live.
func (o *Owner) ended(s *owned, record runs.Record, unbegun string) {
	number, spec, path := s.life.Instance.Number, s.life.Instance.Spec, record.Output
	why := endOf(record, unbegun)
	rebooted := record.Boot != "" && record.Boot != o.Boot || record.Shutdown
	o.busy.Go(func() {
		lines := o.lines(&spec, path)
		o.post(func() {
			if !s.is(number) {
				return
			}
			at := o.situation(s, time.Now())
			f := service.Facts{Expected: rebooted || s.life.MustGo(&at) != ""}
			switch s.life.State {
			case service.Parked, service.Asleep:
				f.Expected = true
			case service.Leaving:
				f.Expected = !s.life.Instance.Failed
			}
			o.surely(s, service.Ended, f, func(l *service.Life) {
				if path != "" {
					l.Log = path
				}
				if !f.Expected {
					l.Fail(why, lines, time.Now())
				}
				if l.Instance.Way == service.Stop && !s.ending.IsZero() && l.State == service.Leaving {
					service.Took(&l.Took.Stop, time.Since(s.ending))
				}
			})
		})
	})
}

// lines returns the last lines of a log.
func (o *Owner) lines(spec *service.Spec, path string) []string {
	if path == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(o.running, linesWithin)
	defer cancel()
	lines := o.LastLines(ctx, spec, path, lastLines)
	for i := range lines {
		lines[i] = gpu.Printable(lines[i], 256)
	}
	return lines
}

// unstarted begins the reason of a program that could not be started.
const unstarted = "its program could not be started: "

// endOf says how a program has ended, in words.
func endOf(record runs.Record, unbegun string) string {
	exit, known := record.Exit.Get()
	switch {
	case record.PID == 0:
		return unbegun
	case record.OutOfMemory:
		return "its program was killed: the machine had no more memory for it"
	case record.Failure != "":
		return unstarted + gpu.Printable(record.Failure, 256)
	case record.Signal != "":
		return "its program was ended by " + record.Signal
	case known:
		return fmt.Sprintf("its program ended with exit code %d", exit)
	}
	return "its program is gone, and nobody knows how it ended"
}

// probe finds out when the server of a service is ready.
func (o *Owner) probe(s *owned) {
	i, number := *s.life.Instance, s.life.Instance.Number
	epoch := api.FrontEpoch{Service: s.name, Epoch: s.life.Epoch}
	left := i.Left(time.Now())
	o.beside(s, func(ctx context.Context) func() {
		ctx, cancel := context.WithTimeout(ctx, left+hearWithin) // a front says until then what its server last did
		defer cancel()
		path := o.awaitLog(ctx, i.Run())
		o.post(func() {
			if s.is(number) {
				o.noteLog(s, path)
			}
		})
		var err error
		if text := i.Spec.Ready.Log; text != "" {
			err = o.awaitLine(ctx, left, &i.Spec, path, text)
		} else {
			err = o.send(ctx, api.FrontOrder{Probe: &api.FrontProbe{
				FrontEpoch: epoch, Port: i.Port, UID: i.Spec.UID, Ready: api.FrontReady{Path: i.Spec.Ready.Path}, Timeout: left.Seconds(),
			}})
		}
		if err == nil {
			return func() {
				o.surely(s, service.Opens, service.Facts{}, func(l *service.Life) { service.Took(&l.Took.Start, time.Since(l.Instance.Ordered)) })
			}
		}
		why := fmt.Sprintf("it was not ready %s after its start: %v", words.Duration(time.Since(i.Ordered)), err)
		if i.Left(time.Now()) == 0 {
			why = fmt.Sprintf("it was not ready within its start_timeout of %s: %v", words.Duration(i.Spec.Timeout()), err)
		}
		lines := o.lines(&i.Spec, path)
		return func() { o.fail(s, service.Fails, why, lines) }
	})
}

// awaitLog returns where the log of a run is, once its command has begun.
func (o *Owner) awaitLog(ctx context.Context, run string) string {
	for ctx.Err() == nil {
		if record, alive, err := o.Minders.Read(run); err == nil && (record.Output != "" || !alive) {
			return record.Output
		}
		select {
		case <-time.After(startedPause):
		case <-ctx.Done():
		}
	}
	return ""
}

// awaitLine waits for some time until a line of a log has a text. A reader that ends is
// followed by another one, from the beginning of the log.
func (o *Owner) awaitLine(ctx context.Context, within time.Duration, spec *service.Spec, path, text string) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	found := false
	var unread error
	for again := true; again; again = !found && pause(ctx, lookAfter) {
		err := o.Follow(ctx, spec, path, func(line string) bool {
			found = found || strings.Contains(line, text)
			return !found
		})
		if ctx.Err() == nil {
			unread = err
		}
	}
	switch {
	case found:
		return nil
	case unread != nil:
		return fmt.Errorf("its log cannot be read: %w", unread)
	}
	return fmt.Errorf("no line of its log has %q", text)
}

// closed sends a service away that is closed, once no front has a request of it.
func (o *Owner) closed(s *owned) {
	if s.asking || !o.known() || !o.isClosed(s) {
		return
	}
	s.asking = true
	k, fence := keyOf(s.life.Instance), s.life.Instance.Fence
	o.beside(s, func(ctx context.Context) func() {
		unparkable := o.leases.Parkable(k, fence)
		used, _ := o.leases.Measured(ctx, k, fence)
		return func() { o.goAway(s, unparkable, used) }
	})
}

// isClosed reports whether every front has closed the epoch of a service.
func (o *Owner) isClosed(s *owned) bool {
	for _, f := range o.fronts {
		if f.closed[s.name] < s.life.Epoch {
			return false
		}
	}
	return true
}

// goAway decides in which way a service that is closed goes, or that it stays.
func (o *Owner) goAway(s *owned, unparkable error, used gpu.MiB) {
	now := time.Now()
	at := o.situation(s, now)
	f := service.Facts{Stays: s.life.Remains(&at)}
	way, why := service.Stop, s.life.MustGo(&at)
	if why == "" {
		way, why = service.Choose(&s.life.Instance.Spec, &s.life.Took, unparkable, s.life.Trouble, now)
	}
	o.surely(s, service.Closed, f, func(l *service.Life) {
		l.Instance.Way, l.Instance.Used = way, used
		l.Why = fmt.Sprintf("%s; it goes by %s: %s", l.Instance.ForWhom, way, why)
	})
}

// unable lets a service stop that could not leave in another way.
func (o *Owner) unable(s *owned, err error) {
	o.surely(s, service.Unable, service.Facts{}, func(l *service.Life) {
		trouble := map[service.Way]time.Time{l.Instance.Way: time.Now()}
		for way, at := range l.Trouble {
			if trouble[way].IsZero() {
				trouble[way] = at
			}
		}
		l.Why = fmt.Sprintf("%s failed, so it is stopped: %v", l.Instance.Way, err)
		l.Trouble, l.Instance.Way = trouble, service.Stop
	})
}

func (o *Owner) park(s *owned) {
	k, fence, why := keyOf(s.life.Instance), s.life.Instance.Fence, s.life.Instance.ForWhom
	o.beside(s, func(ctx context.Context) func() {
		began := time.Now()
		if err := o.leases.Park(ctx, k, fence, why); err != nil {
			return func() { o.unable(s, err) }
		}
		took := time.Since(began)
		return func() {
			o.surely(s, service.Gone, service.Facts{}, func(l *service.Life) { service.Took(&l.Took.Park, took) })
		}
	})
}

func (o *Owner) resume(s *owned) {
	k, fence := keyOf(s.life.Instance), s.life.Instance.Fence
	o.beside(s, func(ctx context.Context) func() {
		took, err := o.leases.Resume(ctx, k, fence, "somebody asks for "+s.name)
		switch {
		case err == nil:
			return func() {
				o.surely(s, service.Opens, service.Facts{}, func(l *service.Life) {
					if took > 0 { // else it was there
						service.Took(&l.Took.Resume, took)
					}
				})
			}
		case ctx.Err() != nil:
			return func() { o.withdrawn(s, service.Park) }
		}
		return func() { o.fail(s, service.Fails, "its memory could not be brought back: "+err.Error(), nil) }
	})
}

// withdrawn takes a service back to where it was, after its return was given up.
func (o *Owner) withdrawn(s *owned, way service.Way) {
	o.surely(s, service.Withdrawn, service.Facts{}, func(l *service.Life) { l.Instance.Way, l.Why = way, "nobody asked for it any more" })
}

// sleep has the server of a service give its memory back. How much that is, is measured:
// the lease shrinks to what is left.
func (o *Owner) sleep(s *owned) {
	i, epoch := *s.life.Instance, api.FrontEpoch{Service: s.name, Epoch: s.life.Epoch}
	k, fence := keyOf(&i), i.Fence
	o.beside(s, func(ctx context.Context) func() {
		began := time.Now()
		err := o.call(ctx, epoch, &i, i.Spec.Sleep)
		var left gpu.MiB
		if err == nil {
			left, err = o.measureFreed(ctx, &i)
		}
		if err == nil {
			err = o.leases.Shrink(ctx, k, fence, left)
		}
		if err != nil {
			return func() { o.unable(s, err) }
		}
		took := time.Since(began)
		return func() {
			o.surely(s, service.Gone, service.Facts{}, func(l *service.Life) { service.Took(&l.Took.Sleep, took) })
		}
	})
}

// measureFreed returns what a sleeping server keeps, once it keeps no less. It fails if
// that is nearly as much as before.
func (o *Owner) measureFreed(ctx context.Context, i *service.Instance) (gpu.MiB, error) {
	last := gpu.MiB(-1)
	for began := time.Now(); ; {
		left, err := o.leases.Measured(ctx, keyOf(i), i.Fence)
		if err != nil {
			return 0, fmt.Errorf("what it has left cannot be measured: %w", err)
		}
		if left <= i.Used/2 && left == last {
			return left, nil
		}
		if last = left; time.Since(began) >= freedWithin {
			break
		}
		select {
		case <-time.After(freedPause):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	if last > i.Used/5*4 {
		return 0, fmt.Errorf("its server said that it sleeps, and kept %s of %s", last.Beside(i.Used), i.Used.Beside(last))
	}
	return last, nil
}

func (o *Owner) wake(s *owned) {
	i, epoch, turn := *s.life.Instance, api.FrontEpoch{Service: s.name, Epoch: s.life.Epoch}, s.turn
	o.set(func() { s.growing = true })
	o.beside(s, func(ctx context.Context) func() {
		if err := o.leases.Grow(ctx, keyOf(&i), i.Fence, i.Memory, i.Asked); err != nil {
			if ctx.Err() != nil {
				return func() { o.withdrawn(s, service.Sleep) }
			}
			return func() { o.fail(s, service.Fails, "its memory could not be leased again: "+err.Error(), nil) }
		}
		o.post(func() {
			if s.turn == turn {
				o.set(func() { s.growing = false })
			}
		})
		began := time.Now()
		if err := o.call(o.running, epoch, &i, i.Spec.Wake); err != nil { // it is about to come, whoever leaves
			lines := o.lines(&i.Spec, i.Log)
			return func() { o.fail(s, service.Fails, "its server did not wake: "+err.Error(), lines) }
		}
		took := time.Since(began)
		return func() {
			o.surely(s, service.Opens, service.Facts{}, func(l *service.Life) { service.Took(&l.Took.Wake, took) })
		}
	})
}

// call has a front make calls to the server of a service.
func (o *Owner) call(ctx context.Context, epoch api.FrontEpoch, i *service.Instance, calls []api.FrontHTTPCall) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	return o.send(ctx, api.FrontOrder{Call: &api.FrontCall{FrontEpoch: epoch, Port: i.Port, UID: i.Spec.UID, Calls: calls, Timeout: callWithin.Seconds()}})
}

// end ends the programs of a service, until they have ended.
func (o *Owner) end(s *owned) {
	k, fence, run, why, turn := keyOf(s.life.Instance), s.life.Instance.Fence, s.life.Instance.Run(), s.life.Why, s.turn
	if s.ending.IsZero() || s.ending.Before(s.life.Since) {
		s.ending = time.Now()
	}
	o.busy.Go(func() {
		err := o.leases.End(k, fence, access.Daemon(), why)
		// A lease that has ended, and one that is not bound to the minder yet, end no
		// program. Whoever has no lease may not go on, and a command that has not begun
		// loses nothing.
		if record, alive, unread := o.Minders.Read(run); unread == nil && alive && record.PID != 0 && (errors.Is(err, runs.ErrNoLease) || record.Started.IsZero()) {
			err = o.Minders.Kill(record.Minder())
		}
		if err != nil && !errors.Is(err, runs.ErrNoLease) && !errors.Is(err, process.ErrGone) {
			o.Log.Warn("the programs of a service could not be ended", "service", s.name, "error", err)
		}
		o.post(func() {
			if s.turn == turn {
				o.look(s, "no minder has begun")
			}
		})
	})
	o.after(endAgain, func() {
		if s.turn == turn {
			o.end(s)
		}
	})
}

// Order returns what a minder has to run. Caller is the process that asks; it must be the
// one that has locked the record of the run. The lease is bound to it.
func (o *Owner) Order(run string, caller process.ID) (api.MinderOrder, error) {
	<-o.begun
	record, alive, err := o.Minders.Read(run)
	if err != nil {
		return api.MinderOrder{}, err
	}
	if !alive || record.Minder() != caller || record.Boot != o.Boot || !record.Started.IsZero() {
		return api.MinderOrder{}, fmt.Errorf("%w: process %d does not mind it", runs.ErrNoOrder, caller.PID)
	}
	var s *owned
	var life service.Life
	err = o.ask(o.running, func() error {
		for _, each := range o.services {
			if each.life.State == service.Starting && each.life.Instance.Run() == run {
				s, life = each, each.life
				return nil
			}
		}
		return runs.ErrNoOrder
	})
	if err != nil {
		return api.MinderOrder{}, stopped(o, err)
	}
	i := life.Instance
	account, err := o.Account(i.Spec.User, i.Spec.UID)
	var l api.Lease
	if err == nil {
		l, err = o.leases.Hand(o.running, keyOf(i), i.Fence, askFor(&life), caller)
	}
	err = o.ask(o.running, func() error {
		switch {
		case !s.is(i.Number) || s.life.State != service.Starting:
			return runs.ErrNoOrder
		case later.Passes(err): // the minder asks again, until start_timeout is over
			o.set(func() { s.unready = err.Error() })
			return err
		case err != nil:
			why := err.Error()
			if errors.Is(err, runs.ErrNoLease) {
				why = "its lease has ended before it began"
			}
			// Until this is written down, the minder has to ask again: its end would be
			// taken for the cause.
			if err := o.happen(s, service.Fails, service.Facts{}, func(l *service.Life) { l.Fail(why, nil, time.Now()) }); err != nil {
				return err
			}
			return runs.ErrNoOrder
		}
		return o.happen(s, service.Ordered, service.Facts{}, func(l *service.Life) { l.Instance.PID, l.Instance.Ordered = caller.PID, time.Now() })
	})
	if err != nil {
		return api.MinderOrder{}, stopped(o, err)
	}
	return api.MinderOrder{
		Version: api.MinderVersion, Run: run, User: i.Spec.User, UID: i.Spec.UID, Account: &account, Command: i.Words(i.Spec.Command), Directory: i.Spec.Directory,
		Variables: append(i.Words(i.Spec.Environment), "BERTH_SERVICE="+s.name), Umask: 0o022, Lease: l, Log: "berth-" + s.name + ".log", Parts: logParts,
	}, nil
}

// stopped returns the error for callers of an owner that ends, which the next daemon
// answers.
func stopped(o *Owner, err error) error {
	if o.running.Err() != nil {
		return runs.ErrStopped
	}
	return err
}

// LeaseEnded notes that a lease has ended. It does not wait: the ledger calls it.
func (o *Owner) LeaseEnded(fence uint64, why string) {
	o.mu.RLock()
	none := len(o.services) == 0
	o.mu.RUnlock()
	if none { // a service is here before it asks for a lease
		return
	}
	o.post(func() {
		if s := o.holding(fence); s != nil {
			o.lost(s, why)
		}
	})
}

// LeaseMoved notes that a lease was parked or resumed, perhaps by something else than the
// owner. It does not wait: the ledger calls it.
func (o *Owner) LeaseMoved(fence uint64) {
	o.post(func() {
		if s := o.holding(fence); s != nil {
			o.follow(s)
		}
	})
}

// follow takes a service to where the ledger says that its lease is, if the owner has not
// sent it there. One that was brought back is called, as by a person, so that nothing gives
// its return up.
func (o *Owner) follow(s *owned) {
	i := s.life.Instance
	switch parked := o.leases.Parked(keyOf(i), i.Fence); s.life.State {
	case service.Serving, service.Closing:
		if parked {
			o.surely(s, service.Gone, service.Facts{}, func(l *service.Life) {
				l.Instance.Way, l.Why = service.Park, "its lease was parked"
			})
		}
	case service.Parked:
		if !parked {
			o.surely(s, service.Want, service.Facts{}, func(l *service.Life) {
				now := time.Now()
				l.Instance.Asked, l.Called, l.Why = now, now, ""
			})
		}
	}
}

// lost takes in that the lease of a service has ended, perhaps because its program has.
func (o *Owner) lost(s *owned, why string) {
	run, number := s.life.Instance.Run(), s.life.Instance.Number
	o.busy.Go(func() {
		record, alive, err := o.Minders.Read(run)
		o.post(func() {
			switch {
			case !s.is(number) || !s.life.State.Leases():
			case err == nil && !alive:
				o.ended(s, record, "its lease ended before it began: "+why)
			case s.life.State == service.Leaving && s.life.Instance.Way == service.Stop: // it is ending
			default:
				o.fail(s, service.Lost, "its lease has ended: "+why, nil)
			}
		})
	})
}

// recover goes on with what the last daemon left.
func (o *Owner) recover() {
	now := time.Now()
	for _, f := range o.fronts {
		f.until = now.Add(patience)
	}
	for _, d := range o.debts {
		o.pay(d, nil)
	}
	for _, name := range o.names() {
		s := o.services[name]
		s.left = now
		i := s.life.Instance
		if s.life.State == service.Waiting {
			o.acquire(s)
		}
		if !s.life.State.Leases() {
			continue
		}
		o.leases.Claim(keyOf(i), i.Fence)
		if _, stands := o.leases.Stands(keyOf(i), i.Fence); !stands {
			o.lost(s, "it ended while the daemon was away")
		}
		o.look(s, "")
		switch {
		case s.life.State == service.Starting && !i.Ordered.IsZero():
			o.probe(s)
		case s.life.State == service.Leaving && i.Way == service.Park:
			o.park(s)
		case s.life.State == service.Leaving && i.Way == service.Sleep:
			o.sleep(s)
		case s.life.State == service.Leaving:
			o.end(s)
		case s.life.State == service.Returning && i.Way == service.Park:
			o.resume(s)
		case s.life.State == service.Returning:
			o.wake(s)
		default:
			o.follow(s)
		}
	}
	o.removeOldRuns()
}

// removeOldRuns removes the records of runs that no service is in, now and then: a minder
// that begins after its service was given up leaves one.
func (o *Owner) removeOldRuns() {
	o.after(tidyAfter, o.removeOldRuns)
	o.busy.Go(func() {
		names, err := o.Minders.List()
		if err != nil {
			o.Log.Warn("the records of runs cannot be listed", "error", err)
		}
		o.post(func() {
			for _, s := range o.services {
				if s.life.Instance != nil {
					names = slices.DeleteFunc(names, func(name string) bool { return name == s.life.Instance.Run() })
				}
			}
			o.busy.Go(func() { // what is left of them may take long to end
				for _, name := range names {
					if _, alive, err := o.Minders.Read(name); err == nil && !alive && o.running.Err() == nil {
						_ = o.Minders.Remove(name) // else the next start does
					}
				}
			})
		})
	})
}
