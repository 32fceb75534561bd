package sim

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/berth-gpu/berth/internal/device/move"
	processes "github.com/berth-gpu/berth/internal/process"
)

// parkedSuffix ends the name of the file with the parking state of a guest. The
// simulation writes the file, and it outlives the simulation, as the state of a driver
// outlives the daemon. The file exists from the lock to the unlock: a guest that wants to
// behave like a program of a real driver waits meanwhile.
const parkedSuffix = ".parked"

// parkFile is the content of the file.
type parkFile struct {
	Start uint64 `json:"start_time"`
	parking

	// Fields of the guest's own file at the time of the lock.
	Cgroup  string    `json:"cgroup,omitempty"`
	Refuses move.Step `json:"refuses,omitempty"`
}

// parked returns a guest that is locked or parked, whatever its own file says. It removes
// the file of a guest that has ended.
func (g *guests) parked(pid int) (running, bool) {
	var f parkFile
	name := strconv.Itoa(pid) + parkedSuffix
	owner, ok := g.decode(name, &f)
	if !ok || f.State == "" || f.Memory < 0 || f.Memory > maxMemory || !ours(owner) {
		return running{}, false
	}
	if !g.table.Alive(processes.ID{PID: pid, Start: f.Start}) {
		_ = g.inside(func(dir *os.Root) error { return dir.Remove(name) }) // the next look tries again
		return running{}, false
	}
	if f.Cgroup != "" {
		g.units[pid] = f.Cgroup
	}
	guest := running{pid: pid, name: g.table.Name(pid), born: f.Start, refuses: f.Refuses}
	guest.hold(f.parking)
	return guest, true
}

// ours reports whether a file is the simulation's own.
func ours(owner uint32) bool { return int(owner) == os.Geteuid() || owner == 0 }

// keep writes the parking state of a guest, or removes the file if the guest runs again.
func (g *guests) keep(guest running, next parking) error {
	name := strconv.Itoa(guest.pid) + parkedSuffix
	if next.State == "" {
		return g.inside(func(dir *os.Root) error { return dir.Remove(name) })
	}
	return g.put(name, parkFile{Start: guest.born, parking: next, Cgroup: g.units[guest.pid], Refuses: guest.refuses})
}

// put writes a value to a file.
func (g *guests) put(name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return g.inside(func(dir *os.Root) error {
		fresh := "." + name
		if err := dir.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
			fresh += rand.Text() // somebody else made a file of that name, which must not be in the way
		}
		file, err := dir.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		_, err = file.Write(text)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
		return dir.Rename(fresh, name)
	})
}

// inside calls do with the folder of the device. A link cannot lead out of the folder of
// all guests.
func (g *guests) inside(do func(*os.Root) error) error {
	all, err := os.OpenRoot(g.root)
	if err != nil {
		return err
	}
	defer all.Close()
	dir, err := all.OpenRoot(filepath.Base(g.dir))
	if err != nil {
		return err
	}
	defer dir.Close()
	return do(dir)
}
