package main

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/proof"
)

// The helper process of a machine without a driver says so, and does not crash.
func TestProveWithoutADriver(t *testing.T) {
	if _, err := exec.LookPath("nvidia-smi"); err == nil {
		t.Skip("this machine has an NVIDIA driver")
	}
	cmd := exec.CommandContext(t.Context(), "berth", proveCommand)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(in).Encode(proof.Ask{Verb: proof.Check, Kind: proof.Quick, GPU: "GPU-1"}); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	var line proof.Line
	if err := json.Unmarshal([]byte(out.String()), &line); err != nil || !strings.HasPrefix(line.Unable, "the driver library cannot be loaded") {
		t.Errorf("%s: %v", out.String(), err)
	}
}
