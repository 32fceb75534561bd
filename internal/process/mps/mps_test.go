package mps

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

const nobody = 65534

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// imitation stands in for NVIDIA's program: with -f it is a daemon that takes
// commands from a pipe, and else it sends one.
const imitation = `#!/bin/sh
pipe=$CUDA_MPS_PIPE_DIRECTORY/control
if [ "$1" = -f ]; then
	case $CUDA_VISIBLE_DEVICES in
	GPU-broken) echo no such device; exit 1;;
	GPU-hang) echo hangs >"${0%/*}/hang"; exec sleep 3600;;
	GPU-single) mkdir "$pipe.lock" || { echo "an instance of this daemon is already running"; exit 1; };;
	esac
	echo "serving $CUDA_VISIBLE_DEVICES"
	rm -f "$pipe"
	mkfifo "$pipe" || exit 1
	exec 3<>"$pipe"
	while read -r command <&3; do
		[ "$command" = quit ] && [ "$CUDA_VISIBLE_DEVICES" != GPU-stubborn ] && rm -rf "$pipe.lock" "$pipe" && exit 0
	done
fi
read -r command
echo "$(id -u) $(pwd) ${SECRET-clean}" >>"$CUDA_MPS_LOG_DIRECTORY/clients"
[ -p "$pipe" ] || { echo "cannot find MPS control daemon process" >&2; exit 1; }
echo "$command" >"$pipe"
`

func install(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, control), []byte(imitation), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, passed := range []string{dir, filepath.Dir(dir)} { // by other users
		if err := os.Chmod(passed, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// newPool makes a pool in a short folder: the path of a socket is limited.
func newPool(t *testing.T, linger time.Duration) *Pool {
	t.Helper()
	dir, err := os.MkdirTemp("", "mps")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	p := New(Options{Dir: filepath.Join(dir, "m"), Linger: linger, Processes: process.Proc()})
	p.patience = time.Minute // a daemon may take its time on a busy machine
	t.Cleanup(func() {
		for _, d := range p.daemons {
			clear(d.uses)
		}
		p.takeOver()
		p.stopUnused()
		_ = os.RemoveAll(dir)
	})
	return p
}

// stopUnused stops the daemons that nobody uses, and waits for it.
func (p *Pool) stopUnused() {
	var stops sync.WaitGroup
	p.stopIdle(0, &stops)
	stops.Wait()
}

func (p *Pool) idOf(t *testing.T, uuid string) process.ID {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, d := range p.daemons {
		if k.uuid == uuid {
			return d.id
		}
	}
	t.Fatalf("there is no daemon for %s", uuid)
	return process.ID{}
}

func TestOneDaemonPerDevice(t *testing.T) {
	install(t)
	p := newPool(t, time.Hour)
	me := os.Geteuid()
	pipe, err := p.Use(t.Context(), "GPU-a", me, 1)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(p.Dir, strconv.Itoa(me), "GPU-a", "pipe"); pipe != want {
		t.Errorf("its pipe directory is %s, want %s", pipe, want)
	}
	first := p.idOf(t, "GPU-a")
	if _, err := p.Use(t.Context(), "GPU-a", me, 2); err != nil || p.idOf(t, "GPU-a") != first {
		t.Errorf("a second lease got another daemon, or none: %v", err)
	}
	if _, err := p.Use(t.Context(), "GPU-b", me, 3); err != nil || p.idOf(t, "GPU-b") == first {
		t.Errorf("another device got the same daemon, or none: %v", err)
	}
	if !p.Serves([]process.ID{{PID: 1}, first}) || p.Serves([]process.ID{{PID: 1}}) {
		t.Error("it does not know its own")
	}
	info, err := os.Stat(pipe)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the pipe directory has mode %v, %v", info.Mode(), err)
	}
}

func TestStoppedWhenUnused(t *testing.T) {
	for _, uuid := range []string{"GPU-a", "GPU-stubborn"} {
		t.Run(uuid, func(t *testing.T) {
			install(t)
			p := newPool(t, 0)
			if _, err := p.Use(t.Context(), uuid, os.Geteuid(), 1); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Use(t.Context(), uuid, os.Geteuid(), 2); err != nil {
				t.Fatal(err)
			}
			id := p.idOf(t, uuid)
			p.Release(1)
			p.Release(7)
			if p.stopUnused(); !p.Processes.Alive(id) {
				t.Error("it was stopped under a lease")
			}
			p.Release(2)
			if p.stopUnused(); p.Processes.Alive(id) {
				t.Error("it runs on for nobody")
			}
			if _, err := p.Use(t.Context(), uuid, os.Geteuid(), 3); err != nil || p.idOf(t, uuid) == id {
				t.Errorf("it did not start again: %v", err)
			}
		})
	}
}

// What an earlier berth left behind is taken over by a lease that stands, and
// stopped if there is none.
func TestTakenOverAfterARestart(t *testing.T) {
	install(t)
	p := newPool(t, time.Hour)
	for i, uuid := range []string{"GPU-used", "GPU-left"} {
		if _, err := p.Use(t.Context(), uuid, os.Geteuid(), uint64(5+i)); err != nil {
			t.Fatal(err)
		}
	}
	used, left := p.idOf(t, "GPU-used"), p.idOf(t, "GPU-left")
	for _, d := range p.daemons {
		d.watch()
	}

	again := New(Options{Dir: p.Dir, Processes: process.Proc()})
	again.Keep("GPU-used", os.Geteuid(), 5)
	again.Keep("GPU-unknown", os.Geteuid(), 7) // whose daemon died too
	again.takeOver()
	again.stopUnused()
	if !again.Processes.Alive(used) {
		t.Error("the one in use was stopped")
	}
	if again.Processes.Alive(left) {
		t.Error("the one that was left runs on")
	}
	if _, err := again.Use(t.Context(), "GPU-used", os.Geteuid(), 4); err != nil || again.idOf(t, "GPU-used") != used {
		t.Errorf("a new lease got another daemon: %v", err)
	}
	for _, d := range again.daemons {
		d.watch()
	}
}

func TestDeathIsNoticed(t *testing.T) {
	install(t)
	p := newPool(t, time.Hour)
	died := make(chan string, 1)
	p.Died = func(uuid string) { died <- uuid }
	if _, err := p.Use(t.Context(), "GPU-a", os.Geteuid(), 1); err != nil {
		t.Fatal(err)
	}
	id := p.idOf(t, "GPU-a")
	if err := p.Processes.Signal(kinship.Authority(), id, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := <-died; got != "GPU-a" {
		t.Errorf("%s died", got)
	}
	if _, err := p.Use(t.Context(), "GPU-a", os.Geteuid(), 2); err != nil || p.idOf(t, "GPU-a") == id {
		t.Errorf("the next lease did not get a new one: %v", err)
	}
}

// Run stops what was released, without being told.
func TestRun(t *testing.T) {
	install(t)
	p := newPool(t, 0)
	if _, err := p.Use(t.Context(), "GPU-a", os.Geteuid(), 1); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	stop, err := p.Processes.Watch(p.idOf(t, "GPU-a"), func() { close(ended) })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	p.Release(1)
	<-ended
	cancel()
	<-done
}

func TestRefusals(t *testing.T) {
	t.Run("no MPS", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		if err := newPool(t, 0).Available(); !errors.Is(err, ErrMissing) {
			t.Errorf("available: %v", err)
		}
		if _, err := newPool(t, 0).Use(t.Context(), "GPU-a", os.Geteuid(), 1); !errors.Is(err, ErrMissing) {
			t.Errorf("it said %v", err)
		}
	})
	install(t)
	t.Run("a daemon that does not start", func(t *testing.T) {
		p := newPool(t, 0)
		_, err := p.Use(t.Context(), "GPU-broken", os.Geteuid(), 1)
		if err == nil || !strings.Contains(err.Error(), "ended at once") || !strings.Contains(err.Error(), p.Dir) {
			t.Errorf("it said %v", err)
		}
	})
	t.Run("a path that is too long", func(t *testing.T) {
		p := New(Options{Dir: "/" + strings.Repeat("long/", 20), Processes: process.Proc()})
		if _, err := p.Use(t.Context(), "GPU-a", os.Geteuid(), 1); err == nil || !strings.Contains(err.Error(), "--state-dir") {
			t.Errorf("it said %v", err)
		}
	})
	t.Run("another user", func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("root can")
		}
		if _, err := newPool(t, 0).Use(t.Context(), "GPU-a", os.Geteuid()+1, 1); err == nil || !strings.Contains(err.Error(), "root") {
			t.Errorf("it said %v", err)
		}
	})
}

// Root starts it as the user, in folders of theirs.
func TestAsTheUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a daemon as another user")
	}
	install(t)
	t.Setenv("SECRET", "of root")
	p := newPool(t, 0)
	pipe, err := p.Use(t.Context(), "GPU-a", nobody, 1)
	if err != nil {
		t.Fatal(err)
	}
	id := p.idOf(t, "GPU-a")
	if uid, err := p.Processes.UID(id.PID); err != nil || uid != nobody {
		t.Errorf("it runs as %d, %v", uid, err)
	}
	var info unix.Stat_t
	if err := unix.Stat(pipe, &info); err != nil || info.Uid != nobody {
		t.Errorf("its pipe directory belongs to %d, %v", info.Uid, err)
	}
	if err := unix.Stat(filepath.Dir(pipe), &info); err != nil || info.Uid != 0 {
		t.Errorf("the folder around it belongs to %d, %v", info.Uid, err)
	}
	p.Release(1)
	if p.stopUnused(); p.Processes.Alive(id) {
		t.Error("it runs on for nobody")
	}
	// The client opens what lies in the user's folder, so it must not be root.
	text, err := os.ReadFile(filepath.Join(filepath.Dir(pipe), "log", "clients"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line != "65534 / clean\n" {
			t.Errorf("a client ran as %q", line)
		}
	}
}
