package mps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/process"
)

// leave starts a program and notes it as the daemon of a device, as an earlier
// berth would have.
func (p *Pool) leave(t *testing.T, uuid string, uid int, cmd *exec.Cmd) process.ID {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _, _ = in.Close(), cmd.Process.Kill(), cmd.Wait() })
	id, err := p.Processes.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := p.folder(key{uuid, uid}, true)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := dir.WriteFile(pidFile, fmt.Appendf(nil, "%d %d\n", id.PID, id.Start), 0o600); err != nil {
		t.Fatal(err)
	}
	return id
}

// A file that names a process which is no MPS daemon of that user is not
// believed: nothing else is ever signalled.
func TestNothingElseIsTakenOver(t *testing.T) {
	install(t)
	p := newPool(t, 0)
	me := os.Geteuid()
	strangers := []process.ID{
		p.leave(t, "GPU-another-program", me, exec.Command("cat")),
		p.leave(t, "GPU-another-user", me+1, imitated("GPU-x", t.TempDir())),
	}
	p.Keep("GPU-another-program", me, 1)
	p.takeOver()
	p.Release(1)
	p.stopUnused()
	for _, id := range strangers {
		if !p.Processes.Alive(id) || p.Serves([]process.ID{id}) {
			t.Errorf("process %d was taken for a daemon", id.PID)
		}
	}
	// Not even one that was taken for a daemon once.
	d := newDaemon(key{"GPU-another-program", me}, p.Dir, nil)
	d.id = strangers[0]
	p.ask = func(context.Context, *daemon, string) error { return nil }
	if p.stop(d); !p.Processes.Alive(d.id) {
		t.Error("it was signalled")
	}
}

// imitated is the command of a daemon beside the pool.
func imitated(uuid, pipe string) *exec.Cmd {
	cmd := exec.Command(control, "-f")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "CUDA_VISIBLE_DEVICES=" + uuid, "CUDA_MPS_PIPE_DIRECTORY=" + pipe}
	return cmd
}

// A daemon that was killed before it answered anybody is ended, and the lease
// gets another one.
func TestTakenOverThatDoesNotAnswer(t *testing.T) {
	install(t)
	p := newPool(t, time.Hour)
	me := os.Geteuid()
	mute := p.leave(t, "GPU-a", me, imitated("GPU-a", t.TempDir()))
	p.patience = 0
	p.ask = func(_ context.Context, d *daemon, _ string) error {
		if d.id == mute {
			return errors.New("no answer")
		}
		return nil
	}
	if _, err := p.Use(t.Context(), "GPU-a", me, 1); err != nil || p.idOf(t, "GPU-a") == mute || p.Processes.Alive(mute) {
		t.Errorf("%v, and the old one is alive: %v", err, p.Processes.Alive(mute))
	}
	p.ask = runClient
}

// A daemon that an earlier berth had no time to note is asked to quit, because a
// second one in the same folder does not start.
func TestDaemonThatWasNotNoted(t *testing.T) {
	install(t)
	p := newPool(t, time.Hour)
	me := os.Geteuid()
	if _, err := p.Use(t.Context(), "GPU-single", me, 1); err != nil {
		t.Fatal(err)
	}
	first := p.idOf(t, "GPU-single")
	p.unwatchAll()
	clear(p.daemons)
	if err := os.Remove(filepath.Join(p.Dir, strconv.Itoa(me), "GPU-single", pidFile)); err != nil {
		t.Fatal(err)
	}
	again := New(Options{Dir: p.Dir, Linger: time.Hour, Processes: process.Proc()})
	again.patience = time.Minute // the first may take its time on a busy machine
	if _, err := again.Use(t.Context(), "GPU-single", me, 2); err != nil || again.idOf(t, "GPU-single") == first {
		t.Errorf("it got no daemon of its own: %v", err)
	}
	again.unwatchAll()
}
