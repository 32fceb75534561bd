package owner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/job/run"
	"github.com/berth-gpu/berth/internal/job/service"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/text/words"
	"github.com/berth-gpu/berth/internal/when/later"
)

const (
	// followAgain is when a log is read again whose reader has ended.
	followAgain = 3 * time.Second
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
	// startedPause is how often a record is read until it says that the command has begun.
	startedPause = 100 * time.Millisecond
)

// act does what follows from an event.
func (o *Owner) act(s *owned, a service.Act) {
	switch a {
	case service.Acquire:
		o.runs.Ask(askFor(&s.life))
	case service.Launch:
		o.runs.Start(runOf(s.life.Instance))
	case service.Probe:
		o.probe(s)
	case service.Open:
		o.dismiss(s, opened(s))
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
		// It is a leftover.
	case service.Refuse:
		o.refuse(s, failed(s.name, s.life.Failure))
	}
}

// beside does something that takes time, and then, while nobody else decides, what it
// returns, if nothing has happened to the service meanwhile. Its context ends when
// something happens to the service.
func (o *Owner) beside(s *owned, work func(context.Context) func()) {
	if s.during == nil {
		s.during, s.cancel = context.WithCancel(o.running)
	}
	ctx, cancel := context.WithCancel(s.during)
	turn := s.turn
	o.busy.Go(func() {
		then := work(ctx)
		_ = o.decide(func() error {
			if cancel(); s.turn == turn && then != nil {
				then()
			}
			return nil
		})
	})
}

// fail lets a service fail that comes, or comes back.
func (o *Owner) fail(s *owned, e service.Event, why string, lines []string) {
	o.surely(s, e, service.Facts{}, func(l *service.Life) { l.Fail(why, lines, time.Now()) })
}

// Happened implements run.Book.
func (o *Owner) Happened(e run.Event) (again time.Duration) {
	_ = o.decide(func() error {
		s := o.serviceOf(e.Key)
		if s == nil {
			if e.What == run.Forgotten {
				o.forgotten(e.Key)
			}
			return nil
		}
		switch e.What {
		case run.Granted:
			o.granted(s, e.Lease)
		case run.Refused:
			if s.life.State == service.Waiting {
				o.refused(s, e.Err)
			}
		case run.Lives:
			o.noteLog(s, e.Record.Output)
		case run.Unended:
			o.Log.Warn("the programs of a service could not be ended", "service", s.name, "error", e.Err)
		case run.Lost:
			if s.life.State != service.Leaving || s.life.Instance.Way != service.Stop { // else it is ending
				o.fail(s, service.Lost, strings.TrimSuffix("its lease has ended: "+e.Why, ": "), nil)
			}
		case run.Unstarted, run.Ended:
			o.ended(s, e.Record, e.Why, e.Record.Short || runs.IsShort(e.Err))
			again = brokenPause // until that is written down, and the run is forgotten
		}
		return nil
	})
	return again
}

// granted takes in that a service has got its lease. Its server needs a port.
func (o *Owner) granted(s *owned, l api.Lease) {
	given := s.life.Instance.Spec.Port
	o.beside(s, func(ctx context.Context) func() {
		port := given
		for port == 0 {
			free, none := o.FreePort()
			switch {
			case none == nil && !o.takenPort(free):
				port = free
			case none != nil && !pause(ctx, brokenPause): // it is no fault of the service
				return nil
			}
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

// refused takes in that a service gets no lease, or asks again if that passes.
func (o *Owner) refused(s *owned, err error) {
	if !later.Passes(err) {
		o.fail(s, service.Refused, "it got no lease: "+err.Error(), nil)
		return
	}
	o.set(func() { s.unready = err.Error() })
	o.beside(s, func(ctx context.Context) func() {
		if !pause(ctx, later.After(err, brokenPause)) {
			return nil
		}
		return func() {
			o.set(func() { s.unready = "" })
			o.runs.Ask(askFor(&s.life))
		}
	})
}

// insist does something for a turn of a service again as long as it fails in a way that
// passes, until ctx ends. Meanwhile people read why.
func (o *Owner) insist(ctx context.Context, s *owned, turn int, do func() error) error {
	for {
		err := do()
		why := ""
		if later.Passes(err) {
			why = err.Error()
		}
		_ = o.decide(func() error {
			if s.turn == turn {
				o.set(func() { s.unready = why })
			}
			return nil
		})
		if why == "" || !pause(ctx, later.After(err, brokenPause)) {
			return err
		}
	}
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

// clear gives a lease back and forgets a run.
func (o *Owner) clear(d leftover) {
	o.runs.Forget(run.Run{Name: d.Run, Key: d.keyOf(), Fence: d.Fence}, "the program of its service has ended, or is not needed")
}

// forgotten takes in that a lease was given back.
func (o *Owner) forgotten(k lease.Key) {
	for _, d := range o.leftovers {
		if d.keyOf() == k {
			o.cleared(d)
		}
	}
}

// cleared notes that nothing is left of a run any more.
func (o *Owner) cleared(d leftover) {
	var rest []leftover
	for _, other := range o.leftovers {
		if other.Lease != d.Lease {
			rest = append(rest, other)
		}
	}
	if err := o.write(nil, nil, rest); err != nil {
		o.runs.After(brokenPause, cleared{d})
	}
}

// is reports whether the service still is in this run.
func (s *owned) is(number int64) bool {
	return s.life.Instance != nil && s.life.Instance.Number == number
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
// not live. Short says that the machine was short of something and could not start the
// program: the service has not failed, and comes again.
func (o *Owner) ended(s *owned, record runs.Record, unbegun string, short bool) {
	number, spec, path := s.life.Instance.Number, s.life.Instance.Spec, record.Output
	why := endOf(record, unbegun)
	rebooted := record.Boot != "" && record.Boot != o.Boot || record.Shutdown
	o.busy.Go(func() {
		lines := o.lines(&spec, path)
		_ = o.decide(func() error {
			if !s.is(number) {
				return nil
			}
			at := o.situation(s, time.Now())
			f := service.Facts{Expected: short || rebooted || s.life.MustGo(&at) != ""}
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
			if short {
				s.rests = time.Now().Add(brokenPause)
				o.set(func() { s.unready = why })
			}
			return nil
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
	case record.PID == 0 && unbegun != "":
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
		_ = o.decide(func() error {
			if s.is(number) {
				o.noteLog(s, path)
			}
			return nil
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
	for again := true; again; again = !found && pause(ctx, followAgain) {
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
	k, fence, turn := keyOf(s.life.Instance), s.life.Instance.Fence, s.turn
	o.beside(s, func(ctx context.Context) func() {
		took := time.Duration(0)
		err := o.insist(ctx, s, turn, func() (err error) {
			took, err = o.leases.Resume(ctx, k, fence, "somebody asks for "+s.name)
			return err
		})
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
	k, fence, turn := keyOf(&i), i.Fence, s.turn
	o.beside(s, func(ctx context.Context) func() {
		began := time.Now()
		err := o.call(ctx, epoch, &i, i.Spec.Sleep)
		var left gpu.MiB
		if err == nil {
			left, err = o.measureFreed(ctx, &i)
		}
		if err == nil {
			err = o.insist(ctx, s, turn, func() error { return o.leases.Shrink(ctx, k, fence, left) })
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
		if err := o.insist(ctx, s, turn, func() error { return o.leases.Grow(ctx, keyOf(&i), i.Fence, i.Memory, i.Asked) }); err != nil {
			if ctx.Err() != nil {
				return func() { o.withdrawn(s, service.Sleep) }
			}
			return func() { o.fail(s, service.Fails, "its memory could not be leased again: "+err.Error(), nil) }
		}
		stays := false
		_ = o.decide(func() error {
			if stays = s.turn == turn; stays {
				o.set(func() { s.growing = false })
			}
			return nil
		})
		if !stays { // it has to go, and is about to end
			return nil
		}
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

// end ends the programs of a service.
func (o *Owner) end(s *owned) {
	if s.ending.IsZero() || s.ending.Before(s.life.Since) {
		s.ending = time.Now()
	}
	o.runs.End(s.life.Instance.Run(), access.Daemon(), s.life.Why)
}

// Runs returns the runs of services.
func (o *Owner) Runs() *run.Runs { return o.runs }

// starting returns the service that starts in a run.
func (o *Owner) starting(name string) *owned {
	for _, s := range o.services {
		if s.life.State == service.Starting && s.life.Instance.Run() == name {
			return s
		}
	}
	return nil
}

// Order implements run.Book.
func (o *Owner) Order(name string) (order run.Order, err error) {
	err = o.decide(func() error {
		s := o.starting(name)
		if s == nil {
			return runs.ErrNoOrder
		}
		i := s.life.Instance
		order = run.Order{Ask: askFor(&s.life), Fence: i.Fence, MinderOrder: api.MinderOrder{
			User: i.Spec.User, UID: i.Spec.UID, Command: i.Words(i.Spec.Command), Directory: i.Spec.Directory,
			Variables: append(i.Words(i.Spec.Environment), "BERTH_SERVICE="+s.name), Umask: 0o022, Log: "berth-" + s.name + ".log", Parts: logParts,
		}}
		return nil
	})
	return order, err
}

// Ordered implements run.Book.
func (o *Owner) Ordered(name string, minder process.ID, err error) error {
	return o.decide(func() error {
		s := o.starting(name)
		switch {
		case s == nil:
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
		return o.happen(s, service.Ordered, service.Facts{}, func(l *service.Life) { l.Instance.PID, l.Instance.Ordered = minder.PID, time.Now() })
	})
}

// LeaseMoved notes that a lease was parked or resumed, perhaps by something else than the
// owner. It does not wait: the ledger calls it.
func (o *Owner) LeaseMoved(fence uint64) { o.runs.Send(moved{fence}) }

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

// recover goes on with what the last daemon left.
func (o *Owner) recover() {
	now := time.Now()
	for _, f := range o.fronts {
		f.until = now.Add(patience)
	}
	for _, d := range o.leftovers {
		o.clear(d)
	}
	for _, name := range o.names() {
		s := o.services[name]
		s.left = now
		i := s.life.Instance
		if s.life.State == service.Waiting {
			o.runs.Ask(askFor(&s.life))
		}
		if !s.life.State.Leases() {
			continue
		}
		again := runOf(i)
		again.Begun = s.life.State != service.Starting || !i.Ordered.IsZero()
		o.runs.Resume(again)
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
}
