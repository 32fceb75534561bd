// Package run runs the programs of jobs and of services.
//
// It asks for their leases, starts their minders, gives those their orders, notices how the
// programs end, and ends them.
//
// A book keeps what the runs are for, and decides: it tells Runs what to do, and is told
// what happens as values, one at a time. Nothing here is written down: a daemon that starts
// learns from its book which runs there are, and from their records what became of them.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Leases is the way of runs to leases, which goes through the desk.
type Leases interface {
	// Acquire asks for a lease, and waits in the queue until it is granted or refused, or
	// ctx ends. Asked again after a restart, it finds the lease that was granted before. It
	// returns ErrWaited if the longest wait of its user is over.
	Acquire(ctx context.Context, a Ask) (api.Lease, error)
	// Hand binds a lease to the minder of its run, and returns it with everything that a
	// launcher needs. It fails with runs.ErrNoLease if the lease has ended, and otherwise
	// with an error that passes.
	Hand(ctx context.Context, a Ask, fence uint64, minder process.ID) (api.Lease, error)
	// End tells the programs of a lease to end, and the ledger sees to it that they do. It
	// fails with runs.ErrNoLease if the lease has ended: then it ends nothing.
	End(k lease.Key, fence uint64, by access.Actor, why string) error
	// Release gives a lease back, if it still stands. A fence of zero means any.
	Release(k lease.Key, fence uint64, why string)
	// Claim notes that the lease with a fence is for the run in a key, if an earlier berth
	// has not, and reports whether it stands.
	Claim(k lease.Key, fence uint64) (stands bool)
	// List lists the leases for runs of a kind; of none: those of users, and those of which an
	// earlier berth did not say that they are for runs.
	List(kind lease.RunKind) []Held
}

// Ask is the request of a run for its lease.
type Ask struct {
	Key     lease.Key
	User    string // of the run
	Name    string // of its holder, for people
	Request api.LeaseRequest
	Since   time.Time // since when it waits
}

// Held is the lease of a run.
type Held struct {
	Key   lease.Key
	Fence uint64
	Bound bool // it is bound to a process, with which it ends
}

// ErrWaited means that a request has waited as long as it may.
var ErrWaited = errors.New("it waited too long")

// Minders starts minders and reads what they wrote.
type Minders interface {
	// Start returns the process that it has started, which may have ended already.
	Start(ctx context.Context, run string, most runs.Limits) (process.ID, error)
	Read(run string) (record runs.Record, alive bool, err error)
	Remove(run string) error
	// Kill ends a minder, and its command with it; process.ErrGone if it had ended.
	Kill(minder process.ID) error
	// List returns the names of the runs that have a record.
	List() ([]string, error)
	// Watch calls ended once the process has ended, see process.Table.
	Watch(id process.ID, ended func()) (stop func(), err error)
}

// Book keeps what runs are for. Its functions are called by several goroutines.
type Book interface {
	// Happened takes in what has happened. If it cannot take in the end of a run now, it
	// returns after how long to tell it again.
	Happened(e Event) (again time.Duration)
	// Due takes in what the book has left for itself, with Runs.Send, After or Set.
	Due(note any)
	// Order returns what the minder of a run has to run, or why there is nothing for it.
	Order(run string) (Order, error)
	// Ordered takes in that a minder gets its order, or why it does not: an AccountError, or
	// an error of Leases.Hand. What it returns is for the minder: runs.ErrNoOrder means that
	// it has to end, and after any other error it asks again.
	Ordered(run string, minder process.ID, why error) error
}

// Order is what a minder has to run, but for its account and its lease.
type Order struct {
	api.MinderOrder
	Ask   Ask
	Fence uint64
}

// AccountError says why the account of the user of a run is not known.
type AccountError struct{ Err error }

func (e *AccountError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *AccountError) Unwrap() error { return e.Err }

// Event is what has happened to a run, or to the request for its lease.
type Event struct {
	What What
	Key  lease.Key
	Run  string // its name; empty for a request

	Lease  api.Lease   // Granted
	Record runs.Record // Lives, and Ended as far as it says so
	Err    error       // Refused, Unstarted, Unended
	Why    string      // Lost, Unstarted, and Ended if its minder had not begun
	Bereft string      // Ended: why its minder was killed because its lease had ended; empty: it was not
}

// What says what has happened.
type What string

// What can happen.
const (
	Granted   What = "granted"   // the ledger granted its lease
	Refused   What = "refused"   // the ledger does not grant it
	Left      What = "left"      // it has left the queue, see Leave
	Unstarted What = "unstarted" // no minder could be started
	Lives     What = "lives"     // its minder lives
	Lost      What = "lost"      // its lease has ended, and its minder lives; Runs is about to end that
	Unended   What = "unended"   // its programs cannot be told to end yet
	Ended     What = "ended"     // its minder has ended, and its program
	Forgotten What = "forgotten" // its lease is given back, and its record is gone
)

// Options are the options of New.
type Options struct {
	Kind    lease.RunKind
	Boot    string // of the machine
	Minders Minders
	// Account looks a user up. After an error that passes a minder asks again.
	Account func(user string, uid int) (api.MinderAccount, error)
	Log     *slog.Logger
}

// Runs runs programs. Whatever takes time, it does beside its loop.
type Runs struct {
	Options
	*Loop
	book   Book
	leases Leases          // set by Begin
	ctx    context.Context // likewise
	busy   sync.WaitGroup

	mu    sync.Mutex // guards what follows
	runs  map[string]*active
	fence map[uint64]*active
	asked map[lease.Key]*request      // that wait, or were granted and have not started
	owed  map[lease.Key]chan struct{} // closed when the lease with the key was given back

	watched map[process.ID]bool // minders whose ends will be noticed; for the loop alone
}

// Run is one run of a program.
type Run struct {
	Name   string // of its record
	Key    lease.Key
	Fence  uint64
	Since  time.Time // when its lease was granted
	Limits runs.Limits
	Begun  bool // its minder has had its order, or is not to get one
}

// active is a run that was not forgotten.
type active struct {
	Run       // only Begun changes, with Runs.mu held
	over bool // the book has taken in its end; guarded by Runs.mu

	// These are for the loop alone.
	why        string // why it ended, if its minder has not begun
	unstarted  error  // why no minder could be started
	lost       bool   // its lease has ended
	bereft     string // why its minder was killed
	told       bool   // that its programs cannot be ended
	inspecting *Timer
	end        *Timer
}

// request is a request that waits.
type request struct {
	leave context.CancelFunc
	left  bool
	done  chan struct{} // closed when it was answered
}

const (
	// inspectAfter is when a minder is looked at again that has locked its record and has not
	// written it, and how long one whose lease has ended has to write down how its command
	// did.
	inspectAfter = 3 * time.Second
	// beginWithin is how long a minder may take to ask for its order.
	beginWithin = 30 * time.Second
	// brokenPause is how long it takes until what failed is tried again.
	brokenPause = 5 * time.Second
	// tidyEvery is how often records that nobody needs are removed.
	tidyEvery = time.Hour
)

// New returns the runs of a book.
func New(o Options, b Book) *Runs {
	r := &Runs{
		Options: o, book: b, runs: map[string]*active{}, fence: map[uint64]*active{}, asked: map[lease.Key]*request{}, owed: map[lease.Key]chan struct{}{},
		watched: map[process.ID]bool{},
	}
	r.Loop = newLoop(r.takeIn)
	return r
}

// Begin says how to come to leases, until ctx ends. The book then says which runs there are,
// and calls Go.
func (r *Runs) Begin(ctx context.Context, l Leases) { r.ctx, r.leases = ctx, l }

// Go tells the book what happens until the context of Begin ends. Programs are left alone.
func (r *Runs) Go() {
	r.Send(tidy{})
	r.run(r.ctx)
}

// Wait waits for what takes time, after Go. Nobody may ask for more meanwhile.
func (r *Runs) Wait() { r.busy.Wait() }

// What the loop takes in, besides notes of the book.
type (
	answered struct {
		key   lease.Key
		of    *request
		lease api.Lease
		err   error
	}
	started struct {
		of  *active
		id  process.ID
		err error
	}
	inspect struct{ of *active }
	resumed struct{ of *active }
	unasked struct{ of *active }
	bereave struct {
		of  *active
		why string
	}
	minderOver struct {
		run string
		id  process.ID
	}
	leaseOver struct {
		fence uint64
		why   string
	}
	end struct {
		of  *active
		by  access.Actor
		why string
	}
	toldToEnd struct {
		end
		err error
	}
	forgotten struct {
		key lease.Key
		run string
	}
	tidy struct{}
)

func (r *Runs) takeIn(message any) {
	switch m := message.(type) {
	case answered:
		r.answered(m)
	case started:
		r.started(m)
	case resumed:
		r.resumed(m.of)
	case unasked:
		if r.has(m.of) && !r.begun(m.of) {
			m.of.why = cmp.Or(m.of.why, "its minder did not begin within "+words.Duration(beginWithin))
			r.inspect(m.of)
		}
	case inspect:
		r.inspect(m.of)
	case minderOver:
		r.minderOver(m)
	case leaseOver:
		r.leaseOver(m)
	case bereave:
		r.bereave(m)
	case end:
		r.end(m)
	case toldToEnd:
		r.toldToEnd(m)
	case forgotten:
		r.book.Happened(Event{What: Forgotten, Key: m.key, Run: m.run})
	case tidy:
		r.After(tidyEvery, tidy{})
		r.busy.Go(r.Tidy)
	default:
		r.book.Due(message)
	}
}

// has reports whether a run was not forgotten, and its end not taken in.
func (r *Runs) has(a *active) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs[a.Name] == a && !a.over
}

func (r *Runs) begun(a *active) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return a.Begun
}

// tell tells the book what has happened to a run.
func (r *Runs) tell(a *active, e Event) (again time.Duration) {
	e.Key, e.Run = a.Key, a.Name
	return r.book.Happened(e)
}

// Ask asks for a lease. The book hears whether it is granted.
func (r *Runs) Ask(a Ask) {
	ctx, leave := context.WithCancel(context.WithoutCancel(r.ctx)) // the ledger ends it with itself
	q := &request{leave: leave, done: make(chan struct{})}
	r.mu.Lock()
	owed := r.owed[a.Key]
	r.asked[a.Key] = q
	r.mu.Unlock()
	r.busy.Go(func() {
		defer leave()
		if owed != nil { // or it would find the lease that is about to be given back
			<-owed
		}
		l, err := r.leases.Acquire(ctx, a)
		close(q.done)
		r.Send(answered{a.Key, q, l, err})
	})
}

// Leave gives a request up. The book hears when it has left the queue, unless it was granted
// or refused before.
func (r *Runs) Leave(k lease.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.asked[k]; q != nil {
		q.left = true
		q.leave()
	}
}

func (r *Runs) answered(m answered) {
	r.mu.Lock()
	if r.asked[m.key] != m.of { // it was forgotten
		r.mu.Unlock()
		return
	}
	left := m.of.left
	if left || m.err != nil { // else until Start or Forget, see Tidy
		delete(r.asked, m.key)
	}
	r.mu.Unlock()
	switch {
	case left:
		r.giveBack(m)
		r.book.Happened(Event{What: Left, Key: m.key})
	case m.err != nil:
		r.giveBack(m)
		r.book.Happened(Event{What: Refused, Key: m.key, Err: m.err})
	default:
		r.book.Happened(Event{What: Granted, Key: m.key, Lease: m.lease})
	}
}

// giveBack gives back what a request was granted for which nobody waits any more.
func (r *Runs) giveBack(m answered) {
	if m.lease.ID != "" {
		r.forget(Run{Key: m.key, Fence: m.lease.Fence}, nil, "nobody waits for it any more")
	}
}

// add takes a run in.
func (r *Runs) add(run Run) *active {
	a := &active{Run: run}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.asked, run.Key)
	r.runs[run.Name], r.fence[run.Fence] = a, a
	return a
}

// Start starts a minder for a run that has its lease.
func (r *Runs) Start(run Run) { r.launch(r.add(run)) }

func (r *Runs) launch(a *active) {
	r.busy.Go(func() {
		id, err := r.Minders.Start(r.ctx, a.Name, a.Limits)
		r.Send(started{a, id, err})
	})
}

// started takes in that a minder was started, or could not be. One that lives in spite of an
// error goes on.
func (r *Runs) started(m started) {
	if m.err == nil {
		r.watch(m.of, m.id)
		r.After(beginWithin, unasked{m.of})
		return
	}
	r.Log.Warn("a minder could not be started", "run", m.of.Key.ID, "error", m.err)
	if !r.has(m.of) {
		return
	}
	m.of.why, m.of.unstarted = "no minder could be started: "+m.err.Error(), m.err
	r.inspect(m.of)
}

// Resume goes on with a run that an earlier daemon has begun.
func (r *Runs) Resume(run Run) { r.Send(resumed{r.add(run)}) }

func (r *Runs) resumed(a *active) {
	stands := r.leases.Claim(a.Key, a.Fence)
	if !r.has(a) {
		return
	}
	record, alive, err := r.read(a)
	switch {
	case err != nil: // nobody knows whether a minder was started
		r.Log.Warn("the record of a run cannot be read", "run", a.Key.ID, "error", err)
		r.After(brokenPause, resumed{a})
		return
	case !alive && record.PID == 0 && !r.begun(a):
		r.launch(a) // nothing says that a minder was started
		return
	case !stands && r.begun(a):
		r.leaseOver(leaseOver{a.Fence, ""})
	}
	r.inspect(a)
}

// read reads the record of a run. One of a run that had its name before the state was
// restored is none: its fence says so, and of a command that was not started its time, for a
// clock may be set back.
func (r *Runs) read(a *active) (record runs.Record, alive bool, err error) {
	record, alive, err = r.Minders.Read(a.Name)
	if record.Fence != a.Fence && (record.Fence != 0 || !record.Ended.IsZero() && record.Ended.Before(a.Since)) {
		return runs.Record{}, false, err
	}
	return record, alive, err
}

// inspect reads what became of a run. If its minder lives, it watches that; if not, it
// tells the book of the end.
func (r *Runs) inspect(a *active) {
	if !r.has(a) {
		return
	}
	record, alive, err := r.read(a)
	switch {
	case err != nil:
		r.Log.Warn("the record of a run cannot be read", "run", a.Key.ID, "error", err)
		r.inspectIn(a, brokenPause)
	case alive && record.PID != 0:
		r.watch(a, record.Minder())
		r.tell(a, Event{What: Lives, Record: record})
	case alive:
		r.inspectIn(a, inspectAfter) // it has locked the record, and writes it at once
	case a.unstarted != nil && record.PID == 0:
		r.finish(a, Event{What: Unstarted, Err: a.unstarted, Why: a.why})
	default:
		r.finish(a, Event{What: Ended, Record: record, Why: a.why, Bereft: a.bereft})
	}
}

func (r *Runs) inspectIn(a *active, d time.Duration) {
	r.Set(&a.inspecting, time.Now().Add(d), inspect{a})
}

// finish tells the book that a run is over, until it has taken that in.
func (r *Runs) finish(a *active, e Event) {
	if again := r.tell(a, e); again > 0 {
		r.inspectIn(a, again)
		return
	}
	r.mu.Lock()
	a.over = true
	r.mu.Unlock()
	r.Stop(a.inspecting)
	r.Stop(a.end)
}

// watch has the end of a minder noticed.
func (r *Runs) watch(a *active, id process.ID) {
	if r.watched[id] {
		return
	}
	over := minderOver{a.Name, id}
	_, err := r.Minders.Watch(id, func() { r.Send(over) })
	switch {
	case err == nil:
		r.watched[id] = true
	case errors.Is(err, process.ErrGone):
		r.Send(over)
	default: // too many open files, perhaps
		r.After(brokenPause, over)
	}
}

// minderOver takes in that a minder has ended, or was perhaps not watched.
func (r *Runs) minderOver(m minderOver) {
	delete(r.watched, m.id)
	r.mu.Lock()
	a := r.runs[m.run]
	r.mu.Unlock()
	if a == nil { // its run was over before it began
		r.busy.Go(func() { // what is left of it may take long to end
			if record, alive, err := r.Minders.Read(m.run); err == nil && !alive && record.PID != 0 {
				_ = r.Minders.Remove(m.run) // else tidy does
			}
		})
		return
	}
	a.why = cmp.Or(a.why, "its minder ended before it began")
	r.inspect(a)
}

// LeaseEnded notes that a lease has ended. It does not wait: the ledger calls it.
func (r *Runs) LeaseEnded(fence uint64, why string) {
	r.mu.Lock()
	_, ours := r.fence[fence]
	r.mu.Unlock()
	if ours {
		r.Send(leaseOver{fence, why})
	}
}

// leaseOver takes in that the lease of a run has ended, perhaps because its program has.
// Where the run goes on, it is ended: nothing limits it any more.
func (r *Runs) leaseOver(m leaseOver) {
	r.mu.Lock()
	a := r.fence[m.fence]
	r.mu.Unlock()
	if a == nil || !r.has(a) || a.lost {
		return
	}
	record, alive, err := r.read(a)
	switch {
	case err != nil:
		r.After(brokenPause, m)
	case !alive && (record.PID != 0 || r.begun(a)):
		r.inspect(a)
	case !alive: // its minder asks for an order in vain
		a.why = "its lease ended before it began"
	default:
		a.lost = true
		r.After(inspectAfter, bereave{a, m.why}) // one whose command ended with the lease writes that down first
		r.tell(a, Event{What: Lost, Record: record, Why: m.why})
	}
}

// bereave ends the minder of a run whose lease has ended, and its command with it.
func (r *Runs) bereave(m bereave) {
	if !r.has(m.of) {
		return
	}
	record, alive, err := r.read(m.of)
	if err == nil && (!alive || record.PID == 0) { // its end is noticed, or it asks for an order in vain
		return
	}
	if err == nil {
		err = r.Minders.Kill(record.Minder())
	}
	switch {
	case err == nil:
		m.of.bereft = cmp.Or(m.why, "its lease had ended")
	case !errors.Is(err, process.ErrGone): // else it ended first, and the lease with it
		r.Log.Warn("a minder whose lease has ended cannot be ended", "run", m.of.Key.ID, "error", err)
		r.After(brokenPause, m)
	}
}

// End ends the programs of a run. What cannot be told to end now is told again, until the
// run has ended.
func (r *Runs) End(name string, by access.Actor, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.runs[name]; a != nil {
		r.Send(end{a, by, why})
	}
}

func (r *Runs) end(m end) {
	if r.has(m.of) {
		r.busy.Go(func() { r.Send(toldToEnd{m, r.leases.End(m.of.Key, m.of.Fence, m.by, m.why)}) })
	}
}

// toldToEnd takes in that the programs of a run were told to end, or could not be.
func (r *Runs) toldToEnd(m toldToEnd) {
	a := m.of
	if !r.has(a) {
		return
	}
	again := func(d time.Duration) { r.Set(&a.end, time.Now().Add(d), m.end) }
	record, alive, unread := r.read(a)
	switch {
	case unread != nil:
		again(brokenPause)
	case !alive:
		a.why = cmp.Or(a.why, "no minder has begun")
		r.inspect(a)
	case record.PID == 0:
		again(inspectAfter)
	case record.Started.IsZero():
		// A lease that is not bound to the minder yet ends no program, and a command that
		// has not begun loses nothing.
		r.bereave(bereave{a, ""})
		again(brokenPause)
	case errors.Is(m.err, runs.ErrNoLease):
		r.leaseOver(leaseOver{a.Fence, ""})
	case m.err != nil:
		if !a.told {
			a.told = true
			r.tell(a, Event{What: Unended, Err: m.err})
		}
		again(brokenPause)
	}
}

// Forget gives the lease of a run back and removes its record. A request for the lease is
// given up. The book hears when that is done.
func (r *Runs) Forget(run Run, why string) {
	r.mu.Lock()
	if a := r.runs[run.Name]; a != nil {
		delete(r.runs, run.Name)
		delete(r.fence, a.Fence)
		a.over = true
	}
	q := r.asked[run.Key]
	if q != nil {
		delete(r.asked, run.Key)
		q.leave()
	}
	r.mu.Unlock()
	r.forget(run, q, why)
}

// forget gives a lease back, once the request for it was answered.
func (r *Runs) forget(run Run, q *request, why string) {
	done := make(chan struct{})
	r.mu.Lock()
	before := r.owed[run.Key]
	r.owed[run.Key] = done
	r.mu.Unlock()
	r.busy.Go(func() {
		if before != nil {
			<-before
		}
		if q != nil {
			<-q.done
		}
		r.leases.Release(run.Key, run.Fence, why)
		r.mu.Lock()
		if r.owed[run.Key] == done {
			delete(r.owed, run.Key)
		}
		r.mu.Unlock()
		close(done)
		if run.Name != "" { // what is left of it may take long to end
			if err := r.Minders.Remove(run.Name); err != nil {
				r.Log.Warn("the record of a run cannot be removed", "run", run.Key.ID, "error", err)
			}
		}
		r.Send(forgotten{run.Key, run.Name})
	})
}

// Tidy removes the records of runs that are none of the book, and gives back leases that no
// run has, which a daemon left that was killed before it could, or whose book has lost them.
// What a process has ends with it.
func (r *Runs) Tidy() {
	for _, held := range r.leases.List(r.Kind) {
		r.mu.Lock()
		idle := r.fence[held.Fence] == nil && r.asked[held.Key] == nil && r.owed[held.Key] == nil
		r.mu.Unlock()
		if idle && !held.Bound {
			r.leases.Release(held.Key, held.Fence, "no run has it")
		}
	}
	names, err := r.Minders.List()
	if err != nil {
		r.Log.Warn("the records of runs cannot be listed", "error", err)
	}
	for _, name := range names {
		r.mu.Lock()
		known := r.runs[name] != nil
		r.mu.Unlock()
		if _, alive, err := r.Minders.Read(name); !known && err == nil && !alive && r.ctx.Err() == nil {
			_ = r.Minders.Remove(name) // else later
		}
	}
}

// Order returns what a minder has to run. Caller is the process that asks; it must be the
// one that has locked the record of the run. The lease is bound to it.
func (r *Runs) Order(name string, caller process.ID) (api.MinderOrder, error) {
	record, alive, err := r.Minders.Read(name)
	if err != nil {
		return api.MinderOrder{}, err
	}
	if !alive || record.Minder() != caller || record.Boot != r.Boot || !record.Started.IsZero() {
		return api.MinderOrder{}, fmt.Errorf("%w: process %d does not mind it", runs.ErrNoOrder, caller.PID)
	}
	o, err := r.book.Order(name)
	if err != nil {
		return api.MinderOrder{}, err
	}
	account, unknown := r.Account(o.User, o.UID)
	if unknown != nil {
		err = &AccountError{unknown}
	} else {
		o.Lease, err = r.leases.Hand(r.ctx, o.Ask, o.Fence, caller)
	}
	if err := r.book.Ordered(name, caller, err); err != nil {
		return api.MinderOrder{}, err
	}
	r.mu.Lock()
	if a := r.runs[name]; a != nil {
		a.Begun = true
	}
	r.mu.Unlock()
	o.Version, o.Run, o.Account = api.MinderVersion, name, &account
	return o.MinderOrder, nil
}
