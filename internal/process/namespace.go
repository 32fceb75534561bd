package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// InNamespace translates a pid inside a PID namespace, such as a container's, to the pid
// in this table. The namespace has the form of /proc/PID/ns/pid, "pid:[4026531836]".
// InNamespace returns an error that wraps ErrGone unless it finds exactly one living
// process. It does not find processes whose namespace this process may not read: only
// root reads those of every user.
func (t Table) InNamespace(namespace string, pid int) (int, error) {
	var found []int
	for _, outer := range t.PIDs() {
		if t.isInNamespace(outer, namespace, pid) {
			found = append(found, outer)
		}
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("find process %d of the PID namespace %q: %d processes match: %w", pid, namespace, len(found), ErrGone)
	}
	return found[0], nil
}

// isInNamespace reports whether a process of this table has the pid inner in its
// namespace. It reads everything through one handle on the folder of the process, so that
// all of it is about the same process even if the pid is reused meanwhile.
func (t Table) isInNamespace(outer int, namespace string, inner int) bool {
	proc, err := os.OpenRoot(t.file(outer, ""))
	if err != nil {
		return false
	}
	defer proc.Close()
	if link, err := proc.Readlink("ns/pid"); err != nil || link != namespace {
		return false
	}
	status, err := proc.ReadFile("status")
	if err != nil {
		return false
	}
	pid, living := innermost(status)
	return living && pid == inner
}

// innermost reads from a status file the pid that a process has in its own
// namespace, and whether it lives: a zombie does not. A kernel without PID namespaces
// does not say.
func innermost(status []byte) (pid int, living bool) {
	state, pids := wordsOf(status, "State"), wordsOf(status, "NSpid")
	if len(state) == 0 || len(pids) == 0 {
		return 0, false
	}
	pid, err := strconv.Atoi(pids[len(pids)-1])
	return pid, err == nil && state[0] != "Z" && state[0] != "X"
}

// SeesOurFiles reports whether a process is in the mount namespace of the machine: that of
// process 1, or that of this process where the other cannot be read. It returns false if
// nobody knows, and if the process has ended: another one may have its pid.
func (t Table) SeesOurFiles(id ID) bool {
	if t.world != nil {
		return t.Alive(id)
	}
	its, err := os.Readlink(t.file(id.PID, "ns/mnt"))
	if err != nil {
		return false
	}
	home, err := os.Readlink(t.file(1, "ns/mnt"))
	if err != nil {
		home, err = os.Readlink(filepath.Join(t.root, "self/ns/mnt"))
	}
	return err == nil && its == home && t.Alive(id)
}
