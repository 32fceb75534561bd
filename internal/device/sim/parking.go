package sim

import (
	"cmp"
	"context"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/move"
	processes "github.com/berth-gpu/berth/internal/process"
)

var _ device.Parkable = (*card)(nil)

// parking is the parking state of a process. The zero value is a process that runs. A
// step takes effect at once, except that a checkpoint leaves the memory on the card until
// it is done, as the driver does.
type parking struct {
	State  move.State `json:"state"` // the state from Done on
	Done   time.Time  `json:"done"`  // when the last step ends
	Memory gpu.MiB    `json:"memory_mb"`
	Lost   bool       `json:"lost,omitempty"` // whether a restore failed for ever
}

// hold makes the driver calls of a process wait.
func (r *running) hold(p parking) {
	if p.State == "" {
		return
	}
	r.parking, r.memory, r.load = p, p.Memory, 0
}

// present returns the processes whose memory is on the card, or on its way.
func (c *card) present(all []running) []running {
	var list []running
	for _, r := range all {
		if r.parking.State != move.Checkpointed || r.parking.Done.After(c.backend.Clock()) {
			list = append(list, r)
		}
	}
	return list
}

// Move begins a step with processes. The step with one process sees the effects of those
// with the processes before it.
func (c *card) Move(_ context.Context, step move.Step, ids []move.Process) ([]move.Outcome, error) {
	now, err := c.answer()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	outcomes := make([]move.Outcome, 0, len(ids))
	for _, id := range ids {
		o := move.Outcome{Process: id, State: move.Without}
		var found *running
		for _, r := range c.advance(now).all {
			if r.pid == id.PID && c.born(r) == id.Start {
				found = &r
			}
		}
		if found == nil && !processes.Proc().Alive(processes.ID{PID: id.PID, Start: id.Start}) {
			o.State = move.Gone
		}
		switch {
		case step == move.Ask && found != nil:
			o.State, o.Took, o.Imported = found.stands(), c.left(found).Seconds(), found.imported
		case step == move.Ask:
		case o.State == move.Gone:
			refuse(&o, o.State, device.CodeSystem)
		case found == nil:
			refuse(&o, o.State, device.CodeNotInitialized)
		case found.born != 0 && c.guests.stopped(*found): // the driver waits for it in vain
			o.State, o.Took = move.Unknown, device.Forever.Seconds()
		default:
			c.begin(&o, found, step)
		}
		outcomes = append(outcomes, o)
	}
	c.advance(now)
	return outcomes, nil
}

// born returns when a process started, in ticks since boot.
func (c *card) born(r running) uint64 {
	if r.born != 0 {
		return r.born
	}
	return c.backend.ticks(r.start)
}

// left returns how long the last step of a process still takes, in real time.
func (c *card) left(r *running) time.Duration {
	if r.parking.State == "" {
		return 0
	}
	return max(0, r.parking.Done.Sub(c.backend.Clock()))
}

// stands returns the state of a process after its last step.
func (r *running) stands() move.State { return cmp.Or(r.parking.State, move.Running) }
