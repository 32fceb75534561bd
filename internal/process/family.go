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
	pids, _ := numbers(t.root) // an incomplete list is better than none
	return pids
}

// Threads returns the numbers of the threads of a process.
func (t Table) Threads(pid int) ([]int, error) { return numbers(t.file(pid, "task")) }

// numbers returns the names in a folder that are numbers.
func numbers(folder string) ([]int, error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	var list []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			list = append(list, n)
		}
	}
	return list, err
}
