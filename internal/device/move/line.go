package move

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/berth-gpu/berth/gpu"
)

// A daemon and its helper process exchange lines of JSON: the daemon writes an Order, and
// the helper process writes an Answer.
const (
	MostProcesses = 256       // of one order
	MostLine      = 256 << 10 // bytes of a line
	mostError     = 400       // bytes of the text of an error
	mostPID       = 1 << 22   // Linux has no higher one
)

// Ask is the step of an Order that only asks for states.
const Ask Step = "state"

// Order says what the helper process does with several processes at once.
type Order struct {
	Number    int       `json:"number,omitempty"` // repeated in the answer
	Step      Step      `json:"step"`
	Processes []Process `json:"processes"`
	Awake     bool      `json:"awake,omitempty"` // whether the processes run on while their memory is away
	Fault     *Fault    `json:"fault,omitempty"` // for tests
}

// Answer has the outcome of an order for each process, in their order.
type Answer struct {
	Number   int       `json:"number,omitempty"`
	Outcomes []Outcome `json:"outcomes"`
}

// ReadOrder reads a line with an order, and refuses an order that is not allowed.
func ReadOrder(line []byte) (Order, error) {
	var o Order
	if err := read(line, &o); err != nil {
		return Order{}, fmt.Errorf("read an order: %w", err)
	}
	if o.Step != Ask && !slices.Contains(Steps(), o.Step) {
		return Order{}, fmt.Errorf("read an order: there is no step %q", gpu.Printable(string(o.Step), 40))
	}
	if n := len(o.Processes); n == 0 || n > MostProcesses {
		return Order{}, fmt.Errorf("read an order: it is for %d processes; 1 to %d are possible", n, MostProcesses)
	}
	seen := map[int]bool{}
	for _, p := range o.Processes {
		if p.PID <= 1 || p.PID > mostPID || seen[p.PID] {
			return Order{}, fmt.Errorf("read an order: %d is no process, or is there twice", p.PID)
		}
		seen[p.PID] = true
	}
	if o.Fault != nil {
		if err := o.Fault.check(); err != nil {
			return Order{}, fmt.Errorf("read an order: %w", err)
		}
	}
	return o, nil
}

// ReadAnswer reads a line with the answer to an order, and refuses one that is about
// other processes, or makes no sense.
func ReadAnswer(line []byte, o Order) ([]Outcome, error) {
	var a Answer
	if err := read(line, &a); err != nil {
		return nil, err
	}
	if a.Number != o.Number {
		return nil, fmt.Errorf("an answer to order %d instead of %d", a.Number, o.Number)
	}
	if len(a.Outcomes) != len(o.Processes) {
		return nil, fmt.Errorf("%d outcomes for %d processes", len(a.Outcomes), len(o.Processes))
	}
	for i := range a.Outcomes {
		out := &a.Outcomes[i]
		if out.Process != o.Processes[i] {
			return nil, fmt.Errorf("an outcome for process %d instead of %d", out.PID, o.Processes[i].PID)
		}
		if !slices.Contains(states, out.State) {
			return nil, fmt.Errorf("process %d is in no state: %q", out.PID, gpu.Printable(string(out.State), 40))
		}
		if out.Took < 0 || math.IsNaN(out.Took) || math.IsInf(out.Took, 0) {
			return nil, fmt.Errorf("process %d took %v seconds", out.PID, out.Took)
		}
		if out.Imported < 0 {
			return nil, fmt.Errorf("process %d has opened %s", out.PID, out.Imported)
		}
		out.Error = gpu.Printable(out.Error, mostError)
	}
	return a.Outcomes, nil
}

// states lists the states.
var states = []State{Running, Locked, Checkpointed, Failed, Without, Gone, Unknown}

// read reads one JSON value.
func read(line []byte, into any) error {
	if len(line) > MostLine {
		return errors.New("the line is too long")
	}
	return json.Unmarshal(line, into)
}
