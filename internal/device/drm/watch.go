package drm

import (
	"context"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/device"
)

// countPeriod is how often Watch reads the counters of errors.
const countPeriod = 30 * time.Second

// Watch reports faults that the driver writes to the kernel's log, if berth may read it,
// and errors that the counters show, where the driver has some. Only root may read the log,
// unless the machine lets everybody read it.
func (b *Backend) Watch(ctx context.Context, found func(device.Fault)) error {
	if ctx.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	var mu sync.Mutex // serializes calls of found
	tell := func(f device.Fault) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() == nil {
			found(f)
		}
	}
	deaf := make(chan error, 1)
	go func() { deaf <- Follow(ctx, b.Root.Log(), func(m Message) { b.heard(m, tell) }) }()
	reading := true
	defer func() {
		cancel()
		if reading {
			<-deaf
		}
	}()
	ticks := time.NewTicker(countPeriod)
	defer ticks.Stop()
	counts := map[string]int64{}
	b.count(counts, tell)
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-deaf:
			reading = false
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil && !Denied(err) && Exists(b.Root.Log()):
				return err
			}
		case <-ticks.C:
		}
		cards := len(b.all()) // before they are counted: a Scan may find more meanwhile, and those may count
		b.count(counts, tell)
		if !reading && len(counts) == 0 && cards > 0 {
			return &device.Error{Op: "watch for faults", Err: device.ErrUnsupported,
				Hint: "run berth as root, or give it CAP_SYSLOG, to let it read the kernel's log"}
		}
	}
}

// heard reports a message of the driver if it describes a fault of a GPU.
func (b *Backend) heard(m Message, tell func(device.Fault)) {
	if !b.table.Faults.from(b.table.Drivers, m.Text) {
		return
	}
	fault, pid, ok := b.table.Faults.Describe(m.Text)
	if !ok {
		return
	}
	for _, c := range b.all() {
		if c.at.Load().PCI == m.PCI {
			tell(device.Fault{Fault: fault, GPU: c.uuid, Time: b.Now(), PID: pid, Detail: map[string]any{"kind": "kernel_log", "message": m.Text}})
		}
	}
}

// count reports errors that the counters added since the last call.
func (b *Backend) count(counts map[string]int64, tell func(device.Fault)) {
	for _, c := range b.all() {
		_, errors, ok := c.at.Load().readErrors(b.table.Errors)
		if !ok {
			continue
		}
		before, known := counts[c.uuid]
		counts[c.uuid] = errors
		if known && errors > before {
			tell(device.Fault{Fault: b.table.Uncorrected, GPU: c.uuid, Time: b.Now(), Detail: map[string]any{"kind": "ras", "count": errors - before}})
		}
	}
}
