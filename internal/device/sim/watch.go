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
		r.Class, r.Text = device.ClassNote, fmt.Sprintf("%d memory errors were corrected", f.count)
	case device.FaultECCUncorrected:
		r.Class, r.Text = device.ClassDevice, fmt.Sprintf("%d memory errors could not be corrected", f.count)
	default:
		r.Class, r.Text = classify(f.code)
	}
	return r
}

// classify says whose fault an XID is and what it means. It knows the codes
// that people are likely to script.
func classify(xid int) (device.FaultClass, string) {
	application := map[int]string{
		13: "graphics engine exception",
		31: "memory page fault",
		43: "the application stopped the GPU's processing",
		45: "the application was ended and its channels cleaned up",
		68: "video processor exception",
	}
	dev := map[int]string{
		48:  "double-bit memory error",
		62:  "internal micro-controller halt",
		64:  "a row of memory could not be retired",
		74:  "NVLink error",
		79:  "the GPU has fallen off the bus",
		92:  "high rate of single-bit memory errors",
		95:  "uncontained memory error",
		119: "the GPU's system processor did not answer",
	}
	if text, ok := application[xid]; ok {
		return device.ClassApplication, fmt.Sprintf("XID %d: %s", xid, text)
	}
	if text, ok := dev[xid]; ok {
		return device.ClassDevice, fmt.Sprintf("XID %d: %s", xid, text)
	}
	return device.ClassNote, fmt.Sprintf("XID %d", xid)
}
