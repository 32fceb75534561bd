package check

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/process"
)

// planned returns the faults of a text.
func planned(t *testing.T, text string) []move.Fault {
	t.Helper()
	faults, err := move.ParseFaults(text)
	if err != nil {
		t.Fatal(err)
	}
	return faults
}

// A helper process that is killed costs the session. The driver ends what it has
// begun, and another session goes on from there.
func TestFaultKillsTheHelper(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]string{"lock:before:kill-helper:2": "running", "lock:during:kill-helper:2": "locked", "lock:after:kill-helper:2": "locked"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t)
			d.Faults = planned(t, fault)
			p := []move.Process{d.program()}
			s := d.open()
			for _, step := range []move.Step{move.Lock, move.Unlock} { // the first time, all is well
				if outcomes, err := s.Do(t.Context(), step, p); err != nil || outcomes[0].Error != "" {
					t.Fatalf("%s: %+v, %v", step, outcomes, err)
				}
			}
			if outcomes, err := s.Do(t.Context(), move.Lock, p); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "signal: killed") {
				t.Fatalf("%+v, %v", outcomes, err)
			}
			if outcomes, err := d.open().Do(t.Context(), move.Ask, p); err != nil || said(outcomes) != want {
				t.Errorf("another session: %+v, %v", outcomes, err)
			}
		})
	}
}

func TestFaultRefuses(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.Faults = planned(t, "lock:before:error:1,lock:after:error:2")
	p := []move.Process{d.program()}
	s := d.open()
	for _, want := range []string{"running this error was planned for a test", "locked this error was planned for a test"} {
		if outcomes, err := s.Do(t.Context(), move.Lock, p); err != nil || said(outcomes) != want {
			t.Errorf("%+v, %v; want %s", outcomes, err, want)
		}
	}
}

func TestFaultHangs(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.Faults = planned(t, "lock:after:hang")
	p := d.program()
	ctx, cancel := context.WithCancel(t.Context())
	locked := d.told(p)
	go func() {
		locked()
		cancel()
	}()
	if outcomes, err := d.open().Do(ctx, move.Lock, []move.Process{p}); !errors.Is(err, ErrBroken) || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", outcomes, err)
	}
}

// daemonForParking is a daemon that parks a process, whose number and start are in
// its arguments, with a fault. It says first which helper process it has.
func daemonForParking(pid, start, fault string) {
	var p move.Process
	_, err := fmt.Sscan(pid+" "+start, &p.PID, &p.Start)
	faults, wrong := move.ParseFaults(fault)
	m := &Mover{Command: []string{"helper", "fake", "parking"}, Environ: []string{"DRIVER=" + os.Getenv("DRIVER")}, Faults: faults}
	ctx := context.Background()
	s, unable := m.Open(ctx, card, false)
	if err = errors.Join(err, wrong, unable); err != nil {
		fmt.Println(err)
		return
	}
	helper := s.(*dialogue).id
	fmt.Println(helper.PID, helper.Start)
	for _, step := range []move.Step{move.Lock, move.Checkpoint} {
		if _, err := s.Do(ctx, step, []move.Process{p}); err != nil {
			fmt.Println(err)
		}
	}
}

// A daemon that is killed leaves no helper process, and the process where the driver
// has put it.
func TestFaultKillsTheDaemon(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]string{
		"lock:before:kill-daemon": "0", "lock:during:kill-daemon": "1", "lock:after:kill-daemon": "1",
		"checkpoint:before:kill-daemon": "1", "checkpoint:after:kill-daemon": "2",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t)
			p := d.program()
			daemon := exec.CommandContext(t.Context(), "/proc/self/exe", "fake", "daemon", fmt.Sprint(p.PID), fmt.Sprint(p.Start), fault)
			daemon.Env = append(os.Environ(), d.Environ...)
			out, err := daemon.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := daemon.Start(); err != nil {
				t.Fatal(err)
			}
			line, _ := bufio.NewReader(out).ReadString('\n')
			var helper process.ID
			if _, err := fmt.Sscan(line, &helper.PID, &helper.Start); err != nil {
				t.Fatalf("it says %q: %v", line, err)
			}
			ended := make(chan struct{})
			if _, err := process.Proc().Watch(helper, func() { close(ended) }); errors.Is(err, process.ErrGone) {
				close(ended)
			} else if err != nil {
				t.Fatal(err)
			}
			_ = daemon.Wait()
			if status := daemon.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL {
				t.Errorf("the daemon ended with %v", daemon.ProcessState)
			}
			<-ended
			if d.has(p) != want {
				t.Errorf("the driver has it in state %s; want %s", d.has(p), want)
			}
		})
	}
}
