package minder

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/runs"
)

// What a run has left is ended by the lease in its environment; a program of another
// minder, whose lease has the same id and fence by chance, is not.
func TestWhatARunHasLeft(t *testing.T) {
	ours := process.ID{PID: 4242, Start: 17}
	record := runs.Record{PID: ours.PID, Start: ours.Start, UID: os.Getuid(), Lease: "left-of-" + t.Name(), Fence: 7}
	type program struct {
		*exec.Cmd
		in  io.WriteCloser
		out *bufio.Reader
	}
	start := func(variables ...string) program {
		cmd := exec.Command("cat")
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, variables...)
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
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return program{cmd, in, bufio.NewReader(out)}
	}
	lives := func(p program) bool {
		if _, err := io.WriteString(p.in, "there\n"); err != nil {
			return false
		}
		_, err := p.out.ReadString('\n')
		return err == nil
	}
	lease := []string{"BERTH_LEASE=" + record.Lease, "BERTH_FENCE=7"}
	left := start(append(lease, markText(ours))...)
	old := start(lease...) // of a minder that set no mark
	another := start(append(lease, markText(process.ID{PID: 4242, Start: 18}))...)
	other := start("BERTH_LEASE="+record.Lease, "BERTH_FENCE=8", markText(ours))
	for name, p := range map[string]program{"its own": left, "an old one": old, "another minder's": another, "of another lease": other} {
		if !lives(p) {
			t.Fatalf("%s has ended before", name)
		}
	}
	endLeft(record)
	_, _ = left.Process.Wait()
	_, _ = old.Process.Wait()
	if lives(left) || lives(old) {
		t.Error("what the run has left lives on")
	}
	if !lives(another) || !lives(other) {
		t.Error("a program of somebody else was ended")
	}
}

// The programs of a run have the mark of the minder that is in its record, and no other.
func TestMark(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	order := w.order("tr '\\0' '\\n' </proc/$$/environ | grep " + mark)
	order.Environment = append(order.Environment, mark+"=1-1") // of the job that submitted this one
	record := w.end(w.minder("17.0.1", order), "17.0.1")
	log, _ := os.ReadFile(record.Output)
	if string(log) != markText(record.Minder())+"\n" {
		t.Errorf("the program has %q, and its minder is %v", log, record.Minder())
	}
}

// While it cannot be read which boot this is, nothing that a run has left is taken for gone.
func TestAnUnknownBoot(t *testing.T) {
	s := NewStarter(&Runs{folder: t.TempDir()}, Options{})
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: now.Max}); err != nil {
		t.Skip(err)
	}
	err := s.clear("1.0.1", runs.Record{PID: 1, Boot: "this one"})
	if back := unix.Setrlimit(unix.RLIMIT_NOFILE, &now); back != nil {
		t.Fatal(back)
	}
	if !errors.Is(err, unix.EMFILE) {
		t.Errorf("what it has left is %v", err)
	}
}
