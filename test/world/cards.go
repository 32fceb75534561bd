package world

import (
	"context"
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

// driver is a device.Backend of GPUs that the processes of a machine use.
type driver struct {
	cards  []*card
	found  chan device.Fault
	closed chan struct{}
	once   sync.Once
}

// card is a GPU.
type card struct {
	about gpu.Device
	table *processes

	mu    sync.Mutex // guards what follows
	lost  bool
	hung  chan struct{} // closed when the hang is over; nil: it answers
	heat  gpu.Celsius   // in addition to what its load makes
	power gpu.Watts     // limit
	fan   gpu.Opt[gpu.Percent]
	fails bool // a check of it
}

const (
	cardMemory = gpu.MiB(80 << 10)
	cardTaken  = gpu.MiB(600) // by the driver itself
	cardPower  = gpu.Watts(700)
)

func newCards(table *processes, n int) (cards []*card) {
	for i := range n {
		cards = append(cards, &card{table: table, power: cardPower, about: gpu.Device{
			UUID: fmt.Sprintf("GPU-%d", i), Index: i, Name: "World", Vendor: gpu.Simulated, Backend: "sim", PCI: fmt.Sprintf("00000000:%02X:00.0", i+1), MemoryTotal: cardMemory,
			PowerLimit: gpu.Some(cardPower), TempSlowdown: gpu.Some(gpu.Celsius(89)), TempMax: gpu.Some(gpu.Celsius(87)), TempShutdown: gpu.Some(gpu.Celsius(95)), NUMANode: gpu.Some(0),
		}})
	}
	return cards
}

func newDriver(cards []*card) *driver {
	return &driver{cards: cards, found: make(chan device.Fault, 64), closed: make(chan struct{})}
}

func (d *driver) Name() string { return "sim" }

func (d *driver) Scan(context.Context) (list []device.Device, err error) {
	for _, c := range d.cards {
		c.mu.Lock()
		if !c.lost {
			list = append(list, c)
		}
		c.mu.Unlock()
	}
	return list, nil
}

func (d *driver) Watch(ctx context.Context, found func(device.Fault)) error {
	for {
		select {
		case f := <-d.found:
			found(f)
		case <-ctx.Done():
			return nil
		case <-d.closed:
			return nil
		}
	}
}

func (d *driver) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

// fault reports a fault, unless nobody has listened for long.
func (d *driver) fault(f device.Fault) {
	select {
	case d.found <- f:
	default:
	}
}

func (c *card) Describe() gpu.Device {
	c.mu.Lock()
	defer c.mu.Unlock()
	about := c.about
	about.PowerLimit = gpu.Some(c.power)
	return about
}

// answer waits until a hang is over.
func (c *card) answer(ctx context.Context) error {
	c.mu.Lock()
	hung, lost := c.hung, c.lost
	c.mu.Unlock()
	if hung != nil {
		<-hung // whatever the deadline, as a driver does
	}
	if lost {
		return &device.Error{Op: "read " + c.about.UUID, Err: device.ErrLost}
	}
	return ctx.Err()
}

// users returns the processes with memory on the card, which is here.
func (c *card) users() (list []gpu.Process, used gpu.MiB) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	now := time.Now()
	for _, p := range c.table.all {
		m := p.memory[c.about.UUID]
		at := p.parking[c.about.UUID]
		if m == 0 || at != nil && at.state == move.Checkpointed && !at.done.After(now) {
			continue
		}
		list = append(list, gpu.Process{PID: p.pid, Name: p.name, Memory: gpu.Some(m)})
		used += m
	}
	slices.SortFunc(list, func(a, b gpu.Process) int { return a.PID - b.PID })
	return list, used + cardTaken
}

func (c *card) Fast(ctx context.Context, into *gpu.Sample) error {
	if err := c.answer(ctx); err != nil {
		return err
	}
	list, used := c.users()
	c.mu.Lock()
	defer c.mu.Unlock()
	into.MemoryTotal, into.MemoryUsed, into.MemoryFree = gpu.Some(cardMemory), gpu.Some(used), gpu.Some(max(cardMemory-used, 0))
	load := min(100, 40*len(list))
	into.Utilization = gpu.Some(gpu.Percent(load))
	into.Temperature = gpu.Some(gpu.Celsius(35+load/5) + c.heat)
	into.Power = gpu.Some(min(c.power, gpu.Watts(80+4*load)))
	into.Throttle, into.Processes = []gpu.ThrottleReason{}, append([]gpu.Process{}, list...)
	return nil
}

func (c *card) Slow(ctx context.Context, into *gpu.Slow) error { return c.answer(ctx) }

// PowerLimits implements device.Governor.
func (c *card) PowerLimits(ctx context.Context) (device.PowerLimits, error) {
	if err := c.answer(ctx); err != nil {
		return device.PowerLimits{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return device.PowerLimits{Now: c.power, Default: cardPower, Least: 200, Most: cardPower}, nil
}

// SetPowerLimit implements device.Governor.
func (c *card) SetPowerLimit(ctx context.Context, limit gpu.Watts) error {
	err := c.answer(ctx)
	if err == nil {
		c.mu.Lock()
		c.power = limit
		c.mu.Unlock()
	}
	return err
}

// SetFan implements device.Governor.
func (c *card) SetFan(ctx context.Context, speed gpu.Percent) error {
	err := c.answer(ctx)
	if err == nil {
		c.mu.Lock()
		c.fan = gpu.Some(speed)
		c.mu.Unlock()
	}
	return err
}

// ReleaseFan implements device.Governor.
func (c *card) ReleaseFan(ctx context.Context) error {
	err := c.answer(ctx)
	if err == nil {
		c.mu.Lock()
		c.fan = gpu.Opt[gpu.Percent]{}
		c.mu.Unlock()
	}
	return err
}

// Examine implements device.Examinee.
func (c *card) Examine(ctx context.Context, a proof.Ask) (steps []proof.Step, unable string, err error) {
	if err := c.answer(ctx); err != nil {
		return nil, "", err
	}
	_, used := c.users()
	c.mu.Lock()
	defer c.mu.Unlock()
	wrong := proof.Wrong{}
	if c.fails {
		wrong = proof.Wrong{Count: 1, At: 1, Expected: 1, Found: 2}
	}
	room := max(cardMemory-used, 0)
	for _, name := range proof.Steps(a.Verb) {
		step := proof.Grown(proof.Errors{}, proof.Errors{})
		switch name {
		case proof.StepMemory:
			step = proof.Memory(room, 6, wrong)
		case proof.StepCopyIn, proof.StepCopyOut:
			step = proof.Copy(name, 50, proof.Link{}, proof.Wrong{})
		case proof.StepCompute:
			step = proof.Compute(1, proof.Wrong{})
		case proof.StepClocks:
			step = proof.Clocks{SM: gpu.Some(gpu.MHz(1000)), Most: gpu.Some(gpu.MHz(1000)), Reasons: []gpu.ThrottleReason{}}.Step()
		case proof.StepLink:
			step = proof.Link{Generation: 4, Width: 16, MostGeneration: 4, MostWidth: 16}.Step()
		case proof.StepResidue:
			step = proof.Look(room, 0)
		case proof.Name(proof.Scrub):
			step = proof.Scrubbed(room, 0)
		}
		step.Took = 1
		steps = append(steps, step)
	}
	return steps, "", nil
}

// Move implements device.Parkable.
func (c *card) Move(ctx context.Context, step move.Step, ids []move.Process) (all []move.Outcome, err error) {
	if err := c.answer(ctx); err != nil {
		return nil, err
	}
	for _, id := range ids {
		all = append(all, c.step(step, id))
	}
	return all, nil
}

const moves = 2 << 10 // MiB in a second

// step takes one step with a process.
func (c *card) step(step move.Step, id move.Process) move.Outcome {
	uuid, now := c.about.UUID, time.Now()
	_, used := c.users()
	o := move.Outcome{Process: id, State: move.Gone}
	refuse := func(code int) { o.Code, o.Error = code, fmt.Sprintf("CUDA_ERROR (%d)", code) }
	there := c.table.with(process.ID{PID: id.PID, Start: id.Start}, func(p *proc) {
		at, memory := p.parking[uuid], p.memory[uuid]
		o.State = move.Running
		if at != nil {
			o.State, o.Took = at.state, max(0, at.done.Sub(now).Seconds())
		}
		if memory == 0 {
			if o.State = move.Without; step != move.Ask {
				refuse(device.CodeNotInitialized)
			}
			return
		}
		if step == move.Ask {
			return
		}
		if p.stopped {
			o.State, o.Took = move.Unknown, device.Forever.Seconds()
			return
		}
		takes := time.Duration(float64(memory) / moves * float64(time.Second))
		switch {
		case o.Took > 0:
			refuse(device.CodeIllegalState)
		case at != nil && at.lost:
			refuse(device.CodeSystem)
		case step == move.Lock && o.State == move.Running:
			p.parking[uuid], o.State = &parking{state: move.Locked}, move.Locked
		case step == move.Checkpoint && o.State == move.Locked:
			*at, o.State, o.Took = parking{state: move.Checkpointed, done: now.Add(takes)}, move.Checkpointed, takes.Seconds()
		case step == move.Restore && o.State == move.Checkpointed:
			if used+memory > cardMemory {
				at.lost = true
				refuse(device.CodeOutOfMemory)
				return
			}
			*at, o.State, o.Took = parking{state: move.Locked, done: now.Add(takes)}, move.Locked, takes.Seconds()
		case step == move.Unlock && o.State == move.Locked:
			delete(p.parking, uuid)
			o.State = move.Running
		default:
			refuse(device.CodeIllegalState)
		}
	})
	if !there && step != move.Ask {
		refuse(device.CodeSystem)
	}
	return o
}
