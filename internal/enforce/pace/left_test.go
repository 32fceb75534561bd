package pace

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal/filelog/disktest"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// A process in an uninterruptible call is not stopped yet, and would be when the call
// returns: the signal to continue goes to every process that may have been stopped.
func TestWhatRunsIsContinuedToo(t *testing.T) {
	p := start(t, "trap 'echo continued' CONT; echo up; sleep 1000 & wait; wait", &syscall.SysProcAttr{Setsid: true})
	if line, err := p.out.ReadString('\n'); line != "up\n" {
		t.Fatal(line, err)
	}
	path := filepath.Join(t.TempDir(), FileName)
	b := &book{lease: someLease(), members: []process.ID{p.id}}
	earlier, _ := New(Options{Leases: b, Event: func(gpu.Event) {}, Log: slog.New(slog.DiscardHandler), Path: path, Boot: "this"})
	if err := earlier.remember(7, []process.ID{p.id}); err != nil {
		t.Fatal(err)
	}
	_, _ = New(Options{Leases: b, Event: func(gpu.Event) {}, Log: slog.New(slog.DiscardHandler), Path: path, Boot: "this"})
	if line, err := p.out.ReadString('\n'); line != "continued\n" {
		t.Errorf("the next daemon: it says %q, %v", line, err)
	}
	l := newPaced(Hold{Key: b.lease.Key(), Fence: 7, Share: 0.5, Source: ByOperator})
	l.stops([]process.ID{p.id})
	earlier.leases[7] = l
	earlier.rescue()
	if line, err := p.out.ReadString('\n'); line != "continued\n" {
		t.Errorf("the daemon whose guardian is gone: it says %q, %v", line, err)
	}
}

// A process that somebody traces since it was stopped runs on when the tracer leaves it.
func TestWhatIsTracedIsContinuedToo(t *testing.T) {
	p := spin(t)
	if err := syscall.Kill(p.id.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, "it is stopped", func() bool { return stopped(t, p.id) })
	done := make(chan string)
	go func() {
		runtime.LockOSThread() // for good: the end of the thread ends the tracing
		if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(p.id.PID), 0, 0, 0, 0); errno != 0 {
			done <- errno.Error()
			return
		}
		_, again := continueStopped(process.Proc(), []process.ID{p.id})
		done <- fmt.Sprint(again)
	}()
	if got := <-done; got != "[]" {
		t.Fatal(got)
	}
	until(t, "it runs", func() bool { return !stopped(t, p.id) })
}

// A process that cannot be continued now is tried again, and is not forgotten.
func TestContinuesLater(t *testing.T) {
	p, root := spin(t), t.TempDir()
	if err := syscall.Kill(p.id.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, "it is stopped", func() bool { return stopped(t, p.id) })
	folder := filepath.Join(root, strconv.Itoa(p.id.PID))
	if err := os.MkdirAll(filepath.Join(folder, "stat"), 0o700); err != nil { // which cannot be read
		t.Fatal(err)
	}
	d, _ := New(Options{Leases: &book{}, Event: func(gpu.Event) {}, Log: slog.New(slog.DiscardHandler), Boot: "this"})
	d.table = process.At(root)
	d.resume([]process.ID{p.id})
	if d.rests() {
		t.Error("nothing is to be done, and a process is stopped")
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join("/proc", strconv.Itoa(p.id.PID)), folder); err != nil {
		t.Fatal(err)
	}
	if n := d.resume(nil); n != 1 || !d.rests() {
		t.Errorf("continued %d", n)
	}
	until(t, "it runs", func() bool { return !stopped(t, p.id) })
}

// However many processes a lease has, the guardian is asked for few at a time, so that
// pauses of other leases end in time.
func TestManyProcessesAreStoppedInTurn(t *testing.T) {
	orders := filepath.Join(t.TempDir(), "orders")
	const many = 2*mostAtOnce + 3
	// They end with their input, which ends with the test, whatever becomes of it.
	p := start(t, "exec 3<&0; for i in $(seq "+strconv.Itoa(many-1)+"); do cat <&3 & done; echo up; wait", &syscall.SysProcAttr{Setsid: true})
	if line, err := p.out.ReadString('\n'); line != "up\n" {
		t.Fatal(line, err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-p.id.PID, syscall.SIGKILL) })
	members := process.Proc().Family().Tree([]process.ID{p.id})
	if len(members) != many {
		t.Fatalf("it has %d processes", len(members))
	}
	t.Setenv("PACER_ORDERS", orders)
	r := newRig(t, &book{lease: someLease(), members: members}, "")
	if err := r.hold(0.1); err != nil {
		t.Fatal(err)
	}
	until(t, "all are stopped at once", func() bool {
		for _, id := range members {
			if !stopped(t, id) {
				return false
			}
		}
		return true
	})
	r.end()
	for _, id := range members {
		if stopped(t, id) {
			t.Errorf("%v is left stopped", id)
		}
	}
	kept, err := os.Open(orders)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	lines := bufio.NewScanner(kept)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			t.Fatal(err)
		}
		if len(o.Stop) > mostAtOnce {
			t.Errorf("one order stops %d", len(o.Stop))
		}
	}
}

// A share that somebody set outlives a daemon that cannot carry it out.
func TestSharesAreKept(t *testing.T) {
	for name, test := range map[string]struct {
		hinder func(*lease.Lease, *Options)
		kept   bool
	}{
		"another daemon is in charge": {func(_ *lease.Lease, o *Options) { o.Denied = func(string) string { return "the other one" } }, true},
		"the lease is parked":         {func(l *lease.Lease, _ *Options) { l.State = lease.Parked }, true},
		"there is no guardian":        {func(_ *lease.Lease, o *Options) { o.Guardian = nil }, true},
		"the lease has a scope":       {func(l *lease.Lease, _ *Options) { l.Scope = []string{"pod1"} }, false},
		"the lease has ended":         {func(l *lease.Lease, _ *Options) { l.Fence++ }, false},
	} {
		o := Options{Event: func(gpu.Event) {}, Log: slog.New(slog.DiscardHandler), Guardian: guardianCommand(), Boot: "this", Path: filepath.Join(t.TempDir(), FileName)}
		b := &book{lease: someLease()}
		o.Leases = b
		first, _ := New(o)
		for _, source := range []Source{ByOwner, ByOperator} {
			if err := first.Hold(Hold{Key: b.lease.Key(), Fence: 7, Share: 0.5, Source: source}); err != nil {
				t.Fatal(err)
			}
		}
		between := o
		test.hinder(b.lease, &between)
		_, _ = New(between)
		b.lease = someLease()
		last, _ := New(o)
		if told, held := last.Of(7); held != test.kept || held && len(told.Holds) != 2 {
			t.Errorf("%s: held %+v, %v", name, told, held)
		}
	}
}

// unlocked is a log that notes whether mu is free when it is written to.
type unlocked struct {
	slog.Handler
	p            *Pacer
	written, bad int
}

func (u *unlocked) Enabled(context.Context, slog.Level) bool { return true }

func (u *unlocked) Handle(context.Context, slog.Record) error {
	u.written++
	for range 10000 { // somebody else may have it for a moment
		if u.p.mu.TryLock() {
			u.p.mu.Unlock()
			return nil
		}
		runtime.Gosched()
	}
	u.bad++
	return nil
}

// A share that cannot be written down does not hold. The end of one holds, and is written
// down as soon as that is possible. Nobody's pauses wait for the disk meanwhile.
func TestSharesOnAFullDisk(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		log, b, told := &unlocked{Handler: slog.DiscardHandler}, &book{lease: someLease()}, 0
		p, _ := New(Options{
			Leases: b, Devices: noDevices{}, Event: func(gpu.Event) { told++ }, Log: slog.New(log),
			Guardian: guardianCommand(), Path: filepath.Join(folder, FileName), Boot: "this",
		})
		log.p = p
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		over := make(chan struct{})
		go func() { defer close(over); p.Run(ctx) }()
		hold := func(share float64) error {
			return p.Hold(Hold{Key: b.lease.Key(), Fence: 7, Share: share, Source: ByOwner})
		}
		if err := errors.Join(hold(0.3), os.RemoveAll(folder)); err != nil {
			t.Fatal(err)
		}
		if err := hold(0.1); err == nil {
			t.Error("a share holds that is in no file")
		}
		if s, _ := p.Of(7); s.Share() != 0.3 || told != 1 {
			t.Errorf("it is held to %g, and people were told %d times", s.Share(), told)
		}
		if !p.Let(7, gpu.By{}, ByOwner) {
			t.Error("nobody held it")
		}
		synctest.Wait()
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p.Path, []byte(`{"boot":"this","holds":[{"fence":7,"share":0.3,"source":"owner"}]}`), 0o600); err != nil { // as it was
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // simulated
		if text, err := os.ReadFile(p.Path); err != nil || strings.Contains(string(text), "owner") {
			t.Errorf("the file is %s: %v", text, err)
		}
		if log.written == 0 || log.bad != 0 {
			t.Errorf("of %d writes that failed, %d had the lock", log.written, log.bad)
		}
		cancel()
		<-over
	})
}

// A device that runs slower after each pause needs no pause at all for a share above that.
func TestAShareAboveTheGain(t *testing.T) {
	for _, share := range []float64{0.9, 0.94, 0.97, 0.999} {
		var c Controller
		c.Hold(share)
		at := time.Unix(1_800_000_000, 0)
		for range 100 {
			c.Paused(at, at.Add(100*time.Millisecond))
			c.Clocked(at.Add(150*time.Millisecond), 1000)
			c.Clocked(at.Add(500*time.Millisecond), 1200)
			if cycle := c.Next(); cycle.Run < LeastRun || cycle.Pause < 0 {
				t.Fatalf("at %g the cycle is %+v, the gain %g", share, cycle, c.clock.gain())
			}
			at = at.Add(time.Second)
		}
		if gain := c.clock.gain(); gain >= 0.94 {
			t.Fatalf("the gain is %g", gain)
		}
	}
}

// When the clock is set back, what is measured begins again.
func TestTheClockIsSetBack(t *testing.T) {
	var c Controller
	c.Hold(0.5)
	for _, start := range []time.Time{time.Unix(1_900_000_000, 0), time.Unix(1_800_000_000, 0)} {
		for i := range 20 {
			at := start.Add(time.Duration(i) * time.Second)
			c.Paused(at, at.Add(time.Duration(1+start.Unix()%2)*250*time.Millisecond))
			c.Clocked(at.Add(600*time.Millisecond), 1000)
		}
		if got := c.Measured().Share; math.Abs(got-0.75) > 0.01 {
			t.Errorf("after %v: %g", start, got)
		}
		if ran, runs := c.pauses.since(start.Add(19*time.Second + 600*time.Millisecond)); !runs || ran > time.Second {
			t.Errorf("it has run for %v, %v", ran, runs)
		}
	}
}

// A pause is as long as it was, whatever happens to the clock meanwhile.
func TestPausesAreMeasuredWithoutTheClock(t *testing.T) {
	p := pause{from: time.Now().Add(-time.Second)}
	if r := p.report(7); time.Duration(r.Until-r.From) < time.Second || r.Lease != 7 {
		t.Errorf("it reports %+v", r)
	}
	if !strings.Contains(p.from.String(), "m=") {
		t.Error("its beginning is by the clock of the wall")
	}
}

// The shares that people set survive a power loss, also one after the file was written for
// a new process.
func TestSharesSurviveAPowerLoss(t *testing.T) {
	folder, disk := t.TempDir(), disktest.New()
	file.Simulate(func(path string, real file.Folder) file.Folder {
		if path == folder {
			return disk
		}
		return real
	})
	t.Cleanup(func() { file.Simulate(func(_ string, real file.Folder) file.Folder { return real }) })
	b := &book{lease: someLease()}
	p, _ := New(Options{Leases: b, Event: func(gpu.Event) {}, Log: slog.New(slog.DiscardHandler), Guardian: guardianCommand(), Path: filepath.Join(folder, FileName), Boot: "this"})
	if err := p.Hold(Hold{Key: b.lease.Key(), Fence: 7, Share: 0.2, Source: ByOperator}); err != nil {
		t.Fatal(err)
	}
	if err := p.remember(7, []process.ID{{PID: 4711, Start: 1}}); err != nil {
		t.Fatal(err)
	}
	disk.PowerCut(func(n int) int { // what was not synced is lost, except for new names
		if n == 2 {
			return 1
		}
		return 0
	})
	if text, err := disk.ReadFile(FileName); err != nil || !strings.Contains(string(text), `"operator"`) {
		t.Errorf("the file is %q: %v", text, err)
	}
}

// Whoever lets a lease go hears whether a person had set one of the shares: their end has to
// be written down, whatever others set meanwhile.
func TestTheEndOfASharePeopleSet(t *testing.T) {
	l := newPaced(Hold{Key: someLease().Key(), Fence: 7})
	for _, source := range sources() {
		l.hold(Hold{Share: 0.5, Source: source})
	}
	for _, source := range sources() {
		if ended, byHand := l.let([]Source{source}, gpu.By{}); !ended || byHand == source.fromSettings() {
			t.Errorf("%s: ended %v, by hand %v", source, ended, byHand)
		}
	}
}

// Of a lease that cannot be stopped yet, people do not hear that it is held, and hear so when
// it can be.
func TestSettingsHoldWhatCannotBeStoppedYet(t *testing.T) {
	p := spin(t)
	denied := atomic.Pointer[string]{}
	why := "the other one"
	denied.Store(&why)
	events := make(chan gpu.Event, 10)
	b := &book{lease: someLease(), members: []process.ID{p.id}}
	r, _ := New(Options{
		Leases: b, Devices: noDevices{}, Event: func(e gpu.Event) { events <- e }, Log: slog.New(slog.DiscardHandler),
		Guardian: guardianCommand(), Boot: "this", Denied: func(string) string { return *denied.Load() },
	})
	if err := r.Hold(Hold{Key: b.lease.Key(), Fence: 7, Share: 0.5, Source: ByService}); err != nil {
		t.Fatal(err)
	}
	if e := <-events; e.Data["refused"] != true {
		t.Fatalf("told %+v", e)
	}
	if told, _ := r.Of(7); told.Refused != why {
		t.Errorf("%+v", told)
	}
	none := ""
	denied.Store(&none)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	defer func() { cancel(); <-done }()
	if e := <-events; e.Data["refused"] == true || e.Data["share"] != 0.5 {
		t.Errorf("told %+v", e)
	}
	until(t, "it is stopped", func() bool { return stopped(t, p.id) })
}

// Settings ask once: a lease whose processes cannot be looked at in that moment is held when
// they can be.
func TestSettingsHoldWhatCannotBeLookedAt(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "4711", "stat"), 0o700); err != nil { // which cannot be read
		t.Fatal(err)
	}
	b := &book{lease: someLease(), members: []process.ID{{PID: 4711, Start: 1}}}
	p, _ := New(Options{Leases: b, Event: func(gpu.Event) {}, Log: slog.New(slog.DiscardHandler), Guardian: guardianCommand(), Boot: "this"})
	p.table = process.At(root)
	if err := p.Hold(Hold{Key: b.lease.Key(), Fence: 7, Share: 0.5, Source: ByService}); err != nil || len(p.Held()) != 1 {
		t.Errorf("held %+v: %v", p.Held(), err)
	}
}
