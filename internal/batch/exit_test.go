package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/batch/outcome"
)

func (b *bench) fifo(name string) string {
	b.t.Helper()
	if err := syscall.Mkfifo(b.path(name), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return b.path(name)
}

// Workers end at once on one GPU while one loads on the other: the run waits
// for that one.
func TestGPUThatStartsNothingWhileAnotherLoads(t *testing.T) {
	t.Parallel()
	jobs := plain(100)
	b := newBench(t, jobs)
	loaded := b.fifo("loaded")
	b.command.Args = []string{"/bin/sh", "-c", `
		[ "$CUDA_VISIBLE_DEVICES" = GPU-1 ] && { : >"$1"; read line <"$2"; exec "$0"; }
		until [ -e "$1" ]; do :; done; exit 7`, b.command.Args[0], b.path("loading"), loaded}
	b.on(EventFailed, 2*unreadyLimit, func() {
		go func() { _ = os.WriteFile(loaded, []byte("\n"), 0o600) }()
	})
	s := b.mustRun()
	check(t, jobs, b.lines())
	if byGPU(s)["GPU-1"] != 100 || b.count(EventFailed) <= 2*unreadyLimit {
		t.Errorf("%+v\n%s", s, b.story())
	}
}

// All workers of a GPU are killed while they load: that is one failure of each.
func TestAllWorkersKilledWhileLoading(t *testing.T) {
	t.Parallel()
	jobs := plain(100)
	b := newBench(t, jobs)
	b.machine = newMachine(1, 4)
	b.opt.Leases = b.machine
	b.command.Args = []string{"/bin/sh", "-c", `mkdir "$1/$BERTH_WORKER_NAME" 2>/dev/null && kill -KILL $$; exec "$0"`, b.command.Args[0], b.path("marks")}
	b.mustRun()
	check(t, jobs, b.lines())
}

// A worker that closes its pipe and then exits has ended by itself, as Python
// does it when init raises.
func TestWorkerEndsByItself(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain(10))
	b.command.Args = []string{"/bin/sh", "-c", `exec 3<&- 4>&-; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo gone >&2; exit 3`}
	_, err := b.run(context.Background())
	if err == nil || !strings.Contains(err.Error(), "died: before it was ready: exit status 3; it last printed: gone") {
		t.Errorf("%v\n%s", err, b.story())
	}
}

// A lease that does not take a process that has ended is not the reason.
func TestWorkerEndsBeforeItsLeaseIsHandedOver(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain(10))
	b.command.Args = []string{"/bin/sh", "-c", "exit 3"}
	b.machine.start = func(pid int) error {
		_ = unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		return errors.New("there is no such process")
	}
	if _, err := b.run(context.Background()); err == nil || !strings.Contains(err.Error(), "died: before it was ready: exit status 3") {
		t.Errorf("%v\n%s", err, b.story())
	}
	b.command.Args = []string{os.Args[0]}
	b.machine.start = func(int) error { return errors.New("it is gone") }
	if _, err := b.run(context.Background()); err == nil || !strings.Contains(err.Error(), "its lease does not accept the process: it is gone") {
		t.Errorf("%v\n%s", err, b.story())
	}
}

// If the lease was the reason, that is said.
func TestLeaseThatEndsItsWorkerIsNamed(t *testing.T) {
	t.Parallel()
	jobs := with(30, "poison")
	b := newBench(t, jobs)
	b.machine.why = func(signalled bool) string { return fmt.Sprintf("its lease was revoked (%t)", signalled) }
	b.mustRun()
	lines := b.lines()
	check(t, jobs, lines)
	if !strings.Contains(lines[15], "died: signal: killed, because its lease was revoked (true)") {
		t.Error(lines[15])
	}
}

// Also if the worker was asked to end and did so by itself.
func TestLeaseThatEndsItsWorkerInPeaceIsNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain(10))
	b.command.Args = []string{"/bin/sh", "-c", "exit 1"}
	b.machine.why = func(signalled bool) string { return fmt.Sprintf("its lease was revoked (%t)", signalled) }
	_, err := b.run(context.Background())
	if err == nil || !strings.Contains(err.Error(), "exit status 1, because its lease was revoked (false)") {
		t.Errorf("%v\n%s", err, b.story())
	}
}

// ways for a worker to leave the process group that it was given. Each runs
// what follows it.
var waysOut = map[string][]string{
	"timeout": {"timeout", "1h"},
	"setsid":  {"setsid"},
}

// A worker that has left its process group is killed all the same, with what it
// has started.
func TestWorkerInAGroupOfItsOwnIsKilled(t *testing.T) {
	t.Parallel()
	for name, way := range waysOut {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(way[0]); err != nil {
				t.Skip(err)
			}
			b := newBench(t, plain(1))
			alive, never := b.fifo("alive"), b.fifo("never")
			b.command.Args = append(way, "/bin/sh", "-c", `exec 5>"$0"; cat "$1" & echo '{"type":"ready","protocol":1}' >&4; wait`, alive, never)
			b.opt.Tries, b.opt.Timeout = 1, time.Millisecond
			end := make(chan error, 1)
			go func() {
				f, err := os.Open(alive) // waits for the worker
				if err == nil {
					_, err = io.ReadAll(f)
				}
				end <- errors.Join(err, f.Close())
			}()
			s := b.mustRun()
			if err := <-end; err != nil || s.Failed != 1 {
				t.Errorf("%v, %+v\n%s", err, s, b.story())
			}
		})
	}
}

// What a worker has started dies with the runner too, also in a group of its
// own. The child holds a pipe open; its end is the end of the child.
func TestKilledRunnerTakesGrandchildrenWithIt(t *testing.T) {
	t.Parallel()
	for name, way := range waysOut {
		t.Run(name, func(t *testing.T) { t.Parallel(); killedRunner(t, way) })
	}
	t.Run("in its group", func(t *testing.T) { t.Parallel(); killedRunner(t, nil) })
}

func killedRunner(t *testing.T, way []string) {
	if _, err := exec.LookPath(append(way, "/bin/sh")[0]); err != nil {
		t.Skip(err)
	}
	b := newBench(t, plain(10))
	alive, never := b.fifo("alive"), b.fifo("never")
	spec := runnerSpec{Input: b.path("in.jsonl"), Output: b.opt.Output, Marks: b.path("marks"), GPUs: 1, PerGPU: 1, Batch: 1,
		Command: append(way, "/bin/sh", "-c", `trap "" TERM; cat "$1" >"$0" & echo '{"type":"ready","protocol":1}' >&4; wait`, alive, never)}
	var end *os.File
	code, story := runRunner(t, spec, func(event string) bool {
		if end != nil || !strings.HasPrefix(event, string(EventReady)) {
			return false
		}
		var err error
		if end, err = os.Open(alive); err != nil { // waits for the child
			t.Error(err)
		}
		return true
	})
	if code != -1 || end == nil {
		t.Fatalf("exit code %d\n%s", code, story)
	}
	defer end.Close()
	if _, err := io.ReadAll(end); err != nil {
		t.Error(err)
	}
}

// A worker that says bye and ends is replaced, and has not failed: also if it has ended
// before the run gives it the next records.
func TestWorkerThatSaysByeAndEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain(4))
	b.machine = newMachine(1, 1)
	b.opt.Leases = b.machine
	b.opt.Batch, b.opt.Shape = 1, outcome.Shape{}
	b.command.Args = []string{"/bin/sh", "-c", `echo '{"type":"ready","protocol":1}' >&4
		read line <&3; case $line in *bye*) exit;; esac
		id=${line#*'"id":'}; echo '{"type":"result","id":'${id%%,*}',"outcomes":[1]}
{"type":"bye"}' >&4`}
	pid, asked := 0, 0
	b.machine.start = func(started int) error {
		pid, asked = started, 0
		return nil
	}
	b.machine.speed = func(string) float64 {
		if asked++; asked > 2 { // after the answer
			_ = unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		}
		return 1
	}
	if s := b.mustRun(); s.Records != 4 || s.Failed != 0 || b.count(EventFailed) != 0 {
		t.Errorf("%+v\n%s", s, b.story())
	}
}
