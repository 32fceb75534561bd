package process

import (
	"os"
	"strconv"

	"github.com/berth-gpu/berth/internal/process/kinship"
)

// Family reads all living processes, each with its parent. A process whose
// parent has ended belongs to the process that took it over.
func (t Table) Family() kinship.Family {
	all := kinship.Family{}
	for _, pid := range t.PIDs() {
		if s, err := t.stat(pid); err == nil && s.state != 'Z' && s.state != 'X' {
			all[pid] = kinship.Relative{ID: ID{PID: pid, Start: s.start}, Parent: s.parent}
		}
	}
	return all
}

// PIDs returns the pids of all processes.
func (t Table) PIDs() []int {
	dir, err := os.Open(t.root)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // an incomplete list is better than none
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
