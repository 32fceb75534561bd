package sim

import (
	"cmp"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
	processes "github.com/berth-gpu/berth/internal/process"
)

// guests are real processes that use simulated memory. A process writes the file
// DIR/UUID/PID with
//
//	{"memory_mb": 4096, "load": 50, "start_time": 123456}
//
// best under another name first and then renamed, and may rewrite it at any time. Load is
// in percent; start_time is field 22 of /proc/PID/stat. The process counts until the file
// or the process is gone; while it is stopped, it has memory and no load. Without
// start_time, the pid belongs to the process that had it at first sight, so that a
// recycled pid does not count.
//
// A process in a container adds "pid_namespace", the target of its link
// /proc/self/ns/pid; PID is then its pid inside that namespace.
//
// A file may name the control group of its process, "cgroup", which takes precedence over
// the one in /proc.
//
// "imported_mb" says how much memory of other processes it has opened.
//
// While a guest is parked or locked, the file PID.parked takes precedence over its own:
// see parkfile.go.
//
// A file that cannot be read counts as absent, because a process may be in the middle of
// writing, or of dying. So does a file that does not belong to the user of the process:
// otherwise one user could charge memory to another.
type guests struct {
	dir   string
	root  string // parent of dir
	table processes.Table
	born  map[int]uint64         // start time of each guest, from when it was first seen
	found map[inner]processes.ID // translated pids
	units map[int]string         // control groups that files name, by pid
}

// inner is a pid inside a namespace.
type inner struct {
	namespace string
	pid       int
}

const (
	maxGuests    = 1024 // most files of one device to look at
	maxGuestFile = 4096 // bytes
)

// newGuests returns nil if dir is empty. A nil guests never has a guest.
func newGuests(dir, uuid string) *guests {
	if dir == "" {
		return nil
	}
	return &guests{dir: filepath.Join(dir, uuid), root: dir, table: processes.Proc(), born: map[int]uint64{}, found: map[inner]processes.ID{}}
}

// visiting returns the present guests.
func (g *guests) visiting() []running {
	if g == nil {
		return nil
	}
	var list []running
	seen, found := map[int]uint64{}, map[inner]processes.ID{}
	g.units = map[int]string{}
	pids, parked := g.files()
	for _, pid := range parked {
		if guest, ok := g.parked(pid); ok {
			seen[pid] = guest.born
			list = append(list, guest)
		}
	}
	for _, named := range pids {
		file, ok := g.read(named)
		if !ok {
			continue
		}
		pid := named
		if file.Namespace != "" {
			if pid, ok = g.translate(inner{file.Namespace, named}, found); !ok {
				continue
			}
		}
		if _, twice := seen[pid]; twice {
			continue
		}
		name, born := g.living(pid, file.owner)
		seen[pid] = born
		if first, known := g.born[pid]; known {
			seen[pid] = first
		}
		if born != 0 && born == cmp.Or(file.StartTime, seen[pid]) {
			if file.Cgroup != "" {
				g.units[pid] = file.Cgroup
			}
			guest := running{pid: pid, name: name, memory: file.Memory, load: file.Load / 100, born: born, refuses: file.Refuses, imported: file.Imported}
			if g.stopped(guest) {
				guest.load = 0
			}
			list = append(list, guest)
		}
	}
	g.born, g.found = seen, found
	return list
}

// cgroup returns the control group that the file of a guest named when it was last read,
// or the empty string.
func (g *guests) cgroup(pid int) string {
	if g == nil {
		return ""
	}
	return g.units[pid]
}

// stopped reports whether a signal has stopped a guest.
func (g *guests) stopped(guest running) bool {
	return g.table.Stopped(processes.ID{PID: guest.pid, Start: guest.born})
}

// files returns the pids in the names of the files of guests, and of parked guests.
func (g *guests) files() (guests, parked []int) {
	dir, err := os.Open(g.dir)
	if err != nil {
		return nil, nil // the directory does not exist yet
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxGuests)
	for _, name := range names {
		number, isParked := strings.CutSuffix(name, parkedSuffix)
		pid, err := strconv.Atoi(number)
		switch {
		case err != nil || pid <= 0 || strconv.Itoa(pid) != number:
		case isParked:
			parked = append(parked, pid)
		default:
			guests = append(guests, pid)
		}
	}
	return guests, parked
}

type guestFile struct {
	Memory    gpu.MiB `json:"memory_mb"`
	Load      float64 `json:"load"`
	StartTime uint64  `json:"start_time"`
	Namespace string  `json:"pid_namespace"`
	Cgroup    string  `json:"cgroup"`

	Imported gpu.MiB   `json:"imported_mb"`
	Refuses  move.Step `json:"refuses"` // a step of parking that it refuses

	owner uint32 // user id
}

// read reads a guest file. It does not follow links, does not wait for pipes, and refuses
// a file with another name beside this one: that may be the file of another user, linked
// to here.
func (g *guests) read(pid int) (f guestFile, ok bool) {
	if f.owner, ok = g.decode(strconv.Itoa(pid), &f); !ok {
		return f, false
	}
	return f, f.Imported >= 0 && f.Memory >= 0 && f.Memory <= maxMemory && f.Load >= 0 && f.Load <= 100
}

// decode reads a file into a value, and returns the owner of the file.
func (g *guests) decode(name string, into any) (owner uint32, ok bool) {
	file, err := os.OpenFile(filepath.Join(g.dir, name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0, false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxGuestFile {
		return 0, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Nlink != 1 {
		return 0, false
	}
	text, err := io.ReadAll(io.LimitReader(file, maxGuestFile))
	return stat.Uid, err == nil && json.Unmarshal(text, into) == nil
}

// translate returns the pid on this machine of a process in a namespace. It looks through
// all processes only if the one it found last time is gone.
func (g *guests) translate(in inner, found map[inner]processes.ID) (pid int, ok bool) {
	id, known := g.found[in]
	if !known || !g.table.Alive(id) {
		pid, err := g.table.InNamespace(in.namespace, in.pid)
		if err != nil {
			return 0, false
		}
		if id, err = g.table.Identify(pid); err != nil {
			return 0, false
		}
	}
	found[in] = id
	return id.PID, true
}

// living returns the name and the start time of a process. It returns zero values if the
// process does not exist, belongs to another user, or is a zombie, which no longer holds
// memory.
func (g *guests) living(pid int, owner uint32) (name string, born uint64) {
	id, err := g.table.Identify(pid)
	if err != nil {
		return "", 0
	}
	name = g.table.Name(pid)
	// Call Alive last: then all answers were about this process.
	if uid, err := g.table.UID(pid); err != nil || uid != int(owner) || !g.table.Alive(id) {
		return "", 0
	}
	return name, id.Start
}
