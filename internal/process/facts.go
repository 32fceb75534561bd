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

// Facts reads what package kinship goes by of a process, without the login name of
// its user. What this process may not read is absent: only root reads the
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

// Cgroups returns the paths of the control groups of a process, see
// kinship.ParseCgroups, or the one that a simulation says it is in.
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

// mostCommand is how much of the command of a process is read, in bytes: enough
// for the name of a script.
const mostCommand = 4096

// programs returns the names that a process goes by, apart from that of its
// script.
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

// Command returns the first words of the command of a process; none if it is a
// zombie or a thread of the kernel.
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
