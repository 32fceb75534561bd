package mover

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process"
)

// Kept returns why berth does not park a lease by itself, to follow a colon: its
// processes may share memory of the device. It looks at the processes that were last seen
// there, and returns "" if they share nothing, or the owner says that they do not.
func (p *Mover) Kept(held *lease.Lease) string {
	if p.Leases.Unshared(held) || len(held.Parts) != 1 {
		return ""
	}
	return mayShare(held, p.Leases.Processes(held.Parts[0].GPU), nil)
}

// keeps reports whether a lease that takes room on a device is kept there. Seen caches
// the processes on devices.
func (p *Mover) keeps(h *placement.Holding, seen map[string][]ledger.Process) bool {
	held := p.Leases.Lease(h.Key, h.Fence)
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
	list := make([]park.User, 0, len(on))
	for _, o := range on {
		if o.Lease != nil && o.Lease.State == lease.Parked && o.Memory <= remains {
			continue
		}
		u := park.User{Ours: o.Lease != nil && o.Lease.Fence == held.Fence}
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
		list = append(list, park.User{Line: []move.Process{id}, Ours: true})
	}
	return park.MayShare(move.Process{PID: held.Holder.PID, Start: held.Holder.Start}, os.Getpid(), list)
}

// separate refuses a lease whose processes may share memory of the device, by the last
// sample. Otherwise it records how berth knows that they do not.
func (p *Mover) separate(r *record, members []moved) error {
	held := p.Leases.Lease(r.Key, r.Fence)
	if held == nil {
		return errEnded
	}
	ground := move.Alone
	if why := mayShare(held, p.Leases.Processes(r.GPU), members); why != "" {
		if !r.Said && !p.Leases.Unshared(held) {
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

// members returns the processes of a lease, with the memory that they have on its device.
// It refuses a lease if berth must not act on one of its processes that uses a device, or
// if a process also uses another device. It leaves alone processes of other users that
// use no device.
func (p *Mover) members(r *record) ([]moved, error) {
	var list []moved
	index := map[process.ID]int{}
	reached, spared := p.Processes.Reach(r.In, p.Leases.Members(r.Key, r.Fence))
	r.spared = p.Processes.Describe(spared)
	for _, id := range reached {
		index[id] = len(list)
		list = append(list, moved{Process: move.Process(id)})
	}
	for uuid := range p.Leases.Sums() {
		for _, on := range p.Leases.Processes(uuid) {
			if len(on.Line) == 0 {
				continue
			}
			i, member := index[on.Line[0]]
			ours := on.Lease != nil && on.Lease.Fence == r.Fence
			switch {
			case slices.Contains(spared, on.Line[0]):
				return nil, refuseOthers(r.Key.ID, on.Line[0].PID)
			case member && uuid == r.GPU:
				list[i].Memory += on.Memory
			case member:
				return nil, refuse(r.Key.ID, move.Unparkable, fmt.Sprintf("process %d also uses another device", on.Line[0].PID), "")
			case ours && uuid == r.GPU:
				return nil, refuse(r.Key.ID, move.Unparkable, fmt.Sprintf("process %d is counted with the lease, but it is not certain that it belongs to it (%s)", on.Line[0].PID, on.By),
					"Start it with berth exec, or under the process that holds the lease.")
			}
		}
	}
	return list, nil
}

// refuseOthers refuses to park a lease that has a process which the user of the mandate
// could not signal: the processes of a lease are parked together or not at all.
func refuseOthers(id string, pid int) error {
	return refuse(id, move.Unparkable, fmt.Sprintf("process %d uses the device and belongs to another user", pid), "Ask an operator to park it, or end that process first.")
}

// remeasure measures the memory of the processes of a lease on the device. It may have
// grown until they were locked.
func (p *Mover) remeasure(ctx context.Context, r *record) error {
	if _, err := p.sample(ctx, r.GPU); err != nil {
		return err
	}
	if err := p.newMembers(r); err != nil {
		return err
	}
	return p.separate(r, r.Processes)
}

// newMembers adds the processes that a lease has started meanwhile, and the memory that
// they have taken.
func (p *Mover) newMembers(r *record) error {
	list, err := p.members(r)
	if err != nil {
		return err
	}
	news, err := p.addMembers(r, list)
	if err != nil || !news {
		return err
	}
	return p.write()
}

// addMembers does the part of newMembers before the file, and reports whether there is
// something new. Only its own goroutine changes r.Processes meanwhile.
func (p *Mover) addMembers(r *record, list []moved) (news bool, err error) {
	all, index, more := slices.Clone(r.Processes), map[move.Process]int{}, gpu.MiB(0)
	for i, m := range all {
		index[m.Process] = i
	}
	for _, m := range list {
		i, known := index[m.Process]
		if !known {
			i, index[m.Process] = len(all), len(all)
			all = append(all, moved{Process: m.Process})
		}
		if m.Memory > all[i].Memory {
			more += m.Memory - all[i].Memory
			all[i].Memory = m.Memory
		}
	}
	if len(all) == len(r.Processes) && more == 0 {
		return false, nil
	}
	group := gpu.Opt[gpu.MiB]{}
	if more > 0 {
		group = p.Machine.Group(identities(r.Processes))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if more > 0 {
		host, err := p.hostFor(r.Simulated, group)
		if err != nil {
			return false, err
		}
		if r.Phase == move.Parking {
			host.Coming -= memory(r.Processes) // that memory is there by now
		}
		if why := host.Refuse(more); why != "" {
			return false, refuse(r.Key.ID, move.NoHost, why, "")
		}
	}
	r.Processes = all
	return true, nil
}
