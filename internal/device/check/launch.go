package check

import (
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/child"
)

// launched is a running helper process.
type launched struct {
	child  *child.Child
	id     process.ID // zero if it ended at once
	input  *os.File
	output *os.File
	stderr *child.Head
}

// launch starts a helper process and sends it the Ask. A nil command means this program
// with the argument prove.
func launch(command, environ []string, a proof.Ask) (*launched, error) {
	if command == nil {
		command = []string{os.Args[0], "prove"}
	}
	theirs, input, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	output, out, err := os.Pipe()
	if err != nil {
		_ = input.Close()
		return nil, err
	}
	defer out.Close()
	l := &launched{input: input, output: output, stderr: &child.Head{Limit: mostSaid}}
	cmd := &exec.Cmd{
		// This is the running program, even if its file was replaced.
		Path: "/proc/self/exe", Args: command, Env: environ, Dir: "/",
		Stdin: theirs, Stdout: out, Stderr: l.stderr,
	}
	if l.child, err = child.Start(cmd, child.How{Session: true, Ordinary: true}); err != nil {
		_, _ = input.Close(), output.Close()
		return nil, err
	}
	l.id, _ = process.Proc().Identify(l.child.PID())     // one that has ended does nothing to a device
	go func() { _ = json.NewEncoder(input).Encode(a) }() // a pipe holds it; if nobody reads, the process has ended
	return l, nil
}

// ended says how the process ended, with the first line of its standard error.
func (l *launched) ended(state *os.ProcessState) string {
	why := "ended: " + state.String()
	if said, _, _ := strings.Cut(l.stderr.String(), "\n"); said != "" {
		why += ": " + gpu.Printable(said, mostText)
	}
	return why
}

// nowhere is a folder that does not exist: without an MPS daemon in it, the helper
// process opens the device itself.
const nowhere = "/nonexistent"

// environ returns the environment of a helper process: only the variables that it needs.
func environ(a proof.Ask) []string {
	list := []string{
		"CUDA_VISIBLE_DEVICES=" + a.GPU,
		"CUDA_DEVICE_ORDER=PCI_BUS_ID",
		"CUDA_CACHE_DISABLE=1",
		"CUDA_MPS_PIPE_DIRECTORY=" + nowhere,
		"CUDA_MPS_LOG_DIRECTORY=" + nowhere,
	}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH"} {
		if value, set := os.LookupEnv(name); set {
			list = append(list, name+"="+value)
		}
	}
	if a.Lease != "" {
		list = append(list, "BERTH_LEASE="+a.Lease, "BERTH_FENCE="+strconv.FormatUint(a.Fence, 10))
	}
	return list
}
