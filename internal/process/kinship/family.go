package kinship

import "slices"

// Family holds the living processes of a machine at one moment, by pid, each with its
// parent.
type Family map[int]Relative

// Relative is one process of a family.
type Relative struct {
	ID     ID
	Parent int // pid
}

// Tree lists the living processes among roots, and all their descendants. A process whose
// parent has ended descends from the process that took it over.
func (f Family) Tree(roots []ID) []ID {
	wanted := Set(roots)
	belongs := map[int]bool{} // by pid, once it is known
	var find func(pid, depth int) bool
	find = func(pid, depth int) bool {
		r, there := f[pid]
		if !there || depth > maxDepth {
			return false
		}
		if known, ok := belongs[pid]; ok {
			return known
		}
		belongs[pid] = wanted[r.ID] || find(r.Parent, depth+1)
		return belongs[pid]
	}
	var tree []ID
	for pid, r := range f {
		if find(pid, 0) {
			tree = append(tree, r.ID)
		}
	}
	return tree
}

// maxDepth limits a walk up a family. The table of processes is read while it changes, so
// there may be a circle.
const maxDepth = 1000

// line returns a process and its ancestors; none if it has ended.
func (f Family) line(id ID) map[ID]bool {
	line := map[ID]bool{}
	if f[id.PID].ID != id {
		return line
	}
	for depth, pid := 0, id.PID; depth <= maxDepth; depth++ {
		r, there := f[pid]
		if !there {
			break
		}
		line[r.ID], pid = true, r.Parent
	}
	return line
}

// Members lists the living processes of a holder: the roots, which are the holder and the
// processes that work for it on a device, and all their descendants.
//
// Members leaves out the trees of other holders, except those that the holder itself
// descends from: it was started from inside their leases, and only what is below it
// counts. Members also leaves out the daemon and its ancestors (own, the daemon first),
// because members may be ended. If the holder is one of them, Members leaves out all
// processes that the daemon has started too.
func (f Family) Members(holder ID, roots, others, own []ID) []ID {
	line := f.line(holder)
	others = slices.DeleteFunc(slices.Clone(others), func(other ID) bool { return line[other] })
	spared := append(f.Tree(others), own...)
	if slices.Contains(own, holder) {
		spared = append(spared, f.Tree(own[:1])...)
	}
	out := Set(spared)
	return slices.DeleteFunc(f.Tree(roots), func(id ID) bool { return out[id] })
}

// Set returns processes as a set.
func Set(ids []ID) map[ID]bool {
	in := make(map[ID]bool, len(ids))
	for _, id := range ids {
		in[id] = true
	}
	return in
}
