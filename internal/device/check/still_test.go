package check

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// TestEcho is no test: it is a program with several threads that writes what it
// reads.
func TestEcho(t *testing.T) {
	if os.Getenv("BERTH_ECHO") == "" {
		t.Skip("TestStill starts it")
	}
	_, _ = io.Copy(os.Stdout, os.Stdin)
}

// echo is a running program.
type echo struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
	who process.ID
}

func startEcho(t *testing.T) *echo {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEcho$")
	cmd.Env = append(os.Environ(), "BERTH_ECHO=yes")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	who, err := process.Proc().Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{t: t, in: in, out: bufio.NewReader(out), who: who}
	e.answers()
	return e
}

// answers checks that the program answers.
func (e *echo) answers() {
	e.t.Helper()
	_, _ = e.in.Write([]byte("x\n"))
	if text, err := e.out.ReadString('\n'); text != "x\n" {
		e.t.Fatalf("it says %q, %v", text, err)
	}
}

func (e *echo) id() move.Process { return move.Process{PID: e.who.PID, Start: e.who.Start} }

// states returns the states of its threads, without those that are there twice.
func (e *echo) states() string {
	e.t.Helper()
	tids, err := process.Proc().Threads(e.who.PID)
	if err != nil || len(tids) < 2 {
		e.t.Fatalf("%d threads, %v", len(tids), err)
	}
	seen := ""
	for _, tid := range tids {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", e.who.PID, tid))
		_, rest, _ := strings.Cut(string(text), ") ")
		if rest != "" && !strings.Contains(seen, rest[:1]) {
			seen += rest[:1]
		}
	}
	return seen
}

// The threads of a process are still while they are held, also if the process was
// stopped before and is continued meanwhile, and run on afterwards.
func TestStill(t *testing.T) {
	e := startEcho(t)
	var s stills
	hold := func() {
		t.Helper()
		if err := s.hold(e.id(), 0); err != nil {
			t.Skipf("processes cannot be traced here: %v", err)
		}
		if got := e.states(); got != "t" {
			t.Errorf("its threads are in the states %s", got)
		}
	}
	hold()
	hold() // again
	s.let(e.id())
	s.let(e.id()) // again
	e.answers()

	hold()
	_ = process.Proc().Signal(kinship.Authority(), e.who, process.Stop)
	s.let(e.id())
	hold() // whether the signal has stopped it by now or not
	_ = process.Proc().Signal(kinship.Authority(), e.who, process.Continue)
	if got := e.states(); got != "t" {
		t.Errorf("continued, its threads are in the states %s", got)
	}
	s.let(e.id())
	e.answers()
}

// One thread runs on: the one that the driver works in.
func TestOneThreadIsNotStill(t *testing.T) {
	e := startEcho(t)
	var s stills
	if err := s.hold(e.id(), e.who.PID); err != nil {
		t.Skipf("processes cannot be traced here: %v", err)
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", e.who.PID, e.who.PID))
	if strings.Contains(string(text), ") t ") {
		t.Error("the thread is still")
	}
	s.let(e.id())
	e.answers()
}

// A process that is killed while it is held is gone, and one that is not there
// cannot be held.
func TestStillAndGone(t *testing.T) {
	e := startEcho(t)
	var s stills
	if err := s.hold(e.id(), 0); err != nil {
		t.Skipf("processes cannot be traced here: %v", err)
	}
	_ = process.Proc().Signal(kinship.Authority(), e.who, process.Kill)
	_, _ = io.Copy(io.Discard, e.out) // until it has ended
	s.let(e.id())
	if err := s.hold(move.Process{PID: 1 << 22}, 0); err == nil {
		t.Error("a process that is not there was held")
	}
}

// A process whose memory is away is stopped, one that is awake is not; the states of
// both can be asked, and both run on when the memory is back.
func TestProcessesRestWhileTheirMemoryIsAway(t *testing.T) {
	for _, awake := range []bool{false, true} {
		e := startEcho(t)
		state := move.Running
		after := map[move.Step]move.State{move.Lock: move.Locked, move.Checkpoint: move.Checkpointed, move.Restore: move.Locked, move.Unlock: move.Running}
		m := &moving{table: process.Proc(), Checkpoints: mover{
			state:  func(int) (move.State, error) { return state, nil },
			do:     func(step move.Step, _ int) error { state = after[step]; return nil },
			thread: func(int) (int, error) { return 0, nil },
		}}
		take := func(step move.Step) {
			t.Helper()
			if out := m.move(step, e.id(), awake); out.Error != "" || out.State != state {
				t.Fatalf("%s: %+v", step, out)
			}
		}
		take(move.Lock)
		if got := e.states(); got != "t" {
			t.Skipf("processes cannot be traced here: their threads are in the states %s", got)
		}
		take(move.Checkpoint)
		for range 2 {
			if awake {
				e.answers()
			} else if !process.Proc().Stopped(e.who) {
				t.Error("it runs while its memory is away")
			}
			take(move.Ask)
		}
		take(move.Restore)
		if got := e.states(); got != "t" {
			t.Errorf("with its memory back, its threads are in the states %s", got)
		}
		take(move.Unlock)
		e.answers()
	}
}
