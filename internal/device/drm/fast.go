package drm

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Fast reads a dozen small files, and what the driver says about the open files of each
// process.
func (c *board) Fast(ctx context.Context, into *gpu.Sample) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	at, t, now := c.at.Load(), c.backend.table, c.backend.Now()
	if t.Quiet {
		if err := c.lost(at); err != nil {
			return err
		}
	}
	got := gpu.Sample{GPU: into.GPU, Time: into.Time, Slow: into.Slow}
	failed := at.readMemory(t.MemoryUsed, &got)
	got.Utilization, failed = at.percent(t.Busy, failed)
	got.MemoryBusy, failed = at.percent(t.MemoryBusy, failed)
	got.Temperature = at.sensors.Temperature("input", t.Core...)
	got.MemoryTemperature = at.sensors.Temperature("input", t.MemoryTemperature...)
	got.Power = at.sensors.Watts(t.Power...)
	if len(t.Power) == 0 {
		got.Power = c.powerSince(at, now)
	}
	got.ClockSM = at.readClock(t)
	got.ClockMemory = at.sensors.Megahertz(t.ClockMemory)
	got.Throttle = t.Throttle(&at.Card)
	if failed != nil && !got.MemoryUsed.Known() && !got.Utilization.Known() && !got.Temperature.Known() && !got.Power.Known() {
		return c.silent(at, failed)
	}
	complete := c.readProcesses(at, now, &got)
	if t.Quiet {
		if complete {
			c.sumUp(at, &got)
		}
		got.Blind = !at.sensors.HasTemperature(t.Core...) && !got.MemoryUsed.Known()
	}
	*into = got
	return nil
}

// readMemory reads how much of the GPU's own memory is in use.
func (p *place) readMemory(file string, into *gpu.Sample) error {
	if file == "" {
		return nil
	}
	bytes, err := Number(p.Dir, file)
	if err != nil || bytes < 0 || p.memory <= 0 {
		return err
	}
	p.setUsed(gpu.MiBOf(uint64(bytes)), into)
	return nil
}

func (p *place) setUsed(used gpu.MiB, into *gpu.Sample) {
	used = min(used, p.memory)
	into.MemoryTotal, into.MemoryUsed, into.MemoryFree = gpu.Some(p.memory), gpu.Some(used), gpu.Some(p.memory-used)
}

func (p *place) percent(file string, before error) (gpu.Opt[gpu.Percent], error) {
	if file == "" {
		return gpu.Opt[gpu.Percent]{}, before
	}
	n, err := Number(p.Dir, file)
	if err != nil || n < 0 || n > 100 {
		return gpu.Opt[gpu.Percent]{}, cmp.Or(before, err)
	}
	return gpu.Some(gpu.Percent(n)), before
}

// readClock reads the frequency of the chip from the first of the files that exists, or
// else from the sensor.
func (p *place) readClock(t *Table) gpu.Opt[gpu.MHz] {
	for _, file := range t.Clock {
		n, err := Number(p.Dir, file)
		if err != nil && !Exists(p.Dir, file) {
			continue
		}
		if err != nil || n < 0 || n > 30_000 {
			return gpu.Opt[gpu.MHz]{}
		}
		return gpu.Some(gpu.MHz(n))
	}
	return p.sensors.Megahertz(t.ClockCore)
}

// powerSince returns the power since the last reading, from the energy that the driver
// counts.
func (c *board) powerSince(at *place, now time.Time) gpu.Opt[gpu.Watts] {
	before, since := c.energy, c.read
	c.energy, c.read = at.sensors.Joules(c.backend.table.Energy...), now
	from, ok := before.Get()
	to, ok2 := c.energy.Get()
	took := now.Sub(since).Seconds()
	if !ok || !ok2 || to < from || took <= 0 {
		return gpu.Opt[gpu.Watts]{}
	}
	power := gpu.Watts((to - from) / took)
	if power > mostWatts {
		return gpu.Opt[gpu.Watts]{}
	}
	return gpu.Some(power)
}

// readProcesses reads the processes that have the GPU open or compute on it, and reports
// whether berth sees the files of every process. For a process that does both, the larger
// amount of memory counts.
func (c *board) readProcesses(at *place, now time.Time, into *gpu.Sample) (complete bool) {
	b := c.backend
	used, complete, whole := b.openers.Of(&at.Card, now)
	c.usage.Add(now, used)
	list := Processes(used)
	for pid, memory := range at.node.computing(b.computing()) {
		i := slices.IndexFunc(list, func(p gpu.Process) bool { return p.PID == pid })
		if i < 0 {
			i = len(list)
			list = append(list, gpu.Process{PID: pid, Name: b.openers.Name(pid)})
		}
		list[i].Kind = gpu.Compute
		list[i].Memory = gpu.Some(max(memory, list[i].Memory.Or(0)))
	}
	slices.SortFunc(list, func(a, b gpu.Process) int { return cmp.Compare(a.PID, b.PID) })
	if whole { // else nobody may conclude that a process is not there
		into.Processes = list
	}
	return complete
}

// sumUp adds up the values of the processes, for a driver that has no file for the sum.
func (c *board) sumUp(at *place, into *gpu.Sample) {
	const lately = 2 * time.Second
	if shares := c.usage.Over(lately); shares.From.Before(shares.Until) {
		into.Utilization = gpu.Some(shares.Card)
	}
	if at.memory == 0 {
		return
	}
	var used gpu.MiB
	for _, p := range into.Processes {
		memory, known := p.Memory.Get()
		if !known {
			return
		}
		used += memory
	}
	at.setUsed(used, into)
}
