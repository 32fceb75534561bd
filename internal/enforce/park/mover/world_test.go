package mover_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/device/check"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/idle"
	"github.com/berth-gpu/berth/internal/enforce/park/hugepages"
	"github.com/berth-gpu/berth/internal/enforce/park/mover"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/file/journal/filelog/disktest"
	"github.com/berth-gpu/berth/internal/health/drains"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
)

// tester is a test, or one case of a property.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Context() context.Context
}

// world is a machine with one card, on which daemons come and go.
type world struct {
	tester
	*card
	disk     *disktest.Disk
	folder   string
	file     string // of parked leases
	settings config.Optimization
	services map[string]config.Service
	pages    *hugepages.Keeper
	host     memory
	vendor   gpu.Vendor
	boot     string
	damage   *file.Damage // of the file, when the last daemon started
	awake    bool         // as the last session was told
	idle     map[uint64]time.Time

	point func(name string) // is called at some points within a daemon

	setMu sync.Mutex // guards what the test changes while a daemon runs
	now   *daemon
}

// current returns the daemon that runs, or ran last.
func (w *world) current() *daemon {
	w.setMu.Lock()
	defer w.setMu.Unlock()
	return w.now
}

// set changes something of the world while a daemon runs.
func (w *world) set(change func()) {
	w.setMu.Lock()
	defer w.setMu.Unlock()
	change()
	if err := w.host.write(w.folder); err != nil {
		w.Fatal(err)
	}
	w.now.Configure(w.config())
}

// config returns the settings of a daemon.
func (w *world) config() *config.Config {
	return &config.Config{Optimization: w.settings, Services: maps.Clone(w.services)}
}

// at is called at some points within a daemon.
func (w *world) at(name string) {
	w.setMu.Lock()
	point := w.point
	w.setMu.Unlock()
	point(name)
}

// memory is that of the machine.
type memory struct{ total, available, group gpu.MiB }

// write writes the files in which the machine says how much memory it has.
func (m memory) write(root string) error {
	group := "max"
	if m.group > 0 {
		group = fmt.Sprint(int64(m.group) << 20)
	}
	var all error
	for name, text := range map[string]string{
		"proc/meminfo":                          fmt.Sprintf("MemTotal: %d kB\nMemAvailable: %d kB\n", m.total<<10, m.available<<10),
		"sys/fs/cgroup/programs/memory.max":     group,
		"sys/fs/cgroup/programs/memory.current": "0",
	} {
		path := filepath.Join(root, name)
		all = errors.Join(all, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600))
	}
	return all
}

// daemon is one that runs in a world, until it stops or is killed.
type daemon struct {
	*mover.Mover
	book   *ledger.Ledger
	world  *world
	cancel func()
	over   sync.WaitGroup
	dead   atomic.Bool

	mu     sync.Mutex
	events []gpu.Event
}

// worlds counts the worlds, whose files have different names.
var worlds atomic.Int64

const gib = 1024

// newWorld returns a machine with a card of this much memory, which a daemon runs on.
func newWorld(t tester, folder string, total gpu.MiB) *world {
	w := &world{
		tester: t, card: newCard("GPU-A", total), disk: disktest.New(), folder: folder, vendor: gpu.NVIDIA, boot: "this boot",
		settings: config.Default().Optimization,
		host:     memory{total: 1024 * gib, available: 1000 * gib}, idle: map[uint64]time.Time{}, point: func(string) {},
	}
	if err := w.host.write(folder); err != nil {
		w.Fatal(err)
	}
	w.file = filepath.Join(folder, fmt.Sprintf("%d-%s", worlds.Add(1), mover.FileName))
	w.start()
	return w
}

// book is the ledger, with the processes of the world.
type book struct {
	*ledger.Ledger
	d *daemon
}

func (b book) Members(_ lease.Key, fence uint64) (ids []process.ID) {
	for _, p := range b.d.world.of(fence) {
		ids = append(ids, process.ID(p.Process))
	}
	return ids
}

func (b book) Unparkable(k lease.Key, fence uint64) error {
	err := b.Ledger.Unparkable(k, fence)
	b.d.world.at("after Unparkable")
	return err
}

func (b book) Park(ctx context.Context, k lease.Key, fence uint64, by access.Actor, why string) (*lease.Lease, error) {
	b.d.world.at("before Park")
	l, err := b.Ledger.Park(ctx, k, fence, by, why)
	b.d.world.at("after Park")
	return l, err
}

func (b book) Return(ctx context.Context, k lease.Key, fence uint64, by access.Actor, why string, since time.Time, wait gpu.Opt[time.Duration]) (*lease.Lease, error) {
	b.d.world.at("before Return")
	l, err := b.Ledger.Return(ctx, k, fence, by, why, since, wait)
	if err == nil {
		b.d.world.at("after Return")
	}
	return l, err
}

// Read is in mover.Monitor.
func (d *daemon) Read(context.Context, string) {
	if d.dead.Load() {
		return
	}
	s := d.world.sample()
	d.book.Observe(placement.Observation{Device: d.device(), Sample: &s, State: gpu.Optimal, Health: gpu.Healthy})
}

// Find is in mover.Monitor.
func (d *daemon) Find(string) (monitor.Reading, bool) {
	return monitor.Reading{Device: d.device(), Sample: d.world.sample(), Sampled: true}, true
}

func (d *daemon) device() gpu.Device {
	return gpu.Device{UUID: d.world.uuid, Name: "a card", Vendor: d.world.vendor, MemoryTotal: d.world.total}
}

// seam is the Monitor of a daemon: its methods have names that Parker has too.
type seam struct{ d *daemon }

func (s seam) Read(ctx context.Context, uuid string)   { s.d.Read(ctx, uuid) }
func (s seam) Find(ref string) (monitor.Reading, bool) { return s.d.Find(ref) }

// start starts a daemon in the world as it is.
func (w *world) start() {
	w.Helper()
	d := &daemon{world: w}
	table := process.Proc().With(w.card)
	var err error
	d.book, err = ledger.Open(ledger.Options{
		Settings: quota.Settings{
			Device: func(string) quota.DeviceSettings { return quota.DeviceSettings{MaxPipelines: 8} }, Wait: time.Hour,
			Services: map[string]quota.Served{"fixed": {Service: quota.Service{Name: "fixed", Parkable: gpu.Some(false)}}},
		},
		Processes: table, CPUs: 4,
		Open: func(replay func(journal.Entry) error) (journal.Journal, error) {
			log, _, err := filelog.Open(w.disk, filelog.Options{Segment: 64 << 10, Reserve: 4 << 10, Step: 4 << 10, Unsynced: 16 << 10}, replay)
			return log, err
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	closures, _ := drains.Open("")
	d.Mover, w.damage = mover.New(mover.Options{
		Leases: book{d.book, d},
		Open: func(ctx context.Context, _ gpu.Device, awake bool) (check.Session, error) {
			w.setMu.Lock()
			w.awake = awake
			w.setMu.Unlock()
			return &session{card: w.card, d: d}, ctx.Err()
		},
		Monitor: seam{d}, Machine: mover.Machine{Root: w.folder, Processes: table}, Pages: w.pages, Processes: table, Settings: w.config(), Publish: d.hear, Closures: closures, Denied: func(string) string { return "" },
		Idle: func(fence uint64) (f idle.Figures, known bool) {
			w.setMu.Lock()
			defer w.setMu.Unlock()
			f.Since, known = w.idle[fence]
			return f, known
		},
		Log: slog.New(slog.DiscardHandler), Path: w.file, Boot: w.boot,
	})
	d.book.Subscribe(ledger.Hooks{Event: func(lease.Notice) { d.Nudge() }, Changed: d.Changed})
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel = cancel
	d.Read(ctx, w.uuid)
	d.over.Go(func() { _ = d.book.Run(ctx) })
	d.over.Go(func() { d.Run(ctx) })
	d.over.Go(func() { // what a monitor does
		for wait(ctx, time.Second) {
			d.Read(ctx, w.uuid)
		}
	})
	w.setMu.Lock()
	w.now = d
	w.setMu.Unlock()
	synctest.Wait()
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (d *daemon) hear(e gpu.Event) {
	d.world.at("tell " + string(e.Code))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e)
}

// told returns the events with a code about a lease.
func (d *daemon) told(code gpu.EventCode, id string) (list []gpu.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if e.Code == code && e.Lease == id {
			list = append(list, e)
		}
	}
	return list
}

// die has the daemon be killed: nothing that it does from here on counts. It is safe
// to call within the daemon.
func (d *daemon) die() {
	if d.dead.Swap(true) {
		return
	}
	d.world.disk.CrashAt(d.world.disk.Ops(), 0)
	text, err := os.ReadFile(d.world.file)
	d.world.file = filepath.Join(d.world.folder, fmt.Sprintf("%d-%s", worlds.Add(1), mover.FileName))
	if err == nil {
		err = os.WriteFile(d.world.file, text, 0o600)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.world.Errorf("%v", err)
	}
	d.cancel()
}

// restart starts a new daemon after the present one has stopped, or was killed.
func (w *world) restart() {
	w.Helper()
	w.stop()
	w.start()
}

func (w *world) stop() {
	w.now.cancel()
	w.now.over.Wait()
	if w.now.dead.Load() {
		w.disk.Kill()
		w.disk.Mend()
	}
}

// request returns a request for a lease that may be parked.
func request(id string, memory gpu.MiB, change ...func(*lease.Request)) lease.Request {
	r := lease.Request{
		ID: id, Holder: lease.Holder{User: "u", UID: 1000}, Binding: lease.ByName, GPUs: 1, Memory: memory, Slots: 1, Terms: lease.Terms{Parkable: true},
		By: access.Actor{User: "u", UID: 1000, Door: access.Socket, Role: access.User},
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

// grant leases memory and starts a process that uses it.
func (w *world) grant(id string, memory gpu.MiB, change ...func(*lease.Request)) *lease.Lease {
	w.Helper()
	l, err := w.now.book.Acquire(w.Context(), request(id, memory, change...))
	if err != nil {
		w.Fatal(err)
	}
	w.begin(id, l.Fence, memory)
	w.now.Read(w.Context(), w.uuid)
	return l.Lease
}

// queue asks for memory in the background, and starts a process when it is granted.
func (w *world) queue(id string, memory gpu.MiB, change ...func(*lease.Request)) <-chan *lease.Lease {
	granted := make(chan *lease.Lease, 1)
	d := w.now
	go func() {
		l, err := d.book.Acquire(context.WithoutCancel(w.Context()), request(id, memory, change...))
		if err == nil {
			w.begin(id, l.Fence, memory)
		}
		granted <- l.Lease
	}()
	synctest.Wait()
	return granted
}

// state returns what the book says of a lease.
func (w *world) state(l *lease.Lease) lease.State {
	held, found := w.now.book.Find(l.Key())
	if !found || held.Fence != l.Fence {
		return ""
	}
	return held.State
}

// check fails if something happened that must never happen.
func (w *world) check() {
	w.Helper()
	w.card.mu.Lock()
	defer w.card.mu.Unlock()
	for _, wrong := range w.wrong {
		w.Fatalf("%s", wrong)
	}
}

// parked fails unless a lease and its processes are parked.
func (w *world) parked(l *lease.Lease) {
	w.Helper()
	synctest.Wait() // others may have its room a moment before the mover knows that the book has noted it
	s, _ := w.now.Of(l.Fence)
	if states := w.states(l.Fence); w.state(l) != lease.Parked || s.Phase != move.Parked || states[move.Checkpointed] != len(w.of(l.Fence)) {
		w.Fatalf("%s is %q in the book, its status is %+v, and its processes are %v", l.ID, w.state(l), s, states)
	}
}

// active fails unless a lease and its processes are active.
func (w *world) active(l *lease.Lease) {
	w.Helper()
	s, _ := w.now.Of(l.Fence)
	if states := w.states(l.Fence); w.state(l) != lease.Active || s.Phase != "" || states[move.Running] != len(w.of(l.Fence)) {
		w.Fatalf("%s is %q in the book, its status is %+v, and its processes are %v", l.ID, w.state(l), s, states)
	}
}

// inWorld runs a test in a world with simulated time.
func inWorld(t *testing.T, total gpu.MiB, do func(t *testing.T, w *world)) {
	t.Helper()
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, folder, total)
		defer w.check()
		defer w.stop()
		do(t, w)
	})
}
