package sim

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/move"
)

// before returns the state that a step requires.
func before(step move.Step) move.State {
	switch step {
	case move.Lock:
		return move.Running
	case move.Restore:
		return move.Checkpointed
	default:
		return move.Locked
	}
}

// lockTime is the duration of a lock or an unlock.
const lockTime = time.Millisecond

// begin begins a step with a process that uses the card, and fills in the outcome. The
// caller holds mu.
func (c *card) begin(o *move.Outcome, r *running, step move.Step) {
	o.State, o.Took = r.stands(), c.left(r).Seconds()
	switch {
	case o.Took > 0 || o.State != before(step):
		refuse(o, o.State, device.CodeIllegalState)
		return
	case r.refuses == step:
		refuse(o, o.State, device.CodeNotSupported)
		return
	case r.parking.Lost:
		refuse(o, o.State, device.CodeSystem)
		return
	}
	next, takes := r.parking, lockTime
	switch step {
	case move.Lock:
		next = parking{State: move.Locked, Memory: c.has(r)}
	case move.Checkpoint:
		next.State, takes = move.Checkpointed, moving(next.Memory, c.model.Park.Out)
	case move.Restore:
		if next.Memory > c.room() {
			next.Lost = true
			_ = c.keep(r, next) // the process cannot be restored later either way
			refuse(o, o.State, device.CodeOutOfMemory)
			return
		}
		next.State, takes = move.Locked, moving(next.Memory, c.model.Park.Back)
	case move.Unlock:
		next = parking{}
	default:
		refuse(o, o.State, device.CodeNotSupported)
		return
	}
	takes = time.Duration(float64(takes) / c.backend.speed)
	next.Done = c.backend.Clock()
	if step != move.Lock { // after a lock, its calls wait from now on
		next.Done = next.Done.Add(takes)
	}
	if err := c.keep(r, next); err != nil {
		refuse(o, o.State, device.CodeSystem)
		o.Error += ": " + err.Error()
		return
	}
	r.parking = next
	o.State, o.Took = r.stands(), takes.Seconds()
}

// keep records the parking state of a process.
func (c *card) keep(r *running, next parking) error {
	if r.born != 0 {
		return c.guests.keep(*r, next)
	}
	c.fates[r.pid] = fate{of: r.start, parking: next}
	return nil
}

// has returns the memory that a process really has.
func (c *card) has(r *running) gpu.MiB {
	var now gpu.Sample
	c.fillMemory(c.advance(c.plant.now).processes, &now)
	for _, p := range now.Processes {
		if p.PID == r.pid {
			return p.Memory.Or(0)
		}
	}
	return 0
}

// room returns the free memory of the card.
func (c *card) room() gpu.MiB {
	var now gpu.Sample
	c.fillMemory(c.advance(c.plant.now).processes, &now)
	return now.MemoryFree.Or(0)
}

// moving returns how long it takes to move memory at a rate in GiB per second.
func moving(memory gpu.MiB, rate float64) time.Duration {
	return time.Duration(float64(memory) / 1024 / rate * float64(time.Second))
}

// answers are the driver's names of its answers.
var answers = map[int]string{
	device.CodeOutOfMemory:    "CUDA_ERROR_OUT_OF_MEMORY",
	device.CodeNotInitialized: "CUDA_ERROR_NOT_INITIALIZED",
	device.CodeSystem:         "CUDA_ERROR_OPERATING_SYSTEM",
	device.CodeIllegalState:   "CUDA_ERROR_ILLEGAL_STATE",
	device.CodeNotSupported:   "CUDA_ERROR_NOT_SUPPORTED",
}

// refuse makes an outcome that of a refused step, which changed nothing.
func refuse(o *move.Outcome, state move.State, code int) {
	o.State, o.Code, o.Error = state, code, fmt.Sprintf("%s (%d)", answers[code], code)
}
