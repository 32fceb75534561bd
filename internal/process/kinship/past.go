package kinship

// Past remembers the last lease of each process, to find the processes that are left over
// from a lease that has ended. The zero Past is empty.
type Past struct {
	ended   map[ID]ending
	origins map[Origin]ID // keys of ended
	order   []ID          // keys of ended, oldest first
}

// remembered is the number of processes whose last lease a Past remembers.
const remembered = 1024

// ending is the end of a lease.
type ending struct {
	origin Origin // the claim in the environment of a process that worked under the lease
	at     uint64 // clock ticks since boot
}

// saw reports whether a process existed when the lease ended. A process that was started
// later never worked under the lease, whatever its ancestors are.
func (e ending) saw(id ID) bool { return id.Start < e.at }

// Note records that a lease has ended, at a time in clock ticks since boot. A lease
// without a holder is remembered for the processes that were started under it.
func (p *Past) Note(l Lease, at uint64) {
	holder := l.Holder
	if holder == (ID{}) {
		holder.Start = l.Fence // no process has pid 0, so this key is unique
	}
	if p.ended == nil {
		p.ended, p.origins = map[ID]ending{}, map[Origin]ID{}
	}
	before, known := p.ended[holder]
	if !known {
		p.order = append(p.order, holder)
	}
	delete(p.origins, before.origin)
	origin := Origin{l.ID, l.Fence, l.UID}
	p.ended[holder], p.origins[origin] = ending{origin, at}, holder
	if len(p.order) > remembered {
		delete(p.origins, p.ended[p.order[0]].origin)
		delete(p.ended, p.order[0])
		p.order = p.order[1:]
	}
}

// LeaseOf returns the id of the lease that a process worked under until the lease ended,
// by descent or by environment, or "" if there was none. An origin to a lease that Past
// does not remember does not count.
func (p *Past) LeaseOf(process Process) string {
	for _, id := range process.Ancestry {
		if e, known := p.ended[id]; known && e.saw(process.ID()) {
			return e.origin.Lease
		}
	}
	if process.Origin.Lease == "" {
		return ""
	}
	if holder, known := p.origins[process.Origin]; known && p.ended[holder].saw(process.ID()) {
		return process.Origin.Lease
	}
	return ""
}
