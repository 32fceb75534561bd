package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process"
)

// mount is the mount point of a cgroup v2 file system and the group at its root.
type mount struct{ point, root string }

// errNoMount means that this machine has no cgroup v2.
var errNoMount = errors.New("no cgroup v2 file system is mounted where the daemon runs: start the machine with systemd.unified_cgroup_hierarchy=1, or mount one (mount -t cgroup2 none DIR)")

// findMount returns the mount of cgroup v2 that shows the most groups.
func findMount() (mount, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return mount{}, err
	}
	return parseMounts(string(text))
}

// Top returns the folder of the outermost control group.
func Top() (string, error) {
	m, err := findMount()
	return m.point, err
}

// Of returns the folder of the control group of a process, and that of the outermost group.
func Of(pid int) (top, own string, err error) {
	m, err := findMount()
	if err != nil {
		return "", "", err
	}
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		err = process.ErrGone
	}
	if err != nil {
		return "", "", fmt.Errorf("find the control group of process %d: %w", pid, err)
	}
	own, err = m.folder(string(text))
	return m.point, own, err
}

func parseMounts(text string) (mount, error) {
	found := mount{}
	for line := range strings.Lines(text) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before) // id, parent, device, root, point, options
		if kind, _, _ := strings.Cut(after, " "); kind != "cgroup2" || len(fields) < 5 || strings.HasPrefix(fields[3], "/..") {
			continue
		}
		m := mount{point: unescape(fields[4]), root: unescape(fields[3])}
		if found.point == "" || len(m.root) < len(found.root) {
			found = m
		}
	}
	if found.point == "" {
		return mount{}, errNoMount
	}
	return found, nil
}

// findController returns the mount of cgroup v1 that has a controller, and false if there
// is none: then the controller belongs to cgroup v2.
func findController(text, controller string) (mount, bool) {
	for line := range strings.Lines(text) {
		before, after, _ := strings.Cut(line, " - ")
		fields, about := strings.Fields(before), strings.Fields(after) // about: kind, source, options
		if len(fields) < 5 || len(about) < 3 || about[0] != "cgroup" || strings.HasPrefix(fields[3], "/..") ||
			!slices.Contains(strings.Split(about[2], ","), controller) {
			continue
		}
		return mount{point: unescape(fields[4]), root: unescape(fields[3])}, true
	}
	return mount{}, false
}

// unescape decodes a path in mountinfo.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// folder returns the folder of the group of a process, from the text of /proc/PID/cgroup.
func (m mount) folder(text string) (string, error) { return m.folderOf(text, "") }

// folderOf returns the folder of the group of a process in the hierarchy of a controller
// of cgroup v1, or of cgroup v2 if the controller is empty.
func (m mount) folderOf(text, controller string) (string, error) {
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // number, controllers, path
		if len(fields) < 3 || controller == "" && fields[0] != "0" || !slices.Contains(strings.Split(fields[1], ","), controller) {
			continue
		}
		path := fields[2]
		below, seen := path, m.root == "/"
		if !seen {
			below, seen = strings.CutPrefix(path, m.root)
			seen = seen && (below == "" || below[0] == '/')
		}
		if !seen || path == "/.." || strings.HasPrefix(path, "/../") {
			return "", fmt.Errorf("the control group %s of the process is outside of those that the daemon sees: run the daemon outside of the container", path)
		}
		return filepath.Join(m.point, below), nil
	}
	if controller != "" {
		return "", fmt.Errorf("the process is in no group of the controller %s", controller)
	}
	return "", errors.New("the process is in no group of cgroup v2")
}
