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
	"sync"
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
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/when"
)

// world is what outlives a daemon: the disk, the leases and the minders. Every effect of
// a daemon on it is a step, and a daemon can be killed at each of them: before the effect,
// or after it and before the daemon hears of it.
type world struct {
	t      *testing.T
	folder string
	room   int // leases that fit

	mu       sync.Mutex // guards what follows
	entries  [][]byte
	number   int64
	leases   map[string]*held
	runs     map[string]*mindedRun
	living   map[int][]func() // by pid of a minder that lives: who wants to know its end
	pid      int
	boot     string
	started  map[string][]string // by task: the runs in which its command was started
	script   func(run, id string, try int) plan
	events   []gpu.Event
	limits   Limits
	learns   func(id string)   // called when a run has ended; may be nil
	wrote    func(entries int) // called with the size of each group; may be nil
	asked    func()            // called before somebody hears of them; may be nil
	refused  error             // why no minder can be started; nil if one can
	clearing chan struct{}     // closed when what is left of runs has ended; nil: nothing is left of them
	early    int               // minders that are killed before they write anything
	unknown  []error           // why users cannot be looked up, one for each time; then they can
	full     atomic.Bool       // the disk
	unhanded error             // why leases cannot be handed over; nil if they can
	unended  error             // why programs cannot be told to end; nil if they can
	moved    time.Duration     // by how much the ledger has moved the ends of leases
	parked   time.Duration     // how long leases were parked, whose time stands still then; negative: they are now

	dead bool // minders have ended, and their ends are noticed later

	steps  int
	killAt int // half-step at which the daemon is killed; 0 means never
	again  int // half-steps after which the next daemon is killed; 0 means never
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

type mindedRun struct {
	record runs.Record
	alive  bool
}

// daemon is one life of a daemon.
type daemon struct {
	*Keeper
	w    *world
	stop context.CancelFunc
	dead chan struct{}
	over chan struct{} // Run has returned
	once sync.Once
}

var errKilled = errors.New("the daemon was killed")

func newWorld(t *testing.T) *world {
	return &world{
		t: t, folder: t.TempDir(), room: 2, leases: map[string]*held{}, runs: map[string]*mindedRun{}, living: map[int][]func(){}, boot: "boot-1", started: map[string][]string{},
		script: func(string, string, int) plan { return plan{takes: time.Minute} },
	}
}

// step notes an effect of a daemon and does it. It fails if the daemon is dead, or dies
// of it.
func (d *daemon) step(do func() error) error {
	w := d.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.isDead() {
		return errKilled
	}
	w.steps++
	if w.killAt == 2*w.steps-1 {
		d.die()
		return errKilled
	}
	err := do()
	if w.killAt == 2*w.steps {
		d.die()
		return errKilled
	}
	return err
}

// die kills a daemon at its step, and says when the next one dies.
func (d *daemon) die() {
	d.kill()
	if d.w.again > 0 {
		d.w.killAt += d.w.again
	}
}

func (d *daemon) isDead() bool {
	select {
	case <-d.dead:
		return true
	default:
		return false
	}
}

// kill ends a daemon as kill -9 does: nothing that it does from now on has an effect.
func (d *daemon) kill() {
	d.once.Do(func() { close(d.dead); d.stop() })
}

// start starts a daemon. The one before it must be dead or stopped.
func (w *world) start() *daemon {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	d := &daemon{w: w, stop: stop, dead: make(chan struct{}), over: make(chan struct{})}
	k, err := Open(Options{
		Folder: filepath.Join(w.folder, "environments"), Boot: w.boot, Minders: minders{d}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Numbers: func() (int64, error) { w.mu.Lock(); defer w.mu.Unlock(); w.number++; return w.number, nil },
		Limits: func(int, string) Limits {
			if w.asked != nil {
				w.asked()
			}
			return w.limits
		},
		Account: w.account,
		Publish: func(e gpu.Event) { w.mu.Lock(); defer w.mu.Unlock(); w.events = append(w.events, e) },
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
	w.mu.Lock()
	d.Keeper, w.daemon = k, d
	w.mu.Unlock()
	go func() {
		defer close(d.over)
		_ = k.Run(ctx, desk{d})
	}()
	synctest.Wait()
	return d
}

// account looks up a user.
func (w *world) account(_ string, uid int) (api.MinderAccount, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.unknown) > 0 {
		err := w.unknown[0]
		w.unknown = w.unknown[1:]
		return api.MinderAccount{}, err
	}
	return api.MinderAccount{GID: uid}, nil
}

// restart kills the daemon and starts another.
func (w *world) restart() *daemon {
	w.daemon.kill()
	<-w.daemon.over
	return w.start()
}

// revive starts another daemon if the present one was killed.
func (w *world) revive() *daemon {
	if w.daemon.isDead() {
		<-w.daemon.over
		return w.start()
	}
	return w.daemon
}

// set changes the world, or looks at it, while nobody else does.
func (w *world) set(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// written returns how many entries the journal has.
func (w *world) written() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.entries)
}

// memory is the journal of one daemon, on a disk that all daemons share.
type memory struct{ d *daemon }

func (m *memory) Append(group [][]byte, _ journal.Care) error {
	return m.d.step(func() error {
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
	return m.d.step(func() error {
		var all [][]byte
		for e := range snapshot {
			all = append(all, slices.Clone(e))
		}
		m.d.w.entries = all
		return nil
	})
}

func (m *memory) Stats() journal.Stats {
	m.d.w.mu.Lock()
	defer m.d.w.mu.Unlock()
	return journal.Stats{LogEntries: len(m.d.w.entries), LastSeq: uint64(len(m.d.w.entries))}
}
func (m *memory) Close() error { return nil }

// desk gives out leases, as many as there is room for.
type desk struct{ d *daemon }

func (s desk) Acquire(ctx context.Context, a run.Ask) (api.Lease, error) {
	w := s.d.w
	for {
		var l *held
		err := s.d.step(func() error {
			if l = w.leases[a.Key.ID]; l == nil && len(w.leases) < w.room && w.first(a) {
				w.number++
				l = &held{key: a.Key, uid: a.Key.UID, fence: uint64(w.number), task: a.Key.ID}
				w.leases[a.Key.ID] = l
			}
			return nil
		})
		if err == nil && l == nil {
			w.mu.Lock()
			w.steps-- // a look is no effect
			w.mu.Unlock()
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
			for i, here := range j.queued {
				if j.TaskID(i) != of.Key.ID && here.since.Before(of.Since) && w.leases[j.TaskID(i)] == nil {
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
	err = s.d.step(func() error {
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
	_ = s.d.step(func() error {
		if s.d.w.of(k, fence) != nil {
			delete(s.d.w.leases, k.ID)
		}
		return nil
	})
}

func (s desk) End(k lease.Key, fence uint64, _ access.Actor, _ string) error {
	return s.d.step(func() error {
		h := s.d.w.of(k, fence)
		switch {
		case s.d.w.unended != nil:
			return s.d.w.unended
		case h == nil:
			return runs.ErrNoLease
		case h.pid == 0: // a lease that nobody uses ends at once
			delete(s.d.w.leases, k.ID)
		}
		for name, r := range s.d.w.runs {
			if h.pid != 0 && r.record.PID == h.pid {
				go s.d.w.finish(name, 143, "SIGTERM", "")
			}
		}
		return nil
	})
}

func (s desk) Signal(k lease.Key, _ uint64, _ int, signal string) {
	_ = s.d.step(func() error {
		s.d.w.events = append(s.d.w.events, gpu.Event{Text: k.ID + " gets " + signal})
		return nil
	})
}

func (s desk) Ends(k lease.Key, fence uint64) (time.Time, bool) {
	task, _ := s.d.find(fmt.Sprintf("%d.%d.1", k.Run.Number, k.Run.Task))
	limit, limited := task.Lease.TimeLimit.Get()
	s.d.w.mu.Lock()
	defer s.d.w.mu.Unlock()
	return task.task(task.index).Granted.Add(time.Duration(limit)*time.Second + s.d.w.parked + s.d.w.moved), limited && s.d.w.parked >= 0
}

func (s desk) Learn(_ *job.Spec, id string, _ *job.Outcome, _ *job.Task) bool {
	if s.d.w.learns != nil {
		s.d.w.learns(id)
	}
	return true
}

func (s desk) List(kind lease.RunKind) (all []run.Held) {
	s.d.w.mu.Lock()
	defer s.d.w.mu.Unlock()
	for _, h := range s.d.w.leases {
		if h.old == (kind == "") {
			all = append(all, run.Held{Key: h.key, Fence: h.fence, Bound: h.pid != 0})
		}
	}
	return all
}

func (s desk) Claim(k lease.Key, fence uint64) (stands bool) {
	_ = s.d.step(func() error {
		h := s.d.w.of(k, fence)
		if stands = h != nil; stands {
			h.old = false
		}
		return nil
	})
	return stands
}

func (s desk) Taken(spec *job.Spec) bool {
	s.d.w.mu.Lock()
	defer s.d.w.mu.Unlock()
	return s.d.w.leases[spec.ID()] != nil
}

// signals returns how many signals a task has got.
func (w *world) signals(id string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if strings.HasPrefix(e.Text, id+" gets ") {
			n++
		}
	}
	return n
}

// minders plays the minders.
type minders struct{ d *daemon }

func (m minders) Start(_ context.Context, run string, _ runs.Limits) (id process.ID, err error) {
	w := m.d.w
	err = m.d.step(func() error {
		if w.refused != nil {
			return w.refused
		}
		w.pid++
		id = process.ID{PID: w.pid, Start: uint64(w.pid)}
		w.living[id.PID] = nil
		go w.mind(run, id)
		return nil
	})
	return id, err
}

func (m minders) Read(run string) (runs.Record, bool, error) {
	m.d.w.mu.Lock()
	defer m.d.w.mu.Unlock()
	if m.d.isDead() {
		return runs.Record{}, false, errKilled
	}
	if r := m.d.w.runs[run]; r != nil {
		return r.record, r.alive, nil
	}
	return runs.Record{}, false, nil
}

func (m minders) Remove(run string) error {
	var clearing chan struct{}
	m.d.w.set(func() { clearing = m.d.w.clearing })
	if clearing != nil {
		<-clearing
	}
	return m.d.step(func() error {
		if r := m.d.w.runs[run]; r != nil && r.alive {
			return errors.New("its minder lives")
		}
		delete(m.d.w.runs, run)
		return nil
	})
}

func (m minders) Kill(id process.ID) error {
	return m.d.step(func() error {
		if m.d.w.dead {
			return process.ErrGone
		}
		for name, r := range m.d.w.runs {
			if r.record.Minder() == id {
				go m.d.w.finish(name, -1, "", "")
			}
		}
		return nil
	})
}

func (m minders) List() ([]string, error) {
	m.d.w.mu.Lock()
	defer m.d.w.mu.Unlock()
	return slices.Collect(maps.Keys(m.d.w.runs)), nil
}

func (m minders) Watch(id process.ID, ended func()) (func(), error) {
	m.d.w.mu.Lock()
	defer m.d.w.mu.Unlock()
	watchers, lives := m.d.w.living[id.PID]
	if !lives {
		return nil, process.ErrGone
	}
	m.d.w.living[id.PID] = append(watchers, ended)
	return func() {}, nil
}

// gone tells that a minder has ended.
func (w *world) gone(id process.ID) {
	w.mu.Lock()
	watchers := w.living[id.PID]
	delete(w.living, id.PID)
	w.mu.Unlock()
	for _, ended := range watchers {
		ended()
	}
}

// mind is the life of a minder, as package minder has it.
func (w *world) mind(name string, id process.ID) {
	defer w.gone(id)
	w.mu.Lock()
	if w.early > 0 {
		w.early--
		w.mu.Unlock()
		return
	}
	r := w.runs[name]
	if r != nil && (r.alive || !r.record.Started.IsZero() || !r.record.Ended.IsZero()) {
		w.mu.Unlock()
		return // another minder has this run
	}
	r = &mindedRun{alive: true, record: runs.Record{PID: id.PID, Start: id.Start, Boot: w.boot}}
	w.runs[name] = r
	boot := w.boot
	w.mu.Unlock()
	var order api.MinderOrder
	for {
		time.Sleep(50 * time.Millisecond)
		w.mu.Lock()
		d, gone := w.daemon, w.boot != boot
		w.mu.Unlock()
		if gone {
			return
		}
		var err error
		if order, err = d.Runs().Order(name, r.record.Minder()); err == nil && !d.isDead() {
			break
		} else if errors.Is(err, runs.ErrNoOrder) && !d.isDead() {
			time.Sleep(50 * time.Millisecond) // it writes that down
			w.finish(name, 0, "", "the daemon has no order for this run")
			return
		}
	}
	task := strings.TrimPrefix(order.Variables[0], "BERTH_JOB=")
	if len(order.Variables) > 1 && strings.HasPrefix(order.Variables[1], "BERTH_TASK=") {
		task += "." + strings.TrimPrefix(order.Variables[1], "BERTH_TASK=")
	}
	w.mu.Lock()
	p := w.script(name, task, len(w.started[task])+1)
	if p.before {
		w.mu.Unlock()
		w.finish(name, -1, "", "")
		return
	}
	r.record.Started, r.record.Fence = when.Now(), order.Lease.Fence // as one that was written
	w.started[task] = append(w.started[task], name)
	w.mu.Unlock()
	time.Sleep(p.takes)
	if p.killed {
		w.finish(name, -1, "", "")
		return
	}
	w.finish(name, p.exit, "", "")
}

// finish ends a run. The exit code -1 means that its minder was killed.
func (w *world) finish(name string, exit int, signal, failure string) {
	w.mu.Lock()
	r := w.runs[name]
	if r == nil || !r.alive {
		w.mu.Unlock()
		return
	}
	r.alive = false
	if exit >= 0 {
		r.record.Ended, r.record.Signal, r.record.Failure = when.Now(), signal, failure
		if failure == "" {
			r.record.Exit = gpu.Some(exit)
		}
	}
	for id, h := range w.leases { // the ledger notices that the process has ended
		if h.pid == r.record.PID {
			delete(w.leases, id)
		}
	}
	w.mu.Unlock()
	w.gone(r.record.Minder())
}

// reboot ends the daemon and everything that runs.
func (w *world) reboot() *daemon {
	w.daemon.kill()
	<-w.daemon.over
	w.mu.Lock()
	w.boot += "'"
	for _, r := range w.runs {
		r.alive = false
	}
	clear(w.living)
	for id, h := range w.leases {
		if h.pid != 0 {
			delete(w.leases, id)
		}
	}
	w.mu.Unlock()
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
		if d.isDead() {
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
	w.daemon.kill()
	<-w.daemon.over
	w.mu.Lock()
	w.boot = ""
	w.mu.Unlock()
	time.Sleep(24 * time.Hour)
}

// idle checks that nothing is left of jobs that have all ended.
func (w *world) idle() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.leases {
		w.t.Errorf("the lease of %s is left", id)
	}
	for name, r := range w.runs {
		if r.alive {
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
