package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/file/journal/filelog/disktest"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/lease/stored"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/when"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is what a ledger lives in: a disk that can fill up and fail, and
// settings. It outlives the ledgers that are opened in it.
type world struct {
	disk     *disktest.Disk
	slips    *disktest.Disk // of the log of waiting requests
	real     file.Folder    // used instead, if it is not nil
	settings quota.Settings
	cast     cast                                  // simulated processes
	entries  func([]byte) []byte                   // changes what is read back; nil: nothing
	wrap     func(journal.Journal) journal.Journal // puts another one around the journal; nil: none
	audited  func([]lease.Effect, error) error     // for Hooks.Authority; nil: nobody
	changed  func(*lease.Effect)                   // for Hooks.Changed; nil: nobody
	clock    when.Clock

	mu     sync.Mutex // guards what follows
	refuse error      // what the journal answers instead of writing; nil: it writes
	frees  bool       // while it refuses, it still takes what frees something
	tries  int        // how often it has refused
}

func newWorld() *world {
	return &world{disk: disktest.New(), slips: disktest.New(), settings: quota.Settings{
		Device: func(string) quota.DeviceSettings { return quota.DeviceSettings{MaxPipelines: 2} },
		Wait:   time.Minute,
	}}
}

// fail lets the journal refuse from now on; nil lets it go on.
func (w *world) fail(err error, frees bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse, w.frees = err, frees
}

func (w *world) refusals() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tries
}

// small keeps the files of a journal in memory small.
var small = filelog.Options{Segment: 64 << 10, Reserve: 4 << 10, Step: 4 << 10, Unsynced: 16 << 10}

func (w *world) where() file.Folder {
	if w.real != nil {
		return w.real
	}
	return w.disk
}

// open is for Options.
func (w *world) open(replay func(journal.Entry) error) (journal.Journal, error) {
	log, _, err := filelog.Open(w.where(), small, func(r journal.Entry) error {
		if w.entries != nil {
			r.Data = w.entries(r.Data)
		}
		return replay(r)
	})
	if err != nil {
		return nil, err
	}
	if w.wrap != nil {
		return w.wrap(log), nil
	}
	return &fragile{log, w}, nil
}

// openWaiting is for Options.
func (w *world) openWaiting(replay func(journal.Entry) error) (journal.Journal, error) {
	log, _, err := filelog.Open(w.slips, small, replay)
	return log, err
}

// fragile is a journal that fails on command, before anything is written.
type fragile struct {
	journal.Journal
	world *world
}

func (f *fragile) Append(group [][]byte, care journal.Care) error {
	f.world.mu.Lock()
	defer f.world.mu.Unlock()
	if f.world.refuse != nil && !(f.world.frees && care.Reserve) {
		f.world.tries++
		return f.world.refuse
	}
	return f.Journal.Append(group, care)
}

var (
	errFull   error = &journal.WriteError{Op: "write to", File: "log", Full: true, Err: errors.New("no room")}
	errBroken error = &journal.WriteError{Op: "write to", File: "log", Err: errors.New("input/output error")}
)

// tester is a test, a benchmark, or one case of a property.
type tester interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
	Context() context.Context
}

// keeper is a ledger at work.
type keeper struct {
	*Ledger
	t    tester
	stop func()
	die  func(crash func())

	mu     sync.Mutex           // guards what follows
	events map[string]gpu.Event // the last of each kind and lease
	counts map[gpu.EventCode]int
	heard  chan struct{} // closed and replaced with every event
	onTold func(gpu.Event)
}

// start opens a ledger and lets it run until the test is over. Then the book
// is checked, and must be the one that its journal describes.
func (w *world) start(t tester) *keeper {
	t.Helper()
	k := &keeper{t: t, events: map[string]gpu.Event{}, counts: map[gpu.EventCode]int{}, heard: make(chan struct{})}
	l, err := Open(Options{
		Settings: w.settings, Processes: process.Proc().With(w.cast), CPUs: 4, Clock: w.clock, Open: w.open, OpenWaiting: w.openWaiting,
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Subscribe(Hooks{Event: k.hear, Authority: w.audited, Changed: w.changed})
	k.Ledger = l
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	var once sync.Once
	k.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("the ledger ended with %v", err)
			}
			k.audit(w)
		})
	}
	k.die = func(crash func()) {
		once.Do(func() {
			w.slips.Kill()
			crash() // from here on nothing that it does reaches the disk
			cancel()
			<-done
		})
	}
	t.Cleanup(k.stop)
	return k
}

// byID names a lease by its id alone.
func byID(id string) lease.Name { return lease.Name{ID: id} }

// only returns the key of the only lease or request with an id, or a key that
// nothing has.
func (l *Ledger) only(id string) lease.Key {
	k, err := l.Seek(access.Daemon(), access.Look, byID(id))
	if err != nil {
		panic(err)
	}
	return k
}

// audit is what must hold for a ledger that has stopped.
func (k *keeper) audit(w *world) {
	k.t.Helper()
	if err := recount(k.book, slices.Collect(maps.Keys(k.devices))...); err != nil {
		k.t.Error(err)
	}
	replayed := w.replay(k.t)
	if got, want := standing(replayed), k.standing(); got != want || replayed.Fence() > k.book.Fence() {
		k.t.Errorf("the journal describes\n%s\nand the book was\n%s", got, want)
	}
	waiting := slices.DeleteFunc(slices.Clone(k.book.Waiting()), func(r *lease.Request) bool { return r.Absent })
	if len(k.waiters) != len(waiting) {
		k.t.Errorf("%d are waited for, and %d wait", len(k.waiters), len(waiting))
	}
	k.auditSnapshot()
}

// auditSnapshot holds what placement goes by against the book.
func (k *keeper) auditSnapshot() {
	k.t.Helper()
	for uuid := range k.devices {
		sum, _ := k.book.Sum(uuid)
		use, _ := k.snapshot.Use(uuid)
		if use.Available != sum.Available() || use.Active != sum.Active || use.Usable != sum.Usable {
			k.t.Errorf("%s: placement sees %+v, and the book has %+v", uuid, use, sum)
		}
	}
}

// replay is the book that the journal describes.
func (w *world) replay(t tester) *lease.Book {
	t.Helper()
	book := lease.New()
	log, _, err := filelog.Open(w.where(), small, func(r journal.Entry) error {
		_, err := book.Read(r.Data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := recount(book); err != nil {
		t.Error(err)
	}
	return book
}

func (k *keeper) hear(n lease.Notice) {
	e := n.Whole()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events[string(e.Code)+e.Lease] = e
	k.counts[e.Code]++
	close(k.heard)
	k.heard = make(chan struct{})
	if k.onTold != nil {
		k.onTold(e)
	}
}

// told waits for an event about a lease and returns it.
func (k *keeper) told(code gpu.EventCode, id string) gpu.Event {
	k.t.Helper()
	for {
		k.mu.Lock()
		e, was := k.events[string(code)+id]
		heard := k.heard
		k.mu.Unlock()
		if was {
			return e
		}
		select {
		case <-heard:
		case <-k.t.Context().Done():
			k.t.Fatalf("%s of %s was never told", code, id)
		}
	}
}

func dev(i int) string { return fmt.Sprintf("GPU-%d", i) }

// device shows the ledger a device with nothing on it, in the best state.
func (k *keeper) device(i int, total gpu.MiB, change ...func(*placement.Observation)) {
	o := placement.Observation{
		Device: gpu.Device{UUID: dev(i), Index: i, Name: "Simulated", Vendor: gpu.Simulated, MemoryTotal: total},
		Sample: &gpu.Sample{GPU: dev(i), MemoryUsed: gpu.Some(gpu.MiB(0)), Processes: []gpu.Process{}},
		State:  gpu.Optimal, Health: gpu.Healthy,
	}
	for _, c := range change {
		c(&o)
	}
	k.Observe(o)
}

// used puts memory of a process on an observed device.
func used(pid int, memory gpu.MiB) func(*placement.Observation) {
	return func(o *placement.Observation) {
		o.Sample.MemoryUsed = gpu.Some(o.Sample.MemoryUsed.Or(0) + memory)
		o.Sample.Processes = append(o.Sample.Processes, gpu.Process{PID: pid, Memory: gpu.Some(memory)})
	}
}

func inState(s gpu.State) func(*placement.Observation) {
	return func(o *placement.Observation) { o.State, o.Reason = s, "it is "+string(s) }
}

// Foreign is the processes under no lease on a device.
func (k *keeper) Foreign(uuid string) []int {
	k.Ledger.mu.RLock()
	defer k.Ledger.mu.RUnlock()
	return k.foreign(uuid).PIDs
}

// Acquire returns the lease of a request, whether it is new or not.
func (k *keeper) Acquire(ctx context.Context, r lease.Request) (*lease.Lease, error) {
	found, err := k.Ledger.Acquire(ctx, r)
	return found.Lease, err
}

// madeAgain makes a request find the lease that it was granted before.
func madeAgain(which lease.Again) func(*lease.Request) {
	return func(r *lease.Request) { r.Again = which }
}

// grant acquires what must be granted.
func (k *keeper) grant(r lease.Request) *lease.Lease {
	k.t.Helper()
	granted, err := k.Acquire(k.t.Context(), r)
	if err != nil {
		k.t.Fatalf("%s was refused: %v", r.ID, err)
	}
	return granted
}

// refused acquires what must not be granted.
func (k *keeper) refused(r lease.Request) error {
	k.t.Helper()
	granted, err := k.Acquire(k.t.Context(), r)
	if err == nil {
		k.t.Fatalf("%s was granted on %s", granted.ID, granted.Parts[0].GPU)
	}
	return err
}

func (k *keeper) give(id string, n int) {
	k.t.Helper()
	if _, err := k.Release(k.t.Context(), byID(id), 0, by(n)); err != nil {
		k.t.Fatalf("release %s: %v", id, err)
	}
}

// decision is what became of a request that waits.
type decision struct {
	lease *lease.Lease
	err   error
}

// queue asks for something and returns when the request stands in the queue,
// or is decided.
func (k *keeper) queue(ctx context.Context, r lease.Request) <-chan decision {
	answers := make(chan decision, 1)
	go func() {
		l, err := k.Acquire(ctx, r)
		answers <- decision{l, err}
	}()
	k.told(gpu.EventWaiting, r.ID)
	return answers
}

// waiting is the ids of those who wait, in order.
func (k *keeper) waiting() []string {
	ids := []string{}
	for _, r := range k.View().Waiting {
		ids = append(ids, r.ID)
	}
	return ids
}

// leases is the ids of those who hold something, oldest first.
func (k *keeper) leases() []string {
	ids := []string{}
	for _, l := range k.View().Leases {
		ids = append(ids, l.ID)
	}
	return ids
}

// standing is every lease in the book, as text.
func (k *keeper) standing() string {
	k.Ledger.mu.RLock()
	defer k.Ledger.mu.RUnlock()
	return standing(k.book)
}

// standing leaves out how far fences have got: those that were used up by
// grants that could not be written down are not in the journal, and nobody was
// ever told of them.
func standing(b *lease.Book) string {
	text, _, _ := strings.Cut(dump(b), `{"v":1,"kind":"fence"`)
	return text
}

// dump returns everything durable in a book as text, one entry a line. A compacted
// journal holds the same entries.
func dump(b *lease.Book) string {
	var text []byte
	for r := range lease.EntriesOf(b.Leases()) {
		text = append(lease.AppendEntry(text, &r), '\n')
	}
	r := stored.NewFence(b.Fence(), "")
	return string(append(lease.AppendEntry(text, &r), '\n'))
}

// child starts a process that lives until it is killed.
func child(t tester) *exec.Cmd {
	t.Helper()
	cmd, _ := script(t)
	return cmd
}

// script starts a process that lives until it is killed, or until exit lets it exit by
// itself. exit returns when it is gone.
func script(t tester) (cmd *exec.Cmd, exit func()) {
	t.Helper()
	cmd = exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
}

// kill ends a process the hard way, and returns when it is gone.
func kill(t tester, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	_ = cmd.Wait()
}

// anotherBoot makes every entry that is read back one of an earlier boot.
func anotherBoot(t tester) func([]byte) []byte {
	t.Helper()
	boot, err := process.Proc().Boot()
	if err != nil {
		t.Fatal(err)
	}
	return func(entry []byte) []byte { return bytes.ReplaceAll(entry, []byte(boot), []byte("an-earlier-boot")) }
}
