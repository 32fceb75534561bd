package check

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/cuda"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/process"
)

// mover answers as a driver might.
type mover struct {
	state func(pid int) (move.State, error)
	do    func(step move.Step, pid int) error

	thread func(pid int) (int, error) // nil: it does not say

	imported gpu.Opt[gpu.MiB]
}

func (m mover) State(pid int) (move.State, error) { return m.state(pid) }

func (m mover) Thread(pid int) (int, error) {
	if m.thread == nil {
		return 0, errors.New("not known")
	}
	return m.thread(pid)
}

func (m mover) Imported(int) gpu.Opt[gpu.MiB] { return m.imported }

func (m mover) Do(step move.Step, pid int) error { return m.do(step, pid) }

// self is this process.
func self(t *testing.T) move.Process {
	t.Helper()
	id, err := process.Proc().Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return move.Process{PID: id.PID, Start: id.Start}
}

// parked serves orders until its input ends, and returns the answers.
func parked(t *testing.T, m Checkpoints, orders string) (answers []move.Answer, gone bool, err error) {
	t.Helper()
	var out bytes.Buffer
	var ended atomic.Bool
	err = Process{
		In: strings.NewReader(`{"verb":"park","gpu":"GPU-1"}` + "\n" + orders), Out: &out, Gone: func() { ended.Store(true) },
		Checkpoints: func() (Checkpoints, error) { return m, nil },
	}.Serve()
	scan := bufio.NewScanner(&out)
	var first Line
	if !scan.Scan() || json.Unmarshal(scan.Bytes(), &first) != nil || !first.Opened {
		t.Fatalf("its first line is %q", scan.Text())
	}
	for scan.Scan() {
		var a move.Answer
		if err := json.Unmarshal(scan.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		answers = append(answers, a)
	}
	return answers, ended.Load(), err
}

func order(t *testing.T, o move.Order) string {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

func TestParkSays(t *testing.T) {
	t.Parallel()
	me := self(t)
	refusal := &cuda.Error{Call: "cuCall", Code: 801, Text: "operation not supported"}
	m := mover{
		state: func(int) (move.State, error) { return move.Locked, nil },
		do: func(step move.Step, _ int) error {
			if step == move.Checkpoint {
				return refusal
			}
			return nil
		},
		imported: gpu.Some[gpu.MiB](512),
	}
	answers, gone, err := parked(t, m, order(t, move.Order{Number: 7, Step: move.Lock, Processes: []move.Process{me}})+
		order(t, move.Order{Number: 8, Step: move.Checkpoint, Processes: []move.Process{me}})+
		order(t, move.Order{Number: 9, Step: move.Unlock, Processes: []move.Process{me}, Fault: &move.Fault{Step: move.Unlock, When: move.After, What: move.Refuse}})+
		order(t, move.Order{Number: 10, Step: move.Unlock, Processes: []move.Process{me}, Fault: &move.Fault{Step: move.Unlock, When: move.Before, What: move.Refuse}}))
	if err != nil || !gone || len(answers) != 4 {
		t.Fatalf("%+v, %t, %v", answers, gone, err)
	}
	for i, want := range []move.Outcome{
		{Process: me, State: move.Locked, Imported: 512},
		{Process: me, State: move.Locked, Error: "cuCall: operation not supported (code 801)", Code: 801},
		{Process: me, State: move.Locked, Error: "this error was planned for a test"},
		{Process: me, State: move.Locked, Error: "this error was planned for a test", Imported: 512},
	} {
		got := answers[i].Outcomes[0]
		got.Took = 0
		if got != want || answers[i].Number != 7+i {
			t.Errorf("%+v; want %+v", answers[i], want)
		}
	}
}

// A process that ends during a step is gone, whatever the driver says about its
// number.
func TestParkEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := process.Proc().Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	m := mover{
		state: func(int) (move.State, error) { return move.Checkpointed, nil },
		do:    func(move.Step, int) error { _, _ = cmd.Process.Kill(), cmd.Wait(); return nil },
	}
	answers, _, err := parked(t, m, order(t, move.Order{Step: move.Checkpoint, Processes: []move.Process{{PID: id.PID, Start: id.Start}}}))
	if err != nil || len(answers) != 1 || answers[0].Outcomes[0].State != move.Gone {
		t.Errorf("%+v, %v", answers, err)
	}
}

// Orders that make no sense end the helper process, and nothing is done.
func TestParkRefusesNonsense(t *testing.T) {
	t.Parallel()
	touched := errors.New("touched")
	m := mover{state: func(int) (move.State, error) { return "", touched }, do: func(move.Step, int) error { return touched }}
	for name, text := range map[string]string{
		"no JSON":           "park them all\n",
		"no step":           `{"processes":[{"pid":77,"start":1}]}` + "\n",
		"another step":      `{"step":"dance","processes":[{"pid":77,"start":1}]}` + "\n",
		"no process":        `{"step":"lock"}` + "\n",
		"the first process": `{"step":"lock","processes":[{"pid":1,"start":1}]}` + "\n",
		"a group":           `{"step":"lock","processes":[{"pid":-77,"start":1}]}` + "\n",
		"twice":             `{"step":"lock","processes":[{"pid":77,"start":1},{"pid":77,"start":2}]}` + "\n",
		"very many":         `{"step":"lock","processes":[` + strings.Repeat(`{"pid":77,"start":1},`, move.MostProcesses) + `{"pid":78,"start":1}]}` + "\n",
		"a fault":           `{"step":"lock","processes":[{"pid":77,"start":1}],"fault":{"step":"lock","when":"now","what":"hang"}}` + "\n",
		"very long":         `{"step":"` + strings.Repeat("x", move.MostLine) + `"}` + "\n",
	} {
		if answers, _, err := parked(t, m, text); err == nil || len(answers) > 0 {
			t.Errorf("%s: %+v, %v", name, answers, err)
		}
	}
	if err := (Process{
		In: strings.NewReader(`{"verb":"park"}` + "\n"), Out: brokenPipe{}, Gone: func() {}, Checkpoints: func() (Checkpoints, error) { return m, nil },
	}).Serve(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("nobody reads: %v", err)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
