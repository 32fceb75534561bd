package process

import (
	"os"
	"strconv"
)

// Tree lists the living processes among roots, and all that descend from one of
// them now. Those whose ancestors have gone are not found: they belong to
// whoever took them over.
func (t Table) Tree(roots []ID) []ID {
	wanted := make(map[ID]bool, len(roots))
	for _, id := range roots {
		wanted[id] = true
	}
	type kin struct {
		id     ID
		parent int
	}
	all := map[int]kin{}
	for _, pid := range t.PIDs() {
		if s, err := t.stat(pid); err == nil && s.state != 'Z' && s.state != 'X' {
			all[pid] = kin{ID{PID: pid, Start: s.start}, s.parent}
		}
	}
	belongs := map[int]bool{} // by pid, once it is known
	var find func(pid, depth int) bool
	find = func(pid, depth int) bool {
		k, there := all[pid]
		if !there || depth > 1000 { // the table is read while it changes
			return false
		}
		if known, ok := belongs[pid]; ok {
			return known
		}
		belongs[pid] = wanted[k.id] || find(k.parent, depth+1)
		return belongs[pid]
	}
	var tree []ID
	for pid, k := range all {
		if find(pid, 0) {
			tree = append(tree, k.id)
		}
	}
	return tree
}

// PIDs lists the processes there are.
func (t Table) PIDs() []int {
	dir, err := os.Open(t.root)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what could be read is better than nothing
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
