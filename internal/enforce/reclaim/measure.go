package reclaim

import (
	"context"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// state holds the measurements of the devices at one moment.
type state struct {
	order   []string // UUIDs, in the order of the devices
	used    map[string]gpu.MiB
	fresh   map[string]bool    // devices that answered this time
	forSale map[string]gpu.MiB // memory that could be leased
}

// measure reads the devices of the optimization.
func (c *climb) measure(ctx context.Context) state {
	began := time.Now()
	s := state{used: map[string]gpu.MiB{}, fresh: map[string]bool{}, forSale: map[string]gpu.MiB{}}
	var uuids []string
	for _, r := range c.Monitor.Readings() {
		if c.covers(r.Device.UUID) && r.State != gpu.Unavailable {
			uuids = append(uuids, r.Device.UUID)
		}
	}
	if !c.DryRun {
		c.read(ctx, uuids)
	}
	sums := c.Leases.Sums()
	for _, r := range c.Monitor.Readings() {
		uuid := r.Device.UUID
		if !c.covers(uuid) {
			continue
		}
		used, known := r.Sample.MemoryUsed.Get()
		s.order, s.used[uuid] = append(s.order, uuid), used
		s.fresh[uuid] = known && r.Sampled && !r.Sample.Time.Before(began)
		s.forSale[uuid] = max(sums[uuid].Available(), 0)
	}
	return s
}

// read reads devices at the same time.
func (c *climb) read(ctx context.Context, uuids []string) {
	var group sync.WaitGroup
	for _, uuid := range uuids {
		group.Go(func() { c.Monitor.Read(ctx, uuid) })
	}
	group.Wait()
}

// until returns how much less memory the devices have in use in a later state. It leaves
// out devices that did not answer both times.
func (s state) until(later state) (freed gpu.MiB) {
	for uuid, fresh := range s.fresh {
		if fresh && later.fresh[uuid] {
			freed += s.used[uuid] - later.used[uuid]
		}
	}
	return max(freed, 0)
}

// compare returns each device before and after.
func (s state) compare(later state) (list []api.Reclaimed) {
	for _, uuid := range s.order {
		list = append(list, api.Reclaimed{
			GPU: uuid, UsedBefore: s.used[uuid], UsedAfter: later.used[uuid],
			AvailableBefore: s.forSale[uuid], AvailableAfter: later.forSale[uuid],
		})
	}
	return list
}
