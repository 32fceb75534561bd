package process

import (
	"iter"
	"os"
	"path/filepath"
	"strconv"
)

// Openers returns the processes that have each of these files open. It leaves out
// processes that this one may not inspect: only root sees those of every user.
func (t Table) Openers(files []string) map[string][]int {
	wanted := map[string]bool{}
	for _, file := range files {
		wanted[file] = true
	}
	found := map[string][]int{}
	for _, pid := range t.PIDs() {
		seen := map[string]bool{}
		for file := range t.OpenFiles(pid) {
			if wanted[file] && !seen[file] {
				seen[file] = true
				found[file] = append(found[file], pid)
			}
		}
	}
	return found
}

// OpenFiles yields the files that a process has open, as their links name them.
func (t Table) OpenFiles(pid int) iter.Seq[string] {
	return func(yield func(string) bool) {
		folder := t.file(pid, "fd")
		fds, _ := numbers(folder) // a partial list is better than none
		for _, fd := range fds {
			if file, err := os.Readlink(filepath.Join(folder, strconv.Itoa(fd))); err == nil && !yield(file) {
				return
			}
		}
	}
}
