package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// system examines the kernel and /proc.
func (d *Doctor) system() []Finding {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return []Finding{{"system", Broken, "the kernel does not say what it is: " + err.Error(), ""}}
	}
	kernel := Finding{Topic: "system", Grade: Fine, Text: fmt.Sprintf("%s %s (%s)",
		unix.ByteSliceToString(name.Sysname[:]), unix.ByteSliceToString(name.Release[:]), unix.ByteSliceToString(name.Machine[:]))}
	proc := Finding{Topic: "processes", Grade: Fine, Text: "/proc can be read"}
	if _, err := os.Stat(filepath.Join(d.Root, "proc/self/stat")); err != nil {
		proc = Finding{"processes", Broken, "/proc cannot be read, so nobody can tell which process uses a GPU", "mount it: mount -t proc proc /proc"}
	}
	return []Finding{kernel, proc}
}

// A disk with less room than diskSmall is worth a note. With less than diskFull it is
// broken: a journal that cannot be written stops every grant.
const (
	diskSmall = gpu.MiB(1 << 10)
	diskFull  = gpu.MiB(16)
)

// stateDir examines the state folder before a daemon uses it.
func stateDir(dir string) Finding {
	f := Finding{Topic: "state", Grade: Fine}
	place, exists := existing(dir)
	if err := unix.Access(place, unix.W_OK|unix.X_OK); err != nil {
		return Finding{"state", Broken, fmt.Sprintf("%s: %v", place, err), "give serve another folder: berth serve --state-dir DIR"}
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(place, &disk); err != nil {
		return Finding{"state", Notice, fmt.Sprintf("%s: free space is not known: %v", dir, err), ""}
	}
	free := gpu.MiBOf(disk.Bavail * uint64(disk.Bsize))
	f.Text = fmt.Sprintf("%s, %s free", dir, free)
	if !exists {
		f.Text += ", made at the first start"
	}
	if free < diskSmall {
		f.Grade, f.Next = Notice, "make room: the journal of leases is kept there"
	}
	if free < diskFull {
		f.Grade = Broken
	}
	return f
}

// existing returns the folder, or the nearest one above it that exists.
func existing(dir string) (place string, exists bool) {
	for place = filepath.Clean(dir); ; place = filepath.Dir(place) {
		if _, err := os.Stat(place); !errors.Is(err, os.ErrNotExist) || place == filepath.Dir(place) {
			return place, place == filepath.Clean(dir)
		}
	}
}

// unitDirs are the folders of systemd in which a unit may be.
var unitDirs = []string{"etc/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"}

// unitPath returns where the unit is, from the root, or "" if there is none.
func (d *Doctor) unitPath() string {
	for _, dir := range unitDirs {
		path := filepath.Join(dir, "berth.service")
		if _, err := os.Stat(filepath.Join(d.Root, path)); err == nil {
			return path
		}
	}
	return ""
}

// unit looks for the systemd unit.
func (d *Doctor) unit() Finding {
	if _, err := os.Stat(filepath.Join(d.Root, "run/systemd/system")); err != nil {
		return Finding{Topic: "systemd", Grade: Fine, Text: "not running here, and not needed"}
	}
	path := d.unitPath()
	if path == "" {
		return Finding{"systemd", Notice, "there is no berth.service, so berth does not start with the machine",
			"copy deploy/systemd/berth.service to /etc/systemd/system, then: sudo systemctl enable --now berth"}
	}
	wanted, _ := filepath.Glob(filepath.Join(d.Root, "etc/systemd/system/*.wants/berth.service"))
	if len(wanted) == 0 {
		return Finding{"systemd", Notice, "/" + path + " is not enabled, so berth does not start with the machine", "enable it: sudo systemctl enable --now berth"}
	}
	return Finding{Topic: "systemd", Grade: Fine, Text: "/" + path + " is enabled"}
}

// jobs says what starts jobs on this machine, and what is missing to limit them.
func (d *Doctor) jobs() []Finding {
	_, err := os.Stat(filepath.Join(d.Root, "run/systemd/private"))
	systemd := err == nil
	how := Finding{Topic: "jobs", Grade: Fine, Text: "systemd starts each in a unit of its own"}
	if !systemd {
		how.Text = "there is no systemd, so the daemon starts them itself; they go on when it restarts, and are confined as it is"
	}
	missing := d.missingControllers(systemd)
	if len(missing) == 0 {
		return []Finding{how}
	}
	next := "start the kernel with cgroup v2 and these controllers (systemd.unified_cgroup_hierarchy=1), or go without limits"
	if !systemd {
		next = "mount the control groups with these controllers where the daemon runs, writable for it, or go without limits"
	}
	return []Finding{how, {"jobs", Notice, "--cpus and --host-memory are refused: there is no controller for " + words.And(missing), next}}
}

// missingControllers returns what control groups cannot limit here. systemd does it in
// cgroup v2 alone; a daemon without systemd also in cgroup v1.
func (d *Doctor) missingControllers(systemd bool) (missing []string) {
	groups := filepath.Join(d.Root, "sys/fs/cgroup")
	united, err := os.ReadFile(filepath.Join(groups, "cgroup.controllers"))
	if err != nil {
		united, _ = os.ReadFile(filepath.Join(groups, "unified/cgroup.controllers")) // none: it has no controllers
	}
	for _, name := range []string{"cpu", "memory"} {
		_, err := os.Stat(filepath.Join(groups, name)) // a hierarchy of cgroup v1
		if !slices.Contains(strings.Fields(string(united)), name) && (systemd || err != nil) {
			missing = append(missing, name)
		}
	}
	return missing
}
