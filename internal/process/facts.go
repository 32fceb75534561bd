package process

import (
	"fmt"
	"io"
	"iter"
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
	facts, _ := t.Inspect(id)
	return facts
}

// Inspect returns the facts about a process, and what it was started with.
func (t Table) Inspect(id ID) (kinship.Facts, Said) {
	if id.PID > lastPID {
		facts := t.simulated.facts(id.PID)
		return facts, Said{}
	}
	uid, err := t.UID(id.PID)
	if err != nil {
		return kinship.Facts{}, Said{}
	}
	said, answered := t.hear(id, uid)
	lease, _ := said.Variable(LeaseVariable)
	fence, _ := said.Variable(FenceVariable)
	return kinship.Facts{
		UID: access.KnownUID(uid), Origin: kinship.ParseOrigin(lease, fence, uid),
		Cgroups: t.Cgroups(id.PID), Programs: t.programs(id.PID, said.Command()), Unread: !answered,
	}, said
}

// Cgroups returns the paths of the control groups of a process, see kinship.ParseCgroups,
// or the one that a simulation gives.
func (t Table) Cgroups(pid int) []string {
	if said := t.simulated.facts(pid); len(said.Cgroups) > 0 {
		return said.Cgroups
	}
	text, err := t.text(pid, "cgroup", mostText)
	if err != nil {
		return nil
	}
	return kinship.ParseCgroups(string(text))
}

// programs returns the names of a process, except that of its script.
func (t Table) programs(pid int, command []string) []string {
	comm, err := t.text(pid, "comm", mostText)
	if err != nil {
		return nil
	}
	executable, _ := os.Readlink(t.file(pid, "exe"))
	names := []string{strings.TrimSuffix(string(comm), "\n"), executable}
	if len(command) > 0 {
		names = append(names, command[0])
	}
	return kinship.Programs(names...)
}

func (t Table) file(pid int, name string) string {
	return filepath.Join(t.root, strconv.Itoa(pid), name)
}

// mostText is more than the kernel writes about a process in a file.
const mostText = 1 << 20

// text returns the beginning of a file about a process, which may have any length: the
// process itself decides how long some of them are.
func (t Table) text(pid int, name string, most int64) ([]byte, error) {
	file, err := os.Open(t.file(pid, name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, most))
}

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

// mostOpen limits the open files of a process that are looked at. A process may have half a
// million, and a look at each takes 4 µs.
const mostOpen = 16 << 10

// OpenFiles yields the files that a process has open, as their links name them: the first
// mostOpen.
func (t Table) OpenFiles(pid int) iter.Seq[string] {
	return func(yield func(string) bool) {
		folder, err := os.Open(t.file(pid, "fd"))
		if err != nil {
			return
		}
		defer folder.Close()
		for left := mostOpen; left > 0; {
			fds, err := folder.Readdirnames(min(left, 1024))
			for _, fd := range fds {
				if file, err := os.Readlink(filepath.Join(folder.Name(), fd)); err == nil && !yield(file) {
					return
				}
			}
			if left -= len(fds); err != nil { // a partial list is better than none
				return
			}
		}
	}
}

// Load returns how many processes of the machine ran or wanted to run in the last minute,
// on average.
func (t Table) Load() (float64, error) {
	text, err := os.ReadFile(filepath.Join(t.root, "loadavg"))
	if err != nil {
		return 0, fmt.Errorf("read the load of the machine: %w", err)
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil || !(load >= 0) {
		return 0, fmt.Errorf("the kernel says that the load of the machine is %.40q", first)
	}
	return load, nil
}

// HasGPUOpen reports whether a process has a file open that programs compute on a GPU
// with: of NVIDIA's driver, of AMD's, or a render node. What only reads about GPUs, such
// as nvidia-smi, opens others. It returns false for a process that this one may not
// inspect.
func (t Table) HasGPUOpen(id ID) bool {
	for file := range t.OpenFiles(id.PID) {
		if file == "/dev/nvidia-uvm" || file == "/dev/kfd" || strings.HasPrefix(file, "/dev/dri/renderD") {
			return t.Alive(id) // and not another one that has the pid now
		}
	}
	return false
}

// unitFolders lists where systemd finds the files of its units, of the machine and of all
// users.
var unitFolders = []string{
	"/etc/systemd/system", "/run/systemd/system", "/run/systemd/generator", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system",
	"/etc/systemd/user", "/run/systemd/user", "/usr/local/lib/systemd/user", "/usr/lib/systemd/user",
}

// HasUnitFile reports whether systemd has the file of a service, so that the service can
// be started: nothing else shows a unit that does not run. The ending .service may be
// left out. HasUnitFile does not see units in the home of a user.
func HasUnitFile(name string) bool { return hasUnitFile(unitFolders, name) }

func hasUnitFile(folders []string, name string) bool {
	if name == "" || strings.ContainsAny(name, "/\x00") {
		return false
	}
	if !strings.HasSuffix(name, ".service") {
		name += ".service"
	}
	files := []string{name}
	if template, _, instance := strings.Cut(name, "@"); instance {
		files = append(files, template+"@.service")
	}
	for _, folder := range folders {
		for _, file := range files {
			if _, err := os.Stat(filepath.Join(folder, file)); err == nil {
				return true
			}
		}
	}
	return false
}
