package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/device/check"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/process"
)

// helperSays runs the helper process and returns what it says.
func helperSays(t *testing.T, libraries string, a proof.Ask) []check.Line {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "berth", proveCommand)
	cmd.Env = append(cmd.Environ(), "LD_LIBRARY_PATH="+libraries)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(in).Encode(a); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v: %s", err, out.String())
	}
	var lines []check.Line
	for scan := bufio.NewScanner(strings.NewReader(out.String())); scan.Scan(); {
		var line check.Line
		if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", scan.Bytes(), err)
		}
		lines = append(lines, line)
	}
	return lines
}

// The helper process of a machine without a driver says so, and does not crash.
func TestProveWithoutADriver(t *testing.T) {
	if _, err := exec.LookPath("nvidia-smi"); err == nil {
		t.Skip("this machine has an NVIDIA driver")
	}
	lines := helperSays(t, "", proof.Ask{Verb: proof.Check, Kind: proof.Quick, GPU: "GPU-1"})
	if len(lines) != 1 || !strings.HasPrefix(lines[0].Unable, "the driver library cannot be loaded") {
		t.Errorf("%+v", lines)
	}
}

// The whole helper process, on a driver library whose device is made of C.
func TestProveOnALibraryForTests(t *testing.T) {
	dir := t.TempDir()
	build := exec.Command("cc", "-shared", "-fPIC", "-O2", "-ffp-contract=off", "-o", filepath.Join(dir, "libcuda.so.1"), "../../internal/device/check/testdata/libcuda.c", "-lm")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for name, c := range map[string]struct {
		ask     proof.Ask
		verdict proof.Verdict
		reason  string
	}{
		"good":    {proof.Ask{Verb: proof.Check}, proof.Passed, "48 MiB of memory and the computation are right"},
		"planted": {proof.Ask{Verb: proof.Check, Plant: true}, proof.Failed, "memory: 1 word of 48 MiB is wrong, the first at byte 0x1800000: expected 0x00000000, found 0x00020000"},
		"residue": {proof.Ask{Verb: proof.Residue, Plant: true}, proof.Failed, "residue: 4 bytes of 48 MiB that earlier programs may have written"},
		"scrub":   {proof.Ask{Verb: proof.Scrub}, proof.Passed, "48 MiB of free memory were overwritten"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := helperSays(t, dir, c.ask)
			if len(lines) < 3 || !lines[0].Opened || !lines[len(lines)-1].Done {
				t.Fatalf("%+v", lines)
			}
			var steps []proof.Step
			for _, line := range lines {
				if line.Step != nil && line.Step.Verdict != "" {
					steps = append(steps, *line.Step)
				}
			}
			if r := proof.Judge(c.ask, steps, 0); r.Verdict != c.verdict || !strings.HasPrefix(r.Reason, c.reason) || len(steps) != len(proof.Steps(c.ask.Verb)) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// The whole helper process parks itself off a driver library made of C, and ends
// with its input.
func TestProveParks(t *testing.T) {
	library, driver := t.TempDir(), t.TempDir()
	build := exec.Command("cc", "-shared", "-fPIC", "-o", filepath.Join(library, "libcuda.so.1"), "../../internal/device/check/testdata/libpark.c")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	program := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = program.Process.Kill(), program.Wait() }()
	id, err := process.Proc().Identify(program.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(driver, strconv.Itoa(id.PID)), []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "berth", proveCommand)
	cmd.Env = append(cmd.Environ(), "LD_LIBRARY_PATH="+library, "DRIVER="+driver)
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
	answers := bufio.NewScanner(out)
	say := func(what any) string {
		t.Helper()
		if err := json.NewEncoder(in).Encode(what); err != nil || !answers.Scan() {
			t.Fatalf("%v, %v", err, answers.Err())
		}
		return answers.Text()
	}
	if line := say(proof.Ask{Verb: check.Park, GPU: "GPU-1"}); line != `{"opened":true}` {
		t.Errorf("it says %s", line)
	}
	for _, c := range []struct {
		step move.Step
		want move.State
	}{{move.Lock, move.Locked}, {move.Checkpoint, move.Checkpointed}, {move.Restore, move.Locked}, {move.Unlock, move.Running}} {
		order := move.Order{Step: c.step, Processes: []move.Process{{PID: id.PID, Start: id.Start}}}
		if outcomes, err := move.ReadAnswer([]byte(say(order)), order); err != nil || outcomes[0].State != c.want || outcomes[0].Error != "" {
			t.Errorf("%s: %+v, %v", c.step, outcomes, err)
		}
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it ends, however
}
