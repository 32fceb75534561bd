package idle

import (
	"context"
	"errors"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// Run asks drivers how much the processes of leases used their devices, until ctx ends.
// It sleeps while there is no lease that berth may park.
func (i *Idlers) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-i.due:
			i.ask(ctx)
		}
	}
}

// ask asks every device whose time has come.
func (i *Idlers) ask(ctx context.Context) {
	for uuid, since := range i.asking() {
		busy, err := i.Busy(ctx, uuid, since)
		switch {
		case err == nil:
			i.take(uuid, &busy)
		case errors.Is(err, device.ErrUnsupported), errors.Is(err, device.ErrNoPermission):
			i.take(uuid, nil)
		default: // a device that does not answer says nothing about its leases
			i.askAgain(uuid, since)
		}
	}
}

// askAgain has the next question to a device begin where one began that was not answered.
func (i *Idlers) askAgain(uuid string, since time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if u := i.devices[uuid]; u != nil {
		u.asked = since
	}
}

// asking returns the devices to ask, and the moment from which to ask. A question begins
// where the last one ended, so that no work is missed.
func (i *Idlers) asking() map[string]time.Time {
	every := Often(i.After())
	i.mu.Lock()
	defer i.mu.Unlock()
	list := map[string]time.Time{}
	for uuid, u := range i.devices {
		if since := u.seen.Sub(u.asked); since >= every || since < 0 {
			list[uuid] = u.asked
			if since < 0 { // the clock was set back
				list[uuid] = u.seen.Add(-every)
			}
			u.asked = u.seen
		}
	}
	return list
}

// take records how much the processes on a device used it. Busy is nil if the driver
// cannot say.
func (i *Idlers) take(uuid string, busy *device.Busy) {
	after := i.After()
	i.mu.Lock()
	u := i.devices[uuid]
	if u == nil {
		i.mu.Unlock()
		return // all its leases have left meanwhile
	}
	for _, m := range u.here {
		share, from := gpu.Opt[gpu.Percent]{}, u.asked
		if busy != nil && !m.used {
			share = gpu.Some(sum(busy.Shares, m.pids))
			if busy.Until.After(busy.From) {
				from = busy.From
			}
		}
		m.used = false
		m.Sample(from, u.asked, share, m.memory)
	}
	events := i.judge(u, u.asked, after)
	i.mu.Unlock()
	i.tell(events)
}

// sum returns how much several processes used the device together.
func sum(shares map[int]gpu.Percent, pids []int) gpu.Percent {
	var all gpu.Percent
	for _, pid := range pids {
		all += shares[pid]
	}
	return all
}
