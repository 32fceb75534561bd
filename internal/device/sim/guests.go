package sim

import (
	"cmp"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/berth-gpu/berth/gpu"
	processes "github.com/berth-gpu/berth/internal/process"
)

// guests are real processes that use simulated memory. A process writes the file
// DIR/UUID/PID with
//
//	{"memory_mb": 4096, "load": 50, "start_time": 123456}
//
// best under another name first and then renamed, and may rewrite it at any
// time. Load is in percent; start_time is field 22 of /proc/PID/stat. The process
// counts until the file is gone or the process is; while it is stopped, it has
// memory and no load. Without start_time the pid is
// taken to belong to the process that had it at first sight, so that a recycled
// pid does not count.
//
// A process in a container adds "pid_namespace", which is where its
// /proc/self/ns/pid links to; PID is then its pid inside that namespace.
//
// A file may name the control group of its process, "cgroup": what is there in
// /proc does not count then.
//
// What cannot be read counts as absent, because a process may be in the middle
// of writing, or of dying. So does a file that does not belong to the user of
// the process: otherwise one user could charge memory to another.
type guests struct {
	dir   string
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
	maxGuests    = 1024 // files of one device that are looked at
	maxGuestFile = 4096 // bytes
)

// newGuests returns nil if there is no directory. A nil guests never has a
// guest.
func newGuests(dir, uuid string) *guests {
	if dir == "" {
		return nil
	}
	return &guests{dir: filepath.Join(dir, uuid), table: processes.Proc(), born: map[int]uint64{}, found: map[inner]processes.ID{}}
}

// visiting returns the guests that are there now.
func (g *guests) visiting() []running {
	if g == nil {
		return nil
	}
	var list []running
	seen, found := map[int]uint64{}, map[inner]processes.ID{}
	g.units = map[int]string{}
	for _, named := range g.pids() {
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
			guest := running{pid: pid, name: name, memory: file.Memory, load: file.Load / 100}
			if g.table.Stopped(processes.ID{PID: pid, Start: born}) {
				guest.load = 0
			}
			list = append(list, guest)
		}
	}
	g.born, g.found = seen, found
	return list
}

// cgroup returns the control group that the file of a guest named when it was
// last read; empty: none.
func (g *guests) cgroup(pid int) string {
	if g == nil {
		return ""
	}
	return g.units[pid]
}

// pids returns the pids that files are named after.
func (g *guests) pids() []int {
	dir, err := os.Open(g.dir)
	if err != nil {
		return nil // not there yet: nobody is
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxGuests)
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid > 0 && strconv.Itoa(pid) == name {
			pids = append(pids, pid)
		}
	}
	return pids
}

type guestFile struct {
	Memory    gpu.MiB `json:"memory_mb"`
	Load      float64 `json:"load"`
	StartTime uint64  `json:"start_time"`
	Namespace string  `json:"pid_namespace"`
	Cgroup    string  `json:"cgroup"`

	owner uint32 // user id
}

// read reads a guest file. It does not follow links, does not wait for pipes,
// and refuses a file with another name beside this one: that may be the file
// of another user, linked to here.
func (g *guests) read(pid int) (f guestFile, ok bool) {
	file, err := os.OpenFile(filepath.Join(g.dir, strconv.Itoa(pid)), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return f, false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxGuestFile {
		return f, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Nlink != 1 {
		return f, false
	}
	text, err := io.ReadAll(io.LimitReader(file, maxGuestFile))
	if err != nil || json.Unmarshal(text, &f) != nil {
		return f, false
	}
	f.owner = stat.Uid
	return f, f.Memory >= 0 && f.Memory <= maxMemory && f.Load >= 0 && f.Load <= 100
}

// translate returns the pid that a process in a namespace has here. It looks
// through all processes only if the one it found last time is gone.
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

// living returns the name and the start time of a process; zero if it is not
// there, belongs to another user, or is a zombie, which holds no memory any
// more.
func (g *guests) living(pid int, owner uint32) (name string, born uint64) {
	id, err := g.table.Identify(pid)
	if err != nil {
		return "", 0
	}
	name = g.table.Name(pid)
	// Alive comes last: then all of it was about this process.
	if uid, err := g.table.UID(pid); err != nil || uid != int(owner) || !g.table.Alive(id) {
		return "", 0
	}
	return name, id.Start
}
