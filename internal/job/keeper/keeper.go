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
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/job"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/runs"
)

// Leases is what the keeper asks of the desk, which has the only way to a lease. Each
// call is about one task: a job, the index of the task in it, and the task as it is.
type Leases interface {
	// Acquire asks for the lease of a task and waits for it. Asked again after a
	// restart, it finds the lease that was granted before.
	Acquire(ctx context.Context, of Claim) (api.Lease, error)
	// Hand binds the lease of a task to its minder, and returns it with everything that
	// a launcher needs. It returns runs.ErrNoLease if the lease has ended.
	Hand(ctx context.Context, of Claim, minder process.ID) (api.Lease, error)
	// Release gives the lease of a task back, if it still stands.
	Release(of Claim)
	// End tells the programs of a lease to end, which the ledger then sees to. It returns
	// runs.ErrNoLease if the lease has ended. Stands reports whether it still stands.
	End(of Claim, by access.Actor) error
	Stands(of Claim) bool
	// Signal sends a signal to the programs of a lease, and Ends returns when its time
	// limit does that for good; false if it has none, or if that stands still.
	Signal(of Claim, signal string)
	Ends(of Claim) (time.Time, bool)
	// Learn completes the outcome of a run with what was measured, and the task with its
	// figures. It returns false if a measurement of its devices after its end, which may
	// say why it failed, is about to come.
	Learn(of Claim, o *job.Outcome, t *job.Task) (complete bool)
	// Claims lists the leases of tasks, and others that stand under the ids of jobs. An
	// earlier berth did not say which is which: Claim notes that the lease with the fence
	// of a task is its own.
	Claims() []Claimed
	Claim(of Claim)
	// Taken reports whether a lease or a request of its user has the id of a job.
	Taken(s *job.Spec) bool
}

// Claimed is a lease that stands under the id of a job.
type Claimed struct {
	ID    string
	UID   int // of its user
	Fence uint64
	OfJob bool // it was granted to the task; else perhaps to its user
	Bound bool // it is bound to a process
}

// Claim names the lease of a task.
type Claim struct {
	Spec     *job.Spec
	ID       string // of the task, and of its lease
	Index    int    // of the task
	Since    time.Time
	Priority int
	Task     job.Task
}

// Minders starts minders and reads what they wrote.
type Minders interface {
	// Start returns the process that it has started, whose end Watch notices. The process
	// may have ended already.
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

// Limits are what one user may have. What is absent has no limit.
type Limits struct {
	Running gpu.Opt[int] // tasks that have a lease, or wait in the queue of leases
	Waiting gpu.Opt[int] // tasks that have not begun
	Off     bool         // no task begins
}

// full reports whether no more of the tasks of a user may be in the queue of leases.
func (l Limits) full(u *user) bool { return l.Off || u.busy+u.queued >= l.Running.Or(math.MaxInt) }

// Options are the options of Open.
type Options struct {
	Folder  string // for the environments; the folder around it must be there
	Boot    string // of the machine
	Minders Minders
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
	leases  Leases              // nil before Run
	running context.Context     // of Run; nil before
	begun   chan struct{}       // closed when Run has begun; whoever asks for a change before waits
	closing bool                // Run is about to end
	alarms  alarms              // in some time
	dates   alarms              // at some time of the clock
	watched map[process.ID]bool // minders whose ends will be noticed

	mu sync.RWMutex // guards what follows, for readers; changed only while writing is held
	state

	overran    sync.Map // ids of tasks that have reached their time limit; see Overran
	bereft     sync.Map // by name of a run: why its lease ended before it; see LeaseEnded
	unended    sync.Map // names of runs of which was told that they cannot be ended; see stop
	wake       chan struct{}
	busy       sync.WaitGroup // goroutines that wait for leases
	compacting atomic.Bool
	tidying    *time.Timer // tells Run to tidy
	tidyAt     int         // how many tasks that have ended are too many; guarded by writing
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
	submitted uint64            // jobs since the start of this daemon
	finished  map[job.State]uint64
}

// kept is a job.
type kept struct {
	*job.Spec
	owner    *user
	size     int64 // of what is kept of it, in bytes
	held     bool
	bare     bool      // its environment is not there, so it cannot run
	unheld   time.Time // when it was last let go
	priority int

	tasks  []*job.Task // nil: as it was submitted. A task is never changed, but replaced.
	counts map[job.State]int
	over   time.Time // when its last task ended; zero if one has not

	condition job.Condition // of the jobs that it waits for
	met       time.Time     // when they let it begin
	noted     bool          // that they do is written down, so that they may be forgotten
	prevented job.Ref       // why they never will

	next    int       // no task before this index is as it was submitted
	again   []int     // tasks that wait and were in the queue before
	paused  []int     // tasks that wait for the end of their pause
	resumes time.Time // when the first of those pauses ends; earlier if its task waits no more
	queued  map[int]*place
	ready   bool // it is in owner.ready

	changing bool // somebody changes its tasks, piece by piece: meanwhile none of them gets in

	alarm    *alarm         // when that changes with time alone; see lookAt
	warnings map[int]*alarm // of tasks that run; see warnInTime

	retiring bool // it has ended, and is being packed; guarded by writing

	changed chan struct{} // closed when a task ends; nil if nobody waits for that

	past *past // has the tasks of a job that has ended, and was opened to be read; else nil
}

// place is the place of a task in the queue of leases.
type place struct {
	since   time.Time
	leave   context.CancelFunc
	leaving bool
}

// user is somebody who has jobs.
type user struct {
	uid    int
	name   string
	size   int64   // of what is kept
	limits Limits  // when it was last fed
	ready  []*kept // jobs that have a task for the queue, in the order in which they get in
	queued int
	busy   int    // tasks that have a lease
	open   int    // tasks that have not begun
	ended  int    // tasks of jobs that have ended
	alarm  *alarm // when to feed again what could not be written down
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
	k := &Keeper{
		Options: o, wake: make(chan struct{}, 1), begun: make(chan struct{}), watched: map[process.ID]bool{}, tidying: time.NewTimer(time.Hour),
		environments: environments{folder: o.Folder, all: map[string]*environment{}},
	}
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
	k.writing.Unlock()
	close(k.begun)
	k.resume()
	k.tidying.Reset(0)
	defer k.tidying.Stop()
	for {
		k.ring(time.Now())
		var alarm <-chan time.Time
		var timer *time.Timer
		if left, some := k.nextAlarm(); some {
			timer = time.NewTimer(left)
			alarm = timer.C
		}
		select {
		case <-alarm:
		case <-k.wake:
		case <-k.tidying.C:
			next := time.Hour
			k.writing.Lock()
			if k.tidy(time.Now()) {
				next = 0
			} else {
				k.busy.Go(k.removeOldRuns)
			}
			k.tidying.Reset(next)
			k.writing.Unlock()
		case <-ctx.Done():
			k.writing.Lock()
			k.closing = true
			k.writing.Unlock()
			k.busy.Wait()
			return k.journal.Close()
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// Close closes the journal of a keeper that was opened and never run.
func (k *Keeper) Close() error { return k.journal.Close() }

// Trouble returns why jobs cannot be written down now, or nil if they can.
func (k *Keeper) Trouble() error { return k.journal.Trouble() }

// stopped reports whether the keeper has not begun to run, or is about to end. The
// caller holds writing.
func (k *Keeper) stopped() bool { return k.running == nil || k.closing || k.running.Err() != nil }

// claim names the lease of a task. The caller holds writing or mu.
func (j *kept) claim(index int) Claim {
	t := j.task(index)
	return Claim{Spec: j.Spec, ID: j.TaskID(index), Index: index, Since: t.Since, Priority: j.priority, Task: *t}
}
