// Package remote lets the workers of a batch run on other machines.
//
// The runner has a Session with each machine, over a pipe to `berth work` there, which
// Serve is. A Session grants places, as a batch.Leaser does, and the workers that are
// started on them are batch.Processes: the engine does not know where they run. What
// leases and starts them is the Workshop of the other machine. If the pipe breaks, the
// places are lost; the machine ends its workers.
//
// docs/reference/batch-protocol.md specifies what the two say to each other.
package remote

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch"
)

// The versions of this protocol that this berth speaks: its own, and the one before it.
const (
	newest = 1
	oldest = 1
)

// Task is what a machine is asked to do.
type Task struct {
	Command []string         `json:"command"`
	Folder  string           `json:"folder,omitempty"` // where workers run; empty for that of the files
	Files   string           `json:"files,omitempty"`  // hash of the files that workers need; empty if they are there
	Request api.LeaseRequest `json:"request"`          // service, memory and rule of each worker
	PerGPU  int              `json:"per_gpu"`          // largest number of workers on each GPU
	GPUs    int              `json:"gpus,omitempty"`   // largest number of GPUs to use; 0 for all
	Silence float64          `json:"silence"`          // seconds after which a silent runner is gone
}

// The types of messages: those of the runner, and those of the machine.
const (
	sayTask     = "task"     // the first: Version, Task
	sayAcquire  = "acquire"  // ID, Avoid, Failures: a place is wanted
	sayCancel   = "cancel"   // ID: it is not wanted any more
	sayStart    = "start"    // ID of the place and of the stream, Text (the prefix), Env
	sayKill     = "kill"     // ID
	sayEnd      = "end"      // ID, Text (the last words), Seconds (the grace)
	sayRelease  = "release"  // ID
	sayProgress = "progress" // Batch
	sayBye      = "bye"      // the run has ended

	sayFiles   = "files"   // the files of the task are not there: send them
	sayReady   = "ready"   // places can be asked for
	sayRefused = "refused" // Text, Lasting: the machine cannot do it
	sayGrant   = "grant"   // ID, GPU, Speed
	sayDenied  = "denied"  // ID, Text, Lasting
	sayStarted = "started" // ID, PID, or Text if it did not start
	sayExit    = "exit"    // ID, Text, Signalled, Why, Last
	sayState   = "state"   // ID, Speed, Rested
	sayRecall  = "recall"  // ID, Text (what is wrong with the GPU, if something is)
	sayLost    = "lost"    // ID, Text
	sayNote    = "note"    // Text, for the user
	sayBill    = "bill"    // Energy; the last
)

// The streams that are not of a worker.
const (
	streamFiles = 1
	streamLog   = 2
	streamFirst = 16 // of a worker
)

// message is what one end says to the other.
type message struct {
	Type      string              `json:"type"`
	ID        uint32              `json:"id,omitempty"` // of a place, its worker and its stream; the runner chooses it
	Version   int                 `json:"version,omitempty"`
	Task      *Task               `json:"task,omitempty"`
	Text      string              `json:"text,omitempty"`
	Lasting   bool                `json:"lasting,omitempty"` // it would be the same if asked again
	Avoid     []string            `json:"avoid,omitempty"`
	Failures  map[string]int      `json:"failures,omitempty"`
	Env       []string            `json:"env,omitempty"`
	GPU       *batch.GPU          `json:"gpu,omitempty"`
	Speed     float64             `json:"speed,omitempty"`
	Seconds   float64             `json:"seconds,omitempty"`
	Rested    float64             `json:"rested,omitempty"`
	PID       int                 `json:"pid,omitempty"`
	Signalled bool                `json:"signalled,omitempty"`
	Why       string              `json:"why,omitempty"`
	Last      string              `json:"last,omitempty"`
	Batch     *api.Batch          `json:"batch,omitempty"`
	Energy    gpu.Opt[gpu.Joules] `json:"energy,omitzero"`
}

// greeting is the first line of a machine, in plain text: whatever its shell prints
// before it is passed over.
type greeting struct {
	Berth  string `json:"berth"` // its version
	Newest int    `json:"newest"`
	Oldest int    `json:"oldest"`
}

const (
	greetingMark = "berth work: "
	// noiseBytes is how much a shell may print before the greeting.
	noiseBytes = 64 << 10
)

func (g greeting) write(to io.Writer) error {
	text, err := json.Marshal(g)
	if err == nil {
		_, err = fmt.Fprintf(to, "\n%s%s\n", greetingMark, text)
	}
	return err
}

// errNoGreeting means that something else than `berth work` answered.
var errNoGreeting = errors.New("berth work did not answer")

// readGreeting reads up to the greeting of a machine.
func readGreeting(from *bufio.Reader) (greeting, error) {
	var g greeting
	for read := 0; read < noiseBytes; {
		line, err := from.ReadSlice('\n')
		read += len(line)
		if text, found := strings.CutPrefix(string(line), greetingMark); found && err == nil {
			if err := json.Unmarshal([]byte(text), &g); err != nil {
				return g, fmt.Errorf("%w as it should: %w", errNoGreeting, err)
			}
			return g, nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return g, fmt.Errorf("%w: %w", errNoGreeting, err)
		}
	}
	return g, fmt.Errorf("%w, but something else: its shell may print a lot when it starts; it should print nothing for commands over ssh", errNoGreeting)
}

// agree returns the newest version that both ends speak.
func agree(ours, theirs greeting) (int, error) {
	version := min(ours.Newest, theirs.Newest)
	switch {
	case version >= max(ours.Oldest, theirs.Oldest):
		return version, nil
	case theirs.Newest < ours.Oldest:
		return 0, fmt.Errorf("its berth (%s) is too old for this one (%s): it speaks version %d of the protocol, and this one %d: install a newer berth there", theirs.Berth, ours.Berth, theirs.Newest, ours.Oldest)
	}
	return 0, fmt.Errorf("its berth (%s) is too new for this one (%s): it speaks version %d of the protocol, and this one %d: install a newer berth here", theirs.Berth, ours.Berth, theirs.Oldest, ours.Newest)
}
