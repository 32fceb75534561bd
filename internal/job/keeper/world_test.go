package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/job"
	"github.com/berth-gpu/berth/internal/job/run"
	"github.com/berth-gpu/berth/internal/job/run/runtest"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/when"
)

// world is what outlives a daemon: the disk, the leases and the minders.
type world struct {
	*runtest.World
	t      *testing.T
	folder string
	room   int // leases that fit

	// Mu guards what follows.
	entries  [][]byte
	number   int64
	leases   map[string]*held
	started  map[string][]string // by task: the runs in which its command was started
	script   func(run, id string, try int) plan
	events   []gpu.Event
	limits   Limits
	learns   func(id string)   // called when a run has ended; may be nil
	wrote    func(entries int) // called with the size of each group; may be nil
	asked    func()            // called before somebody hears of them; may be nil
	short    int               // minders that cannot start their command for want of something
	early    int               // minders that are killed before they write anything
	unknown  []error           // why users cannot be looked up, one for each time; then they can
	full     atomic.Bool       // the disk
	unhanded error             // why leases cannot be handed over; nil if they can
	unended  error             // why programs cannot be told to end; nil if they can
	moved    time.Duration     // by how much the ledger has moved the ends of leases
	parked   time.Duration     // how long leases were parked, whose time stands still then; negative: they are now

	dead bool // minders have ended, and their ends are noticed later

	daemon *daemon
}

// plan is what becomes of a command.
type plan struct {
	takes  time.Duration
	exit   int
	killed bool // its minder is killed
	before bool // … before it has started the command
}

type held struct {
	key   lease.Key
	uid   int
	fence uint64
	pid   int
	task  string
	old   bool // nobody said that it is of a job
}

// daemon is one life of a daemon.
type daemon struct {
	*Keeper
	*runtest.Life
	w *world
}

func newWorld(t *testing.T) *world {
	return &world{
		World: runtest.New(), t: t, folder: t.TempDir(), room: 2, leases: map[string]*held{}, started: map[string][]string{},
		script: func(string, string, int) plan { return plan{takes: time.Minute} },
	}
}

// start starts a daemon. The one before it must be dead or stopped.
func (w *world) start() *daemon {
	w.t.Helper()
	d := &daemon{w: w, Life: w.Begin()}
	k, err := Open(Options{
		Folder: filepath.Join(w.folder, "environments"), Boot: w.Boot, Minders: runtest.Minders{Life: d.Life, Mind: w.mind, End: w.end}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Numbers: func() (int64, error) { w.Mu.Lock(); defer w.Mu.Unlock(); w.number++; return w.number, nil },
		Limits: func(int, string) Limits {
			if w.asked != nil {
				w.asked()
			}
			w.Mu.Lock()
			defer w.Mu.Unlock()
			return w.limits
		},
		Account: w.account,
		Publish: func(e gpu.Event) { w.Mu.Lock(); defer w.Mu.Unlock(); w.events = append(w.events, e) },
		Open: func(replay func(journal.Entry) error) (journal.Journal, error) {
			for i, e := range w.entries {
				if err := replay(journal.Entry{Seq: uint64(i + 1), Data: e}); err != nil {
					return nil, err
				}
			}
			return &memory{d: d}, nil
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Mu.Lock()
	d.Keeper, w.daemon = k, d
	w.Mu.Unlock()
	go func() {
		defer close(d.Over)
		_ = k.Run(d.Ctx, desk{d})
	}()
	synctest.Wait()
	return d
}

// account looks up a user.
func (w *world) account(_ string, uid int) (api.MinderAccount, error) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if len(w.unknown) > 0 {
		err := w.unknown[0]
		w.unknown = w.unknown[1:]
		return api.MinderAccount{}, err
	}
	return api.MinderAccount{GID: uid}, nil
}

// restart kills the daemon and starts another.
func (w *world) restart() *daemon {
	w.daemon.Kill()
	<-w.daemon.Over
	return w.start()
}

// revive starts another daemon if the present one was killed.
func (w *world) revive() *daemon {
	if w.daemon.IsDead() {
		<-w.daemon.Over
		return w.start()
	}
	return w.daemon
}

// written returns how many entries the journal has.
func (w *world) written() int {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return len(w.entries)
}

// memory is the journal of one daemon, on a disk that all daemons share.
type memory struct{ d *daemon }

func (m *memory) Append(group [][]byte, _ journal.Care) error {
	return m.d.Step(func() error {
		if m.d.w.full.Load() && len(group) > 0 {
			return &journal.WriteError{Op: "write to", File: "log", Full: true, Err: errors.New("no space left on device")}
		}
		if m.d.w.wrote != nil {
			m.d.w.wrote(len(group))
		}
		for _, e := range group {
			m.d.w.entries = append(m.d.w.entries, slices.Clone(e))
		}
		return nil
	})
}

func (m *memory) Compact(_ uint64, snapshot iter.Seq[[]byte]) error {
	return m.d.Step(func() error {
		var all [][]byte
		for e := range snapshot {
			all = append(all, slices.Clone(e))
		}
		m.d.w.entries = all
		return nil
	})
}

func (m *memory) Stats() journal.Stats {
	m.d.w.Mu.Lock()
	defer m.d.w.Mu.Unlock()
	return journal.Stats{LogEntries: len(m.d.w.entries), LastSeq: uint64(len(m.d.w.entries))}
}
func (m *memory) Close() error { return nil }

// desk gives out leases, as many as there is room for.
type desk struct{ d *daemon }

func (s desk) Acquire(ctx context.Context, a run.Ask) (api.Lease, error) {
	w := s.d.w
	for {
		var l *held
		err := s.d.Step(func() error {
			if l = w.leases[a.Key.ID]; l == nil && len(w.leases) < w.room && w.first(a) {
				w.number++
				l = &held{key: a.Key, uid: a.Key.UID, fence: uint64(w.number), task: a.Key.ID}
				w.leases[a.Key.ID] = l
			}
			return nil
		})
		if err == nil && l == nil {
			w.Mu.Lock()
			w.Steps-- // a look is no effect
			w.Mu.Unlock()
		}
		if err != nil || l != nil {
			if err != nil {
				return api.Lease{}, err
			}
			return api.Lease{ID: a.Key.ID, Fence: l.fence, Granted: time.Now(), Parts: []api.LeasePart{{GPU: "GPU-1", Memory: 1000}}}, nil
		}
		select {
		case <-ctx.Done():
			return api.Lease{}, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// first reports whether nobody waits who is older.
func (w *world) first(of run.Ask) bool {
	older := func(k *Keeper) bool {
		for _, j := range k.jobs {
			for i := range j.queued {
				if j.TaskID(i) != of.Key.ID && j.task(i).Since.Before(of.Since) && w.leases[j.TaskID(i)] == nil {
					return true
				}
			}
		}
		return false
	}
	k := w.daemon.Keeper
	if !k.mu.TryRLock() {
		return false
	}
	defer k.mu.RUnlock()
	return !older(k)
}

// of returns a lease, if it stands. The caller holds mu.
func (w *world) of(k lease.Key, fence uint64) *held {
	if h := w.leases[k.ID]; h != nil && (fence == 0 || h.fence == fence) {
		return h
	}
	return nil
}

func (s desk) Hand(_ context.Context, a run.Ask, fence uint64, id process.ID) (l api.Lease, err error) {
	err = s.d.Step(func() error {
		h := s.d.w.of(a.Key, fence)
		if h == nil {
			return runs.ErrNoLease
		}
		if s.d.w.unhanded != nil {
			return s.d.w.unhanded
		}
		h.pid = id.PID
		l = api.Lease{ID: a.Key.ID, Fence: h.fence}
		return nil
	})
	return l, err
}

func (s desk) Release(k lease.Key, fence uint64, _ string) {
	_ = s.d.Step(func() error {
		if s.d.w.of(k, fence) != nil {
			delete(s.d.w.leases, k.ID)
		}
		return nil
	})
}

func (s desk) End(k lease.Key, fence uint64, _ access.Actor, _ string) error {
	return s.d.Step(func() error {
		h := s.d.w.of(k, fence)
		switch {
		case s.d.w.unended != nil:
			return s.d.w.unended
		case h == nil:
			return runs.ErrNoLease
		case h.pid == 0: // a lease that nobody uses ends at once
			delete(s.d.w.leases, k.ID)
		}
		for name, r := range s.d.w.Runs {
			if h.pid != 0 && r.Record.PID == h.pid {
				go s.d.w.finish(name, 143, "SIGTERM", "")
			}
		}
		return nil
	})
}

func (s desk) Signal(k lease.Key, _ uint64, _ int, signal string) {
	_ = s.d.Step(func() error {
		s.d.w.events = append(s.d.w.events, gpu.Event{Text: k.ID + " gets " + signal})
		return nil
	})
}

func (s desk) Ends(k lease.Key, fence uint64) (time.Time, bool) {
	task, _ := s.d.find(fmt.Sprintf("%d.%d.1", k.Run.Number, k.Run.Task))
	limit, limited := task.Lease.TimeLimit.Get()
	s.d.w.Mu.Lock()
	defer s.d.w.Mu.Unlock()
	return task.task(task.index).Granted.Add(time.Duration(limit)*time.Second + s.d.w.parked + s.d.w.moved), limited && s.d.w.parked >= 0
}

func (s desk) Learn(_ *job.Spec, id string, _ *job.Outcome, _ *job.Task) bool {
	if s.d.w.learns != nil {
		s.d.w.learns(id)
	}
	return true
}

func (s desk) List(kind lease.RunKind) (all []run.Held) {
	s.d.w.Mu.Lock()
	defer s.d.w.Mu.Unlock()
	for _, h := range s.d.w.leases {
		if h.old == (kind == "") {
			all = append(all, run.Held{Key: h.key, Fence: h.fence, Bound: h.pid != 0})
		}
	}
	return all
}

func (s desk) Claim(k lease.Key, fence uint64) (stands bool) {
	_ = s.d.Step(func() error {
		h := s.d.w.of(k, fence)
		if stands = h != nil; stands {
			h.old = false
		}
		return nil
	})
	return stands
}

func (s desk) Taken(spec *job.Spec) bool {
	s.d.w.Mu.Lock()
	defer s.d.w.Mu.Unlock()
	return s.d.w.leases[spec.ID()] != nil
}

// signals returns how many signals a task has got.
func (w *world) signals(id string) (n int) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	for _, e := range w.events {
		if strings.HasPrefix(e.Text, id+" gets ") {
			n++
		}
	}
	return n
}

// mind is the life of a minder, as package minder has it.
func (w *world) mind(name string, id process.ID) {
	defer w.Gone(id.PID)
	w.Mu.Lock()
	if w.early > 0 {
		w.early--
		w.Mu.Unlock()
		return
	}
	r := w.Runs[name]
	if r != nil && (r.Alive || !r.Record.Started.IsZero() || !r.Record.Ended.IsZero()) {
		w.Mu.Unlock()
		return // another minder has this run
	}
	r = &runtest.Run{Alive: true, Record: runs.Record{PID: id.PID, Start: id.Start, Boot: w.Boot}}
	w.Runs[name] = r
	boot := w.Boot
	w.Mu.Unlock()
	var order api.MinderOrder
	for {
		time.Sleep(50 * time.Millisecond)
		w.Mu.Lock()
		d, gone := w.daemon, w.Boot != boot
		w.Mu.Unlock()
		if gone {
			return
		}
		var err error
		if order, err = d.Runs().Order(name, r.Record.Minder()); err == nil && !d.IsDead() {
			break
		} else if errors.Is(err, runs.ErrNoOrder) && !d.IsDead() {
			time.Sleep(50 * time.Millisecond) // it writes that down
			w.finish(name, 0, "", "the daemon has no order for this run")
			return
		}
	}
	task := strings.TrimPrefix(order.Variables[0], "BERTH_JOB=")
	if len(order.Variables) > 1 && strings.HasPrefix(order.Variables[1], "BERTH_TASK=") {
		task += "." + strings.TrimPrefix(order.Variables[1], "BERTH_TASK=")
	}
	w.Mu.Lock()
	if w.short > 0 {
		w.short--
		r.Record.Short = true
		w.Mu.Unlock()
		w.finish(name, 0, "", "open the log: no space left on device")
		return
	}
	p := w.script(name, task, len(w.started[task])+1)
	if p.before {
		w.Mu.Unlock()
		w.finish(name, -1, "", "")
		return
	}
	r.Record.Started, r.Record.Fence = when.Now(), order.Lease.Fence // as one that was written
	w.started[task] = append(w.started[task], name)
	w.Mu.Unlock()
	time.Sleep(p.takes)
	if p.killed {
		w.finish(name, -1, "", "")
		return
	}
	w.finish(name, p.exit, "", "")
}

// end kills a minder.
func (w *world) end(minder process.ID) error {
	if w.dead {
		return process.ErrGone
	}
	for name, r := range w.Runs {
		if r.Record.Minder() == minder {
			go w.finish(name, -1, "", "")
		}
	}
	return nil
}

// finish ends a run. The exit code -1 means that its minder was killed.
func (w *world) finish(name string, exit int, signal, failure string) {
	w.Mu.Lock()
	r := w.Runs[name]
	if r == nil || !r.Alive {
		w.Mu.Unlock()
		return
	}
	r.Alive = false
	if exit >= 0 {
		r.Record.Ended, r.Record.Signal, r.Record.Failure = when.Now(), signal, failure
		if failure == "" {
			r.Record.Exit = gpu.Some(exit)
		}
	}
	for id, h := range w.leases { // the ledger notices that the process has ended
		if h.pid == r.Record.PID {
			delete(w.leases, id)
		}
	}
	w.Mu.Unlock()
	w.Gone(r.Record.PID)
}

// reboot ends the daemon and everything that runs.
func (w *world) reboot() *daemon {
	w.daemon.Kill()
	<-w.daemon.Over
	w.Mu.Lock()
	w.Boot += "'"
	for _, r := range w.Runs {
		r.Alive = false
	}
	clear(w.Living)
	for id, h := range w.leases {
		if h.pid != 0 {
			delete(w.leases, id)
		}
	}
	w.Mu.Unlock()
	return w.start()
}

// spec returns a job of ada.
func spec(name string, change ...func(*job.Spec)) job.Spec {
	s := job.Spec{Name: name, UID: 1000, User: "ada", Submitted: time.Now(), Command: []string{"true"}}
	for _, c := range change {
		c(&s)
	}
	return s
}

func array(text string) func(*job.Spec) {
	return func(s *job.Spec) {
		a, most, err := job.ParseArray(text)
		if err != nil {
			panic(err)
		}
		s.Array, s.Most = a, most
	}
}

// submit submits a job, again and again if daemons are killed meanwhile; nobody knows
// whether a submit that was not answered counts.
func (w *world) submit(s job.Spec) job.Spec {
	w.t.Helper()
	for {
		d := w.revive()
		done, err := d.Submit(s, []string{"A=b"}, gpu.By{})
		if d.IsDead() {
			continue
		}
		if err != nil {
			w.t.Fatal(err)
		}
		return done
	}
}

func (w *world) show(r job.Ref) Shown {
	w.t.Helper()
	s, err := w.daemon.Show(r)
	if err != nil {
		w.t.Fatalf("job %d: %v", r.Number, err)
	}
	return s
}

// state returns the state of each task of a job in one line, as in done×3 waiting×2.
func (w *world) state(number int64) string {
	w.t.Helper()
	all := slices.Collect(w.daemon.Tasks(number))
	if len(all) == 0 {
		return w.show(job.Ref{Number: number}).State
	}
	var words []string
	for i := 0; i < len(all); {
		n := 1
		for i+n < len(all) && all[i+n].State == all[i].State {
			n++
		}
		words = append(words, fmt.Sprintf("%s×%d", all[i].State, n))
		i += n
	}
	return strings.Join(words, " ")
}

// after lets time pass, reviving daemons that are killed.
func (w *world) after(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(min(time.Until(end), 2*time.Second))
		synctest.Wait()
		w.revive()
	}
	synctest.Wait()
}

// close stops the daemon, and waits until every minder has ended.
func (w *world) close() {
	w.t.Helper()
	w.revive()
	w.daemon.Kill()
	<-w.daemon.Over
	w.Mu.Lock()
	w.Boot = ""
	w.Mu.Unlock()
	time.Sleep(24 * time.Hour)
}

// idle checks that nothing is left of jobs that have all ended.
func (w *world) idle() {
	w.t.Helper()
	w.Mu.Lock()
	defer w.Mu.Unlock()
	for id := range w.leases {
		w.t.Errorf("the lease of %s is left", id)
	}
	for name, r := range w.Runs {
		if r.Alive {
			w.t.Errorf("a minder of %s is left", name)
		} else {
			w.t.Errorf("the record of %s is left", name)
		}
	}
	counted := map[job.State]int{}
	for _, n := range w.daemon.numbers {
		for s, some := range w.daemon.job(n).counts {
			counted[s.Shown()] += some
		}
	}
	none := func(_ job.State, n int) bool { return n == 0 }
	got := w.daemon.Usage().Tasks
	maps.DeleteFunc(counted, none)
	maps.DeleteFunc(got, none)
	if !maps.Equal(got, counted) {
		w.t.Errorf("the tasks in each state are %v, and there are %v", got, counted)
	}
}

func play(t *testing.T, do func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		do(w)
		w.close()
	})
}
