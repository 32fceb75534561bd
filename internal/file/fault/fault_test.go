package fault_test

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file/fault"
)

func TestAPanicIsTheErrorOfItsWork(t *testing.T) {
	var log strings.Builder
	var told []gpu.Event
	f := &fault.Faults{Log: slog.New(slog.NewTextHandler(&log, nil)), Publish: func(e gpu.Event) { told = append(told, e) }}
	if f.Text() != "" {
		t.Errorf("there was none, and the text is %q", f.Text())
	}
	broken := func() (err error) {
		defer f.Confine(&err, "ada", "standing in the queue for train-1")
		var none *gpu.Event
		none.Lease = "" // the bug
		return nil
	}
	if err := (*fault.Error)(nil); !errors.As(broken(), &err) || err.Work != "standing in the queue for train-1" {
		t.Errorf("the error is %v", err)
	}
	if len(told) != 1 || told[0].Code != gpu.EventInternalFault || told[0].User != "ada" || told[0].Severity != gpu.Serious {
		t.Errorf("the events are %v", told)
	}
	if !strings.Contains(log.String(), "fault_test.go") {
		t.Errorf("the log has no stack:\n%s", log.String())
	}
	if text := f.Text(); !strings.Contains(text, "1 times") || strings.Contains(text, "train-1") {
		t.Errorf("the text is %q", text)
	}
	whole := func() (err error) {
		defer f.Confine(&err, "ada", "nothing")
		return errors.ErrUnsupported
	}
	if err := whole(); err != errors.ErrUnsupported {
		t.Errorf("without a panic, the error is %v", err)
	}
}

// A panic under the locks of what everybody shares ends the process, whoever recovers.
func TestSharedEndsTheProcess(t *testing.T) {
	if os.Getenv("BERTH_TEST_SHARED") != "" {
		defer func() { _ = recover() }()
		defer fault.Shared()
		panic("a bug in the book")
	}
	self := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSharedEndsTheProcess$")
	self.Env = append(os.Environ(), "BERTH_TEST_SHARED=1")
	out, err := self.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "a bug in the book") || !strings.Contains(string(out), "fault_test.go") {
		t.Errorf("it ended with %v:\n%s", err, out)
	}
}

func TestNobodyConfinesWithoutFaults(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("the panic was swallowed")
		}
	}()
	var err error
	var none *fault.Faults
	defer none.Confine(&err, "", "nothing")
	panic("a bug")
}
