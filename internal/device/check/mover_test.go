package check

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// helperForParking is the whole helper process, as cmd/berth-serve starts it.
func helperForParking() {
	duringAfter = 3 * time.Second // the driver of the tests has taken a step by then
	err := Process{
		In: os.Stdin, Out: os.Stdout, Gone: func() { os.Exit(1) },
		Limit: Confine, Checkpoints: OpenCheckpoints,
	}.Serve()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// driver is a driver library made of C, with the processes that use it.
type driver struct {
	t      *testing.T
	folder string
	Mover
}

// newDriver returns a mover for the library that TestMain has built; old: one that
// is like a driver before 570.
func newDriver(t *testing.T, old ...string) *driver {
	t.Helper()
	library := filepath.Join(libraries, append(old, "new")[0])
	d := &driver{t: t, folder: t.TempDir()}
	d.Command = []string{"helper", "fake", "parking"}
	d.Environ = []string{"LD_LIBRARY_PATH=" + library, "DRIVER=" + d.folder}
	return d
}

// libraries has the driver libraries.
var libraries string

// buildLibraries builds the driver libraries into libraries.
func buildLibraries() error {
	for name, flag := range map[string]string{"new": "-DNEW", "old": "-DOLD"} {
		library := filepath.Join(libraries, name)
		if err := os.Mkdir(library, 0o700); err != nil {
			return err
		}
		build := exec.Command("cc", flag, "-shared", "-fPIC", "-o", filepath.Join(library, "libcuda.so.1"), "testdata/libpark.c")
		if text, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
	}
	return nil
}

// told returns a function that waits until the driver has taken a step with a
// process. The driver waits until it is called.
func (d *driver) told(p move.Process) (wait func()) {
	d.t.Helper()
	path := filepath.Join(d.folder, strconv.Itoa(p.PID)+".told")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		d.t.Fatal(err)
	}
	return func() { _, _ = os.ReadFile(path) }
}

// program starts a program that uses the driver, and runs until the test ends.
func (d *driver) program() move.Process {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	id, err := process.Proc().Identify(cmd.Process.Pid)
	if err != nil {
		d.t.Fatal(err)
	}
	d.plan(id.PID, "", "0")
	return move.Process{PID: id.PID, Start: id.Start}
}

// plan writes a file of the driver; see libpark.c.
func (d *driver) plan(pid int, step, text string) {
	d.t.Helper()
	name := strconv.Itoa(pid)
	if step != "" {
		name += "." + step
	}
	if err := os.WriteFile(filepath.Join(d.folder, name), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// has returns the state of a process as the driver has it.
func (d *driver) has(p move.Process) string {
	text, _ := os.ReadFile(filepath.Join(d.folder, strconv.Itoa(p.PID)))
	return string(text)
}

// open begins a session that ends with the test.
func (d *driver) open() Session {
	d.t.Helper()
	s, err := d.Open(d.t.Context(), card, false)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = s.Close() })
	return s
}

// said returns outcomes without times, in few words.
func said(outcomes []move.Outcome) string {
	var list []string
	for _, o := range outcomes {
		text := string(o.State)
		if o.Code != 0 {
			text += " " + strconv.Itoa(o.Code)
		}
		if o.Error != "" {
			text += " " + o.Error
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

// Three processes are parked and resumed together, in one session.
func TestParkAndResume(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	ids := []move.Process{d.program(), d.program(), d.program()}
	s := d.open()
	for _, c := range []struct {
		step move.Step
		want move.State
	}{
		{move.Ask, move.Running}, {move.Lock, move.Locked}, {move.Checkpoint, move.Checkpointed},
		{move.Ask, move.Checkpointed}, {move.Restore, move.Locked}, {move.Unlock, move.Running},
	} {
		outcomes, err := s.Do(t.Context(), c.step, ids)
		if err != nil || said(outcomes) != strings.Join([]string{string(c.want), string(c.want), string(c.want)}, "; ") {
			t.Fatalf("%s: %+v, %v", c.step, outcomes, err)
		}
		for i, o := range outcomes {
			if o.Process != ids[i] {
				t.Errorf("%s: outcome %d is for %+v", c.step, i, o.Process)
			}
		}
	}
	if outcomes, err := s.Do(t.Context(), move.Ask, nil); err != nil || len(outcomes) > 0 {
		t.Errorf("nobody: %+v, %v", outcomes, err)
	}
}

// Very many processes go in several orders.
func TestManyProcesses(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	ids := make([]move.Process, move.MostProcesses+3)
	for i := range ids {
		ids[i] = move.Process{PID: 2 + i, Start: 1 << 62} // nobody started then
	}
	outcomes, err := d.open().Do(t.Context(), move.Ask, ids)
	if err != nil || len(outcomes) != len(ids) || outcomes[len(ids)-1] != (move.Outcome{Process: ids[len(ids)-1], State: move.Gone}) {
		t.Errorf("%d outcomes, %v", len(outcomes), err)
	}
}

// What the driver refuses is told in its own words, for the process that it is
// about, and the others go on.
func TestRefusals(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	good, managed, recycled, stopped, other := d.program(), d.program(), d.program(), d.program(), d.program()
	d.plan(managed.PID, "checkpoint", "801")
	if err := os.Remove(filepath.Join(d.folder, strconv.Itoa(other.PID))); err != nil {
		t.Fatal(err)
	}
	recycled.Start-- // the pid is another process by now
	stop(t, stopped)
	ids := []move.Process{good, managed, recycled, stopped, other}
	s := d.open()
	const isStopped = "unknown the process is stopped by a signal; continue it first"
	for _, c := range []struct {
		step move.Step
		want string
	}{
		{move.Ask, "running; running; gone; running; without"},
		{move.Lock, "locked; locked; gone; " + isStopped + "; without 3 cuCheckpointProcessLock: invalid argument (code 3)"},
		{move.Checkpoint, "checkpointed; locked 801 cuCheckpointProcessCheckpoint: operation not supported (code 801); gone; running 401 cuCheckpointProcessCheckpoint: the operation cannot be performed in the present state (code 401); without 3 cuCheckpointProcessCheckpoint: invalid argument (code 3)"},
		{move.Checkpoint, "checkpointed 401 cuCheckpointProcessCheckpoint: the operation cannot be performed in the present state (code 401); locked 801 cuCheckpointProcessCheckpoint: operation not supported (code 801); gone; running 401 cuCheckpointProcessCheckpoint: the operation cannot be performed in the present state (code 401); without 3 cuCheckpointProcessCheckpoint: invalid argument (code 3)"},
	} {
		outcomes, err := s.Do(t.Context(), c.step, ids)
		if err != nil || said(outcomes) != c.want {
			t.Errorf("%s: %s, %v\nwant %s", c.step, said(outcomes), err, c.want)
		}
	}
	if d.has(recycled) != "0" || d.has(stopped) != "0" {
		t.Error("it touched a process that nobody asked for")
	}
	d.plan(good.PID, "state", "304")
	if outcomes, err := s.Do(t.Context(), move.Ask, []move.Process{good}); err != nil || outcomes[0].State != move.Unknown || outcomes[0].Code != 304 {
		t.Errorf("a state that the driver does not tell: %+v, %v", outcomes, err)
	}
}

// stop stops a process, and returns when it is stopped.
func stop(t *testing.T, p move.Process) {
	t.Helper()
	id := process.ID{PID: p.PID, Start: p.Start}
	if err := process.Proc().Signal(kinship.Authority(), id, process.Stop); err != nil {
		t.Fatal(err)
	}
	// It is our child, so the kernel tells when it has stopped.
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.PID, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("%v, %v", status, err)
	}
}

// A call that does not return costs the session at its deadline, and the helper
// process is killed. Another session finds the processes as they are.
func TestDeadline(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	good, hangs := d.program(), d.program()
	d.plan(hangs.PID, "lock", "0")
	s := d.open()
	helper := s.(*dialogue)
	if !d.Serves([]process.ID{{PID: 1}, helper.id}) || d.Serves([]process.ID{{PID: 1}, {}}) {
		t.Error("it does not know its helper process")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	locked := d.told(good)
	go func() {
		locked() // the driver has locked one, and hangs in the other
		cancel(context.DeadlineExceeded)
	}()
	outcomes, err := s.Do(ctx, move.Lock, []move.Process{good, hangs})
	if !errors.Is(err, ErrBroken) || !errors.Is(err, context.DeadlineExceeded) || outcomes != nil {
		t.Errorf("%+v, %v", outcomes, err)
	}
	<-helper.child.Gone()
	if _, err := s.Do(t.Context(), move.Ask, []move.Process{good}); !errors.Is(err, ErrBroken) {
		t.Errorf("the session after its end: %v", err)
	}
	if outcomes, err := d.open().Do(t.Context(), move.Ask, []move.Process{good, hangs}); err != nil || said(outcomes) != "locked; running" {
		t.Errorf("another session: %+v, %v", outcomes, err)
	}
}

// A session that is closed in the middle of a step does not wait for it.
func TestCloseDuringAStep(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	good, hangs := d.program(), d.program()
	d.plan(hangs.PID, "lock", "0")
	s := d.open()
	locked := d.told(good)
	go func() {
		locked()
		_ = s.Close()
	}()
	if _, err := s.Do(t.Context(), move.Lock, []move.Process{good, hangs}); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "signal: killed") {
		t.Error(err)
	}
	_ = s.Close() // once more
}

func TestCannotPark(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		d    gpu.Device
		m    *Mover
		is   error
		want string
	}{
		"a driver that is too old": {card, &newDriver(t, "old").Mover, ErrNoParking, "berth cannot park programs on this device: the driver is too old: 570 or newer is needed"},
		"no driver":                {card, &Mover{Command: []string{"helper", "fake", "parking"}, Environ: []string{"LD_LIBRARY_PATH=/nonexistent"}}, ErrNoParking, "berth cannot park programs on this device: the driver library cannot be loaded: libcuda.so.1"},
		"another vendor":           {gpu.Device{Vendor: gpu.AMD}, &Mover{}, ErrNoParking, "berth cannot park programs on this device: it can do that only on NVIDIA's"},
		"an old helper":            {card, &Mover{Command: []string{"helper", "fake", "unable"}}, ErrNoParking, "berth cannot park programs on this device: there is no driver\uFFFD[31m"},
		"a helper that crashes":    {card, &Mover{Command: []string{"helper", "fake", "crashes"}}, ErrBroken, "load the driver: the helper process did not answer: it ended: exit status 2: fatal error: unexpected signal"},
		"a helper that leaves":     {card, &Mover{Command: []string{"helper", "fake", "no such"}}, ErrBroken, "load the driver: the helper process did not answer: it ended: exit status 0"},
		"nonsense":                 {card, &Mover{Command: []string{"helper", "fake", "park talks"}}, ErrBroken, "the helper process did not answer: it wrote what is no answer: hello"},
		"one long line":            {card, &Mover{Command: []string{"helper", "fake", "one long line"}}, ErrBroken, "the helper process did not answer: it wrote what is no answer: xxxx"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := c.m.Open(t.Context(), c.d, false)
			if err == nil && name == "no driver" {
				t.Skip("this machine has an NVIDIA driver")
			}
			if s != nil || !errors.Is(err, c.is) || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A helper process that never says that it is ready is killed.
func TestOpenDeadline(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := &Mover{Command: []string{"helper", "fake", "hangs"}}
	if _, err := m.Open(ctx, card, false); !errors.Is(err, context.Canceled) || len(m.helpers) > 0 {
		t.Errorf("before it began: %v", err)
	}
	l, err := launch(m.Command, nil, ask(card))
	if err != nil {
		t.Fatal(err)
	}
	s := newDialogue(m, l, false)
	if err := s.opened(ctx); !errors.Is(err, ErrBroken) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	_ = s.Close()
	<-l.child.Gone()
}

// Answers that make no sense end the session, and are never believed.
func TestNonsense(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]string{
		"park nonsense":    "it wrote what is no answer: all is well",
		"park other":       `it wrote what is no answer: {"number":1,"outcomes":[{"pid":1,"start":1,"state":"checkpointed"}]}`,
		"park none":        `it wrote what is no answer: {"number":1,"outcomes":[]}`,
		"park state":       `it wrote what is no answer: {"number":1,"outcomes":[{"pid":77,"start":5,"state":"splendid"}]}`,
		"park before":      `it wrote what is no answer: {"number":0,"outcomes":[{"pid":77,"start":5,"state":"checkpointed"`,
		"park flood":       "it wrote what is no answer: xxxx",
		"park dies":        "it ended: signal: killed",
		"park leaves":      "it ended: exit status 3: out of cheese",
		"park half a line": `it wrote what is no answer: {"number":1,"out`,
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			m := &Mover{Command: []string{"helper", "fake", how}}
			s, err := m.Open(t.Context(), card, false)
			if err != nil {
				t.Fatal(err)
			}
			if outcomes, err := s.Do(t.Context(), move.Checkpoint, []move.Process{{PID: 77, Start: 5}}); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v, %v; want %s", outcomes, err, want)
			}
			<-s.(*dialogue).child.Gone()
		})
	}
}

// fakeParking behaves as a helper process that parks might.
func fakeParking(how string, in *bufio.Reader, say func(string)) {
	if how == "park talks" {
		say("hello\n")
		_, _ = in.ReadBytes(0)
		return
	}
	say(opened)
	if how == "park before" { // the answer to an order that nobody gave
		say(`{"number":0,"outcomes":[{"pid":77,"start":5,"state":"checkpointed"}]}` + "\n")
	}
	line, _ := in.ReadBytes('\n')
	var o move.Order
	if json.Unmarshal(line, &o) != nil {
		os.Exit(4)
	}
	switch how {
	case "park nonsense":
		say("all is well\n")
	case "park other":
		say(`{"number":1,"outcomes":[{"pid":1,"start":1,"state":"checkpointed"}]}` + "\n")
	case "park none":
		say(`{"number":1,"outcomes":[]}` + "\n")
	case "park state":
		say(`{"number":1,"outcomes":[{"pid":77,"start":5,"state":"splendid"}]}` + "\n")
	case "park flood":
		for range 1 << 20 {
			say("xxxxxxxxxxxxxxxx")
		}
	case "park dies":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "park leaves":
		_, _ = os.Stderr.WriteString("out of cheese\nredo from start\n")
		os.Exit(3)
	case "park half a line":
		say(`{"number":1,"out`)
		return
	}
	_, _ = in.ReadBytes(0)
}

// A process is stopped while its memory is away, unless it is to run on.
func TestAwake(t *testing.T) {
	t.Parallel()
	for _, awake := range []bool{false, true} {
		d := newDriver(t)
		id := d.program()
		s, err := d.Open(t.Context(), card, awake)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []move.Step{move.Lock, move.Checkpoint} {
			if outcomes, err := s.Do(t.Context(), step, []move.Process{id}); err != nil || outcomes[0].Error != "" {
				t.Fatalf("%s: %+v, %v", step, outcomes, err)
			}
		}
		if stopped := process.Proc().Stopped(process.ID(id)); stopped == awake {
			t.Errorf("awake is %t, and it is %t that the process is stopped", awake, stopped)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
