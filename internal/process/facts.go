package process

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// Facts returns the facts about a process that package kinship uses, without the login
// name of its user. It leaves out what this process may not read: only root reads the
// environments and executables of every user.
func (t Table) Facts(id ID) kinship.Facts {
	if id.PID > lastPID {
		said, _ := t.simulated.facts(id.PID)
		return said
	}
	uid, err := t.UID(id.PID)
	if err != nil {
		return kinship.Facts{}
	}
	lease, _ := t.Variable(id.PID, "BERTH_LEASE")
	fence, _ := t.Variable(id.PID, "BERTH_FENCE")
	return kinship.Facts{
		UID: access.KnownUID(uid), Origin: kinship.ParseOrigin(lease, fence, uid),
		Cgroups: t.Cgroups(id.PID), Programs: t.programs(id.PID),
	}
}

// Cgroups returns the paths of the control groups of a process, see kinship.ParseCgroups,
// or the one that a simulation gives.
func (t Table) Cgroups(pid int) []string {
	if said, _ := t.simulated.facts(pid); len(said.Cgroups) > 0 {
		return said.Cgroups
	}
	text, err := os.ReadFile(t.file(pid, "cgroup"))
	if err != nil {
		return nil
	}
	return kinship.ParseCgroups(string(text))
}

// mostCommand is the number of bytes to read of the command of a process, enough for the
// name of a script.
const mostCommand = 4096

// programs returns the names of a process, except that of its script.
func (t Table) programs(pid int) []string {
	comm, err := os.ReadFile(t.file(pid, "comm"))
	if err != nil {
		return nil
	}
	executable, _ := os.Readlink(t.file(pid, "exe"))
	names := []string{strings.TrimSuffix(string(comm), "\n"), executable}
	if command := t.Command(pid); len(command) > 0 {
		names = append(names, command[0])
	}
	return kinship.Programs(names...)
}

// Command returns the first words of the command of a process. A zombie or a thread of
// the kernel has none.
func (t Table) Command(pid int) []string {
	file, err := os.Open(t.file(pid, "cmdline"))
	if err != nil {
		return nil
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostCommand))
	if err != nil || len(text) == 0 {
		return nil
	}
	var words []string
	for word := range bytes.SplitSeq(bytes.TrimSuffix(text, []byte{0}), []byte{0}) {
		words = append(words, string(word))
	}
	return words
}

func (t Table) file(pid int, name string) string {
	return filepath.Join(t.root, strconv.Itoa(pid), name)
}
