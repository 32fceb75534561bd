package pace

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process"
)

// A lease that is suspended runs when Suspend returns, and is not stopped until it
// is released as often as it was suspended.
func TestSuspend(t *testing.T) {
	p := spin(t)
	r := newRig(t, &book{lease: someLease(), members: []process.ID{p.id}}, "")
	if err := r.hold(0.5); err != nil {
		t.Fatal(err)
	}
	until(t, "it is stopped", func() bool { return stopped(t, p.id) })
	if err := errors.Join(r.Suspend(7), r.Suspend(7)); err != nil {
		t.Fatal(err)
	}
	if stopped(t, p.id) {
		t.Error("it is stopped after Suspend")
	}
	r.Continue(7)
	r.mu.Lock()
	l := r.leases[7]
	r.mu.Unlock()
	for range 3 { // what a cycle does
		if why := r.pause(t.Context(), l, r.Leases.Lease(l.Key, l.Fence), Cycle{Pause: LongestPause}); why != "" || stopped(t, p.id) {
			t.Fatalf("it is stopped, or refused: %q", why)
		}
	}
	r.Continue(7)
	until(t, "it is stopped again", func() bool { return stopped(t, p.id) })
}

// What somebody else has stopped since the pacer had stopped it stands still when the daemon
// is killed: a process whose memory was moved away, or one that its owner stopped.
func TestTheNextDaemonContinuesWhatWasPacedAlone(t *testing.T) {
	for name, free := range map[string]func(*rig) error{
		"parked": func(r *rig) error { return r.Suspend(7) },
		"let go": func(r *rig) error {
			r.Let(7, gpu.By{}, ByOperator)
			<-r.events // that it is held
			<-r.events // that it runs freely
			return nil
		},
	} {
		p := spin(t)
		r := newRig(t, &book{lease: someLease(), members: []process.ID{p.id}}, filepath.Join(t.TempDir(), FileName))
		if err := r.hold(0.5); err != nil {
			t.Fatal(err)
		}
		until(t, "it is stopped", func() bool { return stopped(t, p.id) })
		if err := free(r); err != nil {
			t.Fatal(err)
		}
		until(t, "it runs", func() bool { return !stopped(t, p.id) })
		if err := syscall.Kill(p.id.PID, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		until(t, "it stands still", func() bool { return stopped(t, p.id) })
		if n, err := Left(r.path, "this"); n != 0 || err != nil {
			t.Errorf("%s: left %d, %v", name, n, err)
		}
		_, damage := New(Options{Leases: r.book, Event: func(gpu.Event) {}, Log: slog.New(slog.DiscardHandler), Path: r.path, Boot: "this"})
		if damage != nil || !stopped(t, p.id) {
			t.Errorf("%s: the next daemon continues it: %v", name, damage)
		}
	}
}

// While the file names the processes of a lease, their memory must not go away.
func TestSuspendOnAFullDisk(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "state")
	p, _ := New(Options{Leases: &book{}, Event: func(gpu.Event) {}, Log: slog.New(slog.DiscardHandler), Path: filepath.Join(folder, FileName), Boot: "this"})
	id, err := process.Proc().Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(folder, 0o700), p.remember(7, []process.ID{id}), os.Rename(folder, folder+".away")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if p.Suspend(7) == nil {
			t.Error("the next daemon would continue it")
		}
	}
	if err := errors.Join(os.Rename(folder+".away", folder), p.Suspend(7)); err != nil {
		t.Error(err)
	}
	var k kept
	if err := p.file.Read(func(read kept) error { k = read; return nil }); err != nil || len(k.Processes) != 0 {
		t.Errorf("the file has %v: %v", k.Processes, err)
	}
}
