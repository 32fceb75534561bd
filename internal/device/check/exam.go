package check

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/cuda"
	"github.com/berth-gpu/berth/internal/device/proof"
)

// Gauges reads the values that a device reports about itself.
type Gauges interface {
	Link() proof.Link
	Clocks() proof.Clocks
	Errors() proof.Errors
}

// examiner tests one device.
type examiner struct {
	card   Card
	gauges Gauges
	ask    proof.Ask
	tell   func(proof.Step)

	pieces []piece
	host   []uint32 // memory of the machine, for copies; nil until taken
	memory gpu.MiB  // of all pieces
	link   proof.Link
	clocks proof.Clocks
}

// run takes every step of the verb. It ends after a step that broke the device: every
// further call would only repeat the error.
func (e *examiner) run() {
	var before proof.Errors
	if e.gauges != nil {
		before = e.gauges.Errors()
	}
	taken := e.take()
	steps := map[proof.Name]func() (proof.Step, error){
		proof.StepMemory:  e.patterns,
		proof.StepCopyIn:  e.copyIn,
		proof.StepCopyOut: e.copyOut,
		proof.StepCompute: e.compute,
		proof.StepClocks:  func() (proof.Step, error) { return e.clocks.Step(), nil },
		proof.StepLink:    func() (proof.Step, error) { return e.link.Step(), nil },
		proof.StepErrors:  func() (proof.Step, error) { return e.errors(before), nil },
		proof.StepResidue: e.look,
		proof.StepScrub:   e.scrub,
	}
	needsMemory := map[proof.Name]bool{
		proof.StepMemory: true, proof.StepCopyIn: true, proof.StepCopyOut: true, proof.StepCompute: true, proof.StepResidue: true, proof.StepScrub: true,
	}
	for _, name := range proof.Steps(e.ask.Verb) {
		started, err := time.Now(), taken
		step := proof.Step{Verdict: proof.Unasked, Detail: e.noMemory()}
		if !needsMemory[name] || taken == nil && len(e.pieces) > 0 {
			e.tell(proof.Step{Name: name})
			step, err = steps[name]()
		}
		if broken := e.done(name, step, err, started); broken {
			return
		}
	}
}

// noMemory says why there is no memory to test.
func (e *examiner) noMemory() string {
	if e.ask.Memory > 0 {
		return fmt.Sprintf("there is no memory to test: %s are allowed, and the driver's own part takes up to %s of them", e.ask.Memory.Beside(proof.Context), proof.Context.Beside(e.ask.Memory))
	}
	return "no memory is free"
}

// done reports a step. An error makes it a failed step if the error speaks against the
// device, and otherwise a step that could not be asked. done reports whether the device is
// broken.
func (e *examiner) done(name proof.Name, step proof.Step, err error, started time.Time) (broken bool) {
	step.Name, step.Took = name, time.Since(started).Seconds()
	if err != nil {
		refused := (*cuda.Error)(nil)
		broken = errors.As(err, &refused) && refused.Broken()
		step.Verdict, step.Detail = proof.Unasked, err.Error()
		if broken {
			step.Verdict = proof.Failed
		}
	}
	e.tell(step)
	return broken
}

const (
	largest = 1 << 30 // bytes to take at a time
	least   = 4 << 20 // fewer bytes are not worth taking
	grain   = 2 << 20 // bytes that the driver rounds to
)

// take takes the memory that the exam may use, in pieces.
func (e *examiner) take() error {
	free, err := e.card.Free()
	if err != nil {
		return err
	}
	left := e.ask.Room(free)
	size := uint64(largest)
	for first := uint64(0); ; {
		size = min(size, left/grain*grain)
		if size < least {
			break
		}
		at, err := e.card.Take(size)
		if refused := (*cuda.Error)(nil); errors.As(err, &refused) && refused.Full() {
			size = size / 2 / grain * grain
			continue
		}
		if err != nil {
			return err
		}
		e.pieces = append(e.pieces, piece{at: at, words: size / 4, first: first})
		first += size / 4
		left -= size
		e.memory += gpu.MiBOf(size)
	}
	return nil
}

// progress reports how far a step is.
func (e *examiner) progress(name proof.Name, share float64) {
	e.tell(proof.Step{Name: name, Done: gpu.Percent(int(100 * min(share, 1)))})
}

// errors compares the error counters of the device with their values before the exam.
func (e *examiner) errors(before proof.Errors) proof.Step {
	if e.gauges == nil {
		return proof.Grown(before, proof.Errors{})
	}
	return proof.Grown(before, e.gauges.Errors())
}

// look counts words that are not zero in memory that nobody has written to since the
// driver handed it out.
func (e *examiner) look() (proof.Step, error) {
	if e.ask.Plant {
		if err := e.flip(); err != nil {
			return proof.Step{}, err
		}
	}
	wrong, err := e.card.check(e.pieces, pattern{})
	return proof.Look(e.memory, int64(4*wrong.Count)), err
}

// scrub overwrites the memory, and reads it again.
func (e *examiner) scrub() (proof.Step, error) {
	if err := e.card.fill(e.pieces, pattern{}); err != nil {
		return proof.Step{}, err
	}
	wrong, err := e.card.check(e.pieces, pattern{})
	return proof.Scrubbed(e.memory, int64(4*wrong.Count)), err
}
