package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// Watch reports each fault of the script once. The first Watch begins with the start of
// the simulation, a later one where the one before it ended.
func (b *Backend) Watch(ctx context.Context, found func(device.Fault)) error {
	for {
		next := b.nextFault()
		if ctx.Err() != nil || !b.wait(next, ctx.Done()) {
			return nil
		}
		for _, f := range b.take(next) {
			found(f)
		}
	}
}

func (b *Backend) nextFault() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := never
	for _, c := range b.cards {
		next = min(next, c.script.nextFault(b.reported))
	}
	return next
}

// take returns the faults of one moment, unless they were taken before.
func (b *Backend) take(t time.Duration) []device.Fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t <= b.reported {
		return nil
	}
	b.reported = t
	var list []device.Fault
	for _, c := range b.cards {
		for _, f := range c.script.faultsAt(t) {
			list = append(list, f.report(c.about.UUID, b.wall(t)))
		}
	}
	return list
}

func (f fault) report(uuid string, when time.Time) device.Fault {
	return device.Fault{Fault: f.Fault, GPU: uuid, Time: when, PID: f.pid, Detail: f.detail}
}

// memoryFault returns the fault that the driver reports for a number of memory errors.
func memoryFault(kind memoryKind, count int64) fault {
	f := fault{ecc: kind, count: count, detail: map[string]any{"kind": "ecc_" + string(kind)}}
	if kind == corrected {
		f.Fault = gpu.Fault{Name: errorsOf(count) + " corrected", Class: gpu.FaultDevice, Severity: gpu.Note}
	} else {
		f.Fault = gpu.Fault{Name: errorsOf(count) + " that could not be corrected", Class: gpu.FaultDevice, Severity: gpu.Serious}
	}
	return f
}

func errorsOf(count int64) string {
	if count == 1 {
		return "a memory error"
	}
	return fmt.Sprintf("%d memory errors", count)
}
