package park

import (
	"fmt"

	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// Kept returns why berth does not park a lease by itself, to follow a colon: its
// processes may share memory of the device. It looks at the processes that were last seen
// there, and returns "" if they share nothing, or the owner says that they do not.
func (p *Parker) Kept(held *lease.Lease) string {
	if p.Leases.Unshared(held) || len(held.Parts) != 1 {
		return ""
	}
	return mayShare(held, p.Leases.Processes(held.Parts[0].GPU), nil)
}

// keeps reports whether a lease that takes room on a device is kept there. Seen caches
// the processes on devices.
func (p *Parker) keeps(h *placement.Holding, seen map[string][]ledger.Process) bool {
	held := p.find(h.Key, h.Fence)
	if held == nil || p.Leases.Unshared(held) {
		return false
	}
	on, asked := seen[h.GPU]
	if !asked {
		on = p.Leases.Processes(h.GPU)
		seen[h.GPU] = on
	}
	return mayShare(held, on, nil) != ""
}

// mayShare returns why processes of a lease may share memory of its device. Members
// belong to the lease even if they are charged to another lease of the same holder, and
// count even if they have just left the device. The processes of a parked lease have
// nothing on the device, even if the driver lists them.
func mayShare(held *lease.Lease, on []ledger.Process, members []moved) string {
	ours := map[move.Process]bool{}
	for _, m := range members {
		if m.Memory > 0 && held.State != lease.Parked {
			ours[m.Process] = true
		}
	}
	list := make([]User, 0, len(on))
	for _, o := range on {
		if o.Lease != nil && o.Lease.State == lease.Parked && o.Memory <= remains {
			continue
		}
		u := User{Ours: o.Lease != nil && o.Lease.Fence == held.Fence}
		for _, id := range o.Line {
			u.Line = append(u.Line, move.Process(id))
		}
		if len(u.Line) > 0 {
			u.Ours = u.Ours || ours[u.Line[0]]
			delete(ours, u.Line[0])
		}
		list = append(list, u)
	}
	for id := range ours {
		list = append(list, User{Line: []move.Process{id}, Ours: true})
	}
	return MayShare(move.Process{PID: held.Holder.PID, Start: held.Holder.Start}, list)
}

// separate refuses a lease whose processes may share memory of the device, by the last
// sample. Otherwise it records how berth knows that they do not.
func (p *Parker) separate(r *parked, members []moved) error {
	held := p.find(r.Key, r.Fence)
	if held == nil {
		return errEnded
	}
	p.mu.Lock()
	said := r.Said
	p.mu.Unlock()
	ground := move.Alone
	if why := mayShare(held, p.Leases.Processes(r.GPU), members); why != "" {
		if !said && !p.Leases.Unshared(held) {
			return refuse(held.ID, move.MemoryShared, why+", which the driver does not bring back",
				fmt.Sprintf("If nothing is shared, its owner can say so: berth park %s --unshared, or parkable: unshared for its service.", held.ID))
		}
		ground = move.Word
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r.Ground = ground
	return nil
}
