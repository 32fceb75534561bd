package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/internal/device"
)

// Watch reports the faults of the script, each once: the first Watch begins with
// the start of the simulation, a later one where the one before it ended.
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
	r := device.Fault{GPU: uuid, Time: when, Kind: f.kind, Code: f.code, PID: f.pid}
	switch f.kind {
	case device.FaultECCCorrected:
		r.Class, r.Text = device.ClassNote, errorsOf(f.count)+" corrected"
	case device.FaultECCUncorrected:
		r.Class, r.Text = device.ClassDevice, errorsOf(f.count)+" that could not be corrected"
	default:
		xid := device.DescribeXID(f.code)
		r.Class, r.Text = xid.Class, xid.String()
	}
	return r
}

func errorsOf(count int64) string {
	if count == 1 {
		return "a memory error"
	}
	return fmt.Sprintf("%d memory errors", count)
}
