package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/process"
)

// Mover moves the memory of processes off devices and back. For NVIDIA's devices it uses
// a helper process; simulated devices move memory themselves.
type Mover struct {
	// Devices has the simulated devices.
	Devices Devices
	// Command is the command line of the helper process; nil means this program with the
	// argument prove.
	Command []string
	// Environ has additional variables for the helper process.
	Environ []string
	// Faults are planned faults, for tests.
	Faults []move.Fault

	mu      sync.Mutex
	taken   map[move.Step]int   // how often each step was taken, for Faults
	helpers map[process.ID]bool // running helper processes
}

// ErrNoParking means that the driver of a device cannot move the memory of processes, or
// that there is no driver to ask. The error that wraps it has the reason.
var ErrNoParking = errors.New("berth cannot park programs on this device")

// ErrBroken means that the helper process ended, hung or talked nonsense. Its last order
// may have been carried out, or may still be going on: the driver ends what it has begun.
// A new session can ask for the states of the processes.
var ErrBroken = errors.New("the helper process did not answer")

// Session moves the memory of processes of one device. Several goroutines may call its
// methods; one waits for the other.
type Session interface {
	// Do takes a step with all processes at once, or asks for their states (move.Ask), and
	// returns the outcomes in the order of ids. An error means that the outcomes are not known: the session is over, and
	// another one has to ask for the states. That includes the end of ctx, which is the
	// deadline of the step.
	Do(ctx context.Context, step move.Step, ids []move.Process) ([]move.Outcome, error)
	// Close ends the session. It does not wait for a step that is going on.
	Close() error
}

// startLimit is how long a helper process may take to load the driver.
const startLimit = 30 * time.Second

// Open begins a session for a device. It returns ErrNoParking if the driver cannot
// move memory. Awake processes run on while their memory is away; others are stopped,
// because NVIDIA's driver does not make all their calls wait.
func (m *Mover) Open(ctx context.Context, on gpu.Device, awake bool) (Session, error) {
	switch on.Vendor {
	case gpu.Simulated:
		return m.simulate(ctx, on)
	case gpu.NVIDIA:
	default:
		return nil, fmt.Errorf("%w: it can do that only on NVIDIA's", ErrNoParking)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l, err := launch(m.Command, append(environ(ask(on)), m.Environ...), ask(on))
	if err != nil {
		return nil, fmt.Errorf("start the helper process: %w", err)
	}
	m.mu.Lock()
	if m.helpers == nil {
		m.helpers = map[process.ID]bool{}
	}
	m.helpers[l.id] = true
	m.mu.Unlock()
	s := newDialogue(m, l, awake)
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := s.opened(ctx); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// ask returns what the helper process for a device is asked first.
func ask(on gpu.Device) proof.Ask { return proof.Ask{Verb: Park, GPU: on.UUID} }

// Serves reports whether a process, given with its ancestors, is a helper process.
func (m *Mover) Serves(line []process.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(line, func(id process.ID) bool { return id.PID != 0 && m.helpers[id] })
}

// fault counts a step, and returns its planned fault, or nil.
func (m *Mover) fault(step move.Step) *move.Fault {
	if len(m.Faults) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.taken == nil {
		m.taken = map[move.Step]int{}
	}
	m.taken[step]++
	for _, f := range m.Faults {
		if f.Step == step && (f.Nth == 0 || f.Nth == m.taken[step]) {
			return &f
		}
	}
	return nil
}

// simulate begins a session with a simulated device.
func (m *Mover) simulate(ctx context.Context, on gpu.Device) (Session, error) {
	can := false
	err := m.Devices.Do(ctx, on.UUID, func(_ context.Context, d device.Device) error {
		_, can = d.(device.Parkable)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !can {
		return nil, fmt.Errorf("%w: it is simulated without that", ErrNoParking)
	}
	return &simulation{mover: m, uuid: on.UUID}, nil
}
