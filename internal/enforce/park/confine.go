package park

import (
	"context"
	"fmt"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
)

// confine takes the memory of processes that begin to use a device under a parked lease
// off it again: others have leased that memory. The processes then wait with the rest of
// their lease. It reports whether any lease is parked.
func (p *Parker) confine() (any bool) {
	p.mu.Lock()
	list := map[uint64]*parked{}
	for fence, r := range p.leases {
		if r.Phase == move.Parked {
			any = true
			if !r.moves && !r.ended {
				list[fence] = r
			}
		}
	}
	p.mu.Unlock()
	for _, r := range list {
		if !p.intrudes(r) {
			continue
		}
		p.mu.Lock()
		if r.Phase == move.Parked && !r.moves {
			r.moves = p.start(func(ctx context.Context) { p.takeOff(ctx, r) })
		}
		p.mu.Unlock()
	}
	return any
}

// intrudes reports whether a process of a parked lease uses the device.
func (p *Parker) intrudes(r *parked) bool {
	for _, on := range p.Leases.Processes(r.GPU) {
		if on.Lease != nil && on.Lease.Fence == r.Fence && on.Memory > remains && on.By.Certain() {
			return true
		}
	}
	return false
}

// takeOff takes the memory of new processes of a parked lease off the device.
func (p *Parker) takeOff(ctx context.Context, r *parked) {
	_, err := p.newMembers(r)
	if err == nil {
		err = p.separate(r, r.moved())
	}
	if err != nil {
		const what = "a process of it uses the device, and cannot be parked"
		why := what + ": " + reason(err)
		p.mu.Lock()
		told := r.failed == why
		p.mu.Unlock()
		r.setFailed(why, true)
		if !told {
			p.tellApart(r, gpu.EventParked, gpu.Serious, fmt.Sprintf("%s is parked, and %s", r.Key.ID, what), reason(err))
		}
		p.mu.Lock()
		r.moves = false
		p.mu.Unlock()
		p.settle(r)
		return
	}
	p.tell(r, gpu.EventParking, gpu.Warning, fmt.Sprintf("%s is parked, and a process of it began to use the device: it is parked too", r.Key.ID), map[string]any{"source": string(move.ByPressure)})
	p.confirm(ctx, r)
}
