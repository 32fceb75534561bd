// Package keeper keeps the jobs of users: it writes them down, lets their tasks into the
// queue of leases, starts minders, and notices how they end.
//
// Every change is decided by package job, written to the journal, and only then made and
// acted upon. A daemon that was killed in between finds the state and acts again. One
// goroutine at a time changes jobs; nobody who reads them waits for a disk.
package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file/fault"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/job"
	"github.com/berth-gpu/berth/internal/job/run"
	"github.com/berth-gpu/berth/internal/lease"
)

// Leases is the keeper's way to leases, which goes through the desk.
type Leases interface {
	run.Leases
	// Signal sends a signal to the programs of a lease, but not to a minder, and Ends returns
	// when its time limit does that for good; false if it has none, or if that stands still.
	Signal(k lease.Key, fence uint64, minder int, signal string)
	Ends(k lease.Key, fence uint64) (time.Time, bool)
	// Learn completes the outcome of a run with what was measured, and the task with its
	// figures. It returns false if a measurement of its devices after its end, which may
	// say why it failed, is about to come.
	Learn(s *job.Spec, id string, o *job.Outcome, t *job.Task) (complete bool)
	// Taken reports whether a lease or a request of its user has the id of a job.
	Taken(s *job.Spec) bool
}

// Limits are what one user may have. What is absent has no limit.
type Limits struct {
	Running gpu.Opt[int] // tasks that have a lease, or wait in the queue of leases
	Waiting gpu.Opt[int] // tasks that have not begun
	Off     bool         // no task begins
	Passing bool         // the user database does not answer: they are the strictest, until it does
}

// full reports whether no more of the tasks of a user may be in the queue of leases.
func (l Limits) full(u *user) bool { return l.Off || u.busy+u.queued >= l.Running.Or(math.MaxInt) }

// Options are the options of Open.
type Options struct {
	Folder  string // for the environments; the folder around it must be there
	Boot    string // of the machine
	Minders run.Minders
	Numbers func() (int64, error) // of jobs
	// Limits may wait for a user database, so nobody calls it with a lock.
	Limits func(uid int, user string) Limits
	// Account looks a user up. After an error that passes a minder asks again.
	Account func(user string, uid int) (api.MinderAccount, error)
	Publish func(gpu.Event)
	Log     *slog.Logger

	// Open opens the journal and hands every entry in it to replay.
	Open func(replay func(journal.Entry) error) (journal.Journal, error)
}

// Keeper keeps jobs.
type Keeper struct {
	Options
	environments environments

	// writing is held by whoever changes a job, from the decision until the change is in
	// the journal and made. It is taken before mu.
	writing sync.Mutex
	journal journal.Writer
	leases  Leases          // nil before Run
	running context.Context // of Run; nil before
	begun   chan struct{}   // closed when Run has begun; whoever asks for a change before waits
	closing bool            // Run is about to end
	runs    *run.Runs

	mu sync.RWMutex // guards what follows, for readers; changed only while writing is held
	state

	stirs   sync.Mutex     // guards what follows
	stirred map[int64]bool // jobs that have ended, or tasks of theirs: those that wait for them are to be looked at; nil: nobody looks

	overran    sync.Map       // ids of tasks that have reached their time limit; see Overran
	busy       sync.WaitGroup // goroutines that do what takes time
	compacting atomic.Bool

	// These are guarded by writing.
	tidying      *run.Timer // tells when to tidy
	tidyAt       int        // how many tasks that have ended are too many
	looked       time.Time  // when ages were looked at
	lookedBefore time.Time  // … and at least an hour earlier
	rewrite      bool       // the clock was set, so that the times in the journal are not those of the jobs
}

// state is all jobs.
type state struct {
	jobs      map[int64]*kept // that have not ended
	past      map[int64]*past // that have
	numbers   []int64         // of all jobs, in ascending order
	users     map[int]*user
	waitedFor map[int64][]int64 // by job: the jobs that wait for it, in ascending order, until it is written down that they may begin
	ended     []*past           // jobs that have ended, in the order of their ends
	endedSum  int               // their tasks
	tasks     map[job.State]int // of all jobs, in each state
	finished  map[job.State]uint64
}

// kept is a job.
type kept struct {
	*job.Spec
	owner    *user
	size     int64 // of what is kept of it, in bytes
	held     bool
	bare     bool      // its environment is not there, so it cannot run
	since    time.Time // when it was submitted, by the clock as it is set now
	unheld   time.Time // when it was last let go
	priority int

	tasks  []*job.Task // nil: as it was submitted. A task is never changed, but replaced.
	counts map[job.State]int
	over   time.Time // when its last task ended; zero if one has not

	condition job.Condition // of the jobs that it waits for
	met       time.Time     // when they let it begin
	noted     bool          // that they do is written down, so that they may be forgotten
	prevented job.Ref       // why they never will
	awaits    int           // how many of them its owner is charged for

	next    int       // no task before this index is as it was submitted
	again   []int     // tasks that wait and were in the queue before
	paused  []int     // tasks that wait for the end of their pause
	resumes time.Time // when the first of those pauses ends; earlier if its task waits no more
	queued  map[int]*place
	ready   bool // it is in owner.ready

	changing bool // somebody changes its tasks, piece by piece: meanwhile none of them gets in

	looks    *run.Timer         // when that changes with time alone
	warnings map[int]*run.Timer // of tasks that run; see warnInTime

	retiring bool // it has ended, and is being packed; guarded by writing

	changed chan struct{} // closed when a task ends; nil if nobody waits for that

	past *past // has the tasks of a job that has ended, and was opened to be read; else nil
}

// place is the place of a task in the queue of leases.
type place struct{ leaving bool }

// user is somebody who has jobs.
type user struct {
	uid    int
	name   string
	size   int64   // of what is kept
	limits Limits  // when it was last fed
	ready  []*kept // jobs that have a task for the queue, in the order in which they get in
	queued int
	busy   int        // tasks that have a lease
	open   int        // tasks that have not begun
	awaits int        // jobs and tasks that its jobs wait for, each for each of those
	ended  int        // tasks of jobs that have ended
	feeds  *run.Timer // when to feed again what could not be written down
}

// fresh is the state of every task at first.
var fresh = &job.Task{State: job.Waiting}

// job returns a job, or nil. One that has ended is a copy. The caller holds writing or mu.
func (k *Keeper) job(number int64) *kept {
	if p := k.past[number]; p != nil {
		return p.open()
	}
	return k.jobs[number]
}

// total returns how many tasks the job has.
func (j *kept) total() int {
	if j.past != nil {
		return len(j.past.starts)
	}
	return len(j.tasks)
}

// exit returns the exit code of a job that has ended.
func (j *kept) exit() gpu.Opt[int] {
	if j.past != nil {
		return j.past.exit
	}
	return job.Exit(j.task, len(j.tasks))
}

// task returns a task. It must not be changed.
func (j *kept) task(index int) *job.Task {
	if j.past != nil {
		return j.past.task(index)
	}
	if t := j.tasks[index]; t != nil {
		return t
	}
	return fresh
}

// newKeeper returns a keeper without jobs.
func newKeeper(o Options) *Keeper {
	k := &Keeper{Options: o, begun: make(chan struct{}), environments: environments{folder: o.Folder, all: map[string]*environment{}}}
	k.runs = run.New(run.Options{Kind: lease.OfJob, Boot: o.Boot, Minders: o.Minders, Account: o.Account, Log: o.Log}, k)
	k.state = state{jobs: map[int64]*kept{}, past: map[int64]*past{}, users: map[int]*user{}, waitedFor: map[int64][]int64{}, tasks: map[job.State]int{}, finished: map[job.State]uint64{}}
	return k
}

// Open reads the journal. Run then goes on where the last daemon stopped.
func Open(o Options) (*Keeper, error) {
	k := newKeeper(o)
	log, err := o.Open(k.replay)
	if err != nil {
		return nil, err
	}
	k.journal.Journal, k.journal.Notify = log, k.tellTrouble
	k.settle()
	if err := k.environments.tidy(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return k, nil
}

// Newest returns the largest number of a job; 0 if there is none. It is for the time before
// Run.
func (k *Keeper) Newest() int64 {
	if len(k.numbers) == 0 {
		return 0
	}
	return k.numbers[len(k.numbers)-1]
}

// tellTrouble publishes that the journal of jobs cannot be written, or can again.
func (k *Keeper) tellTrouble(err error) {
	e := gpu.Event{Time: time.Now(), Code: gpu.EventJournal, Severity: gpu.Note, Text: "The daemon can write down jobs again."}
	if err != nil {
		e.Severity, e.Text = gpu.Serious, fmt.Sprintf("The daemon cannot write down jobs, so it takes and starts none; those that run are not affected: %v", err)
	}
	k.Publish(e)
}

// Run goes on with all jobs until ctx ends, and then closes the journal. Jobs that run
// are left alone.
func (k *Keeper) Run(ctx context.Context, leases Leases) error {
	k.writing.Lock()
	k.leases, k.running = leases, ctx
	k.runs.Begin(ctx, leases)
	k.runs.Set(&k.tidying, time.Now(), tidies{})
	k.writing.Unlock()
	close(k.begun)
	k.resume()
	k.runs.Go()
	k.writing.Lock()
	k.closing = true
	k.writing.Unlock()
	k.runs.Wait()
	k.busy.Wait()
	return k.journal.Close()
}

// Runs returns the runs of jobs.
func (k *Keeper) Runs() *run.Runs { return k.runs }

// What the keeper leaves for itself.
type (
	sorts  struct{ number int64 } // a job may begin
	feeds  struct{ uid int }
	never  struct{ number int64 }
	warns  struct{ attempt }
	limits struct{} // have changed
	shifts struct{ by time.Duration }
	tidies struct{}
)

// Due implements run.Book.
func (k *Keeper) Due(note any) {
	defer fault.Shared()
	now := time.Now()
	k.writing.Lock()
	defer k.writing.Unlock()
	if k.stopped() {
		return
	}
	switch n := note.(type) {
	case sorts:
		if j := k.jobs[n.number]; j != nil {
			k.sort(j, now)
			k.busy.Go(func() { k.feed(j.owner) })
		}
	case feeds:
		if u := k.users[n.uid]; u != nil {
			k.busy.Go(func() { k.feed(u) })
		}
	case never:
		if j := k.jobs[n.number]; j != nil {
			k.busy.Go(func() { k.prevent(j) })
		}
	case warns:
		k.warn(n.attempt, now)
	case limits:
		k.busy.Go(func() { k.recall(); k.feedAll() })
	case shifts:
		k.shift(n.by)
	case tidies:
		next := now.Add(time.Hour)
		if k.tidy(now) {
			next = now
		}
		k.runs.Set(&k.tidying, next, tidies{})
	}
}

// Close closes the journal of a keeper that was opened and never run.
func (k *Keeper) Close() error { return k.journal.Close() }

// Trouble returns why jobs cannot be written down now, or nil if they can.
func (k *Keeper) Trouble() error { return k.journal.Trouble() }

// stopped reports whether the keeper has not begun to run, or is about to end. The
// caller holds writing.
func (k *Keeper) stopped() bool { return k.running == nil || k.closing || k.running.Err() != nil }

// KeyOf returns the key of the lease of a task.
func KeyOf(s *job.Spec, id string) lease.Key {
	named, _ := job.ParseID(id)
	return lease.Key{
		Owner: lease.Holder{UID: s.UID, User: s.User}.Owner(), ID: id,
		Run: lease.Run{Kind: lease.OfJob, Number: s.Number, Task: named.Task},
	}
}

// AskOf returns the request for the lease of a task.
func AskOf(s *job.Spec, id string, since time.Time, priority int) run.Ask {
	a := run.Ask{Key: KeyOf(s, id), User: s.User, Name: s.Called, Request: s.Lease, Since: since}
	if a.Request.ID = id; priority != 0 {
		a.Request.Priority = gpu.Some(priority)
	}
	return a
}

// ask returns the request for the lease of a task. The caller holds writing or mu.
func (j *kept) ask(index int) run.Ask {
	return AskOf(j.Spec, j.TaskID(index), j.task(index).Since, j.priority)
}

// key returns the key of the lease of a task.
func (j *kept) key(index int) lease.Key { return KeyOf(j.Spec, j.TaskID(index)) }
