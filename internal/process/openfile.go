package process

import (
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
		for _, file := range t.openFiles(pid) {
			if wanted[file] && !seen[file] {
				seen[file] = true
				found[file] = append(found[file], pid)
			}
		}
	}
	return found
}

func (t Table) openFiles(pid int) []string {
	folder := filepath.Join(t.root, strconv.Itoa(pid), "fd")
	dir, err := os.Open(folder)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var files []string
	for _, name := range names {
		if file, err := os.Readlink(filepath.Join(folder, name)); err == nil {
			files = append(files, file)
		}
	}
	return files
}
