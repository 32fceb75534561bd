package desk

import (
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// Strays finds the processes that use devices without a lease.
type Strays struct {
	monitor   *monitor.Monitor
	ledger    *ledger.Ledger
	processes process.Table
	users     *users.Names
	mps       MPS

	looking sync.Mutex // guards what follows; held during a look
	looked  opened
}

// opened is what a look at the open files of all processes has found.
type opened struct {
	names []string
	by    map[string][]int
	until time.Time // when it is old
}

// restAfter is how many times as long as a look at the open files of all processes took it is
// good for: whoever asks, and however often, they take no more of a processor.
const restAfter = 10

// whoOpened returns the processes that have each of these files open, as the table has them or
// had them when somebody asked a moment ago.
func (d *Strays) whoOpened(names []string, look func([]string) map[string][]int) map[string][]int {
	d.looking.Lock()
	defer d.looking.Unlock()
	if began := time.Now(); !began.Before(d.looked.until) || !slices.Equal(names, d.looked.names) {
		by := look(names)
		now := time.Now()
		d.looked = opened{names, by, now.Add(restAfter * now.Sub(began))}
	}
	return d.looked.by
}

// Orphans lists the processes that use devices under no lease: those whose lease has
// ended, and those that never had one.
func (d *Strays) Orphans() api.Strays {
	strays := api.Strays{Orphans: []api.Stray{}, Foreign: []api.Stray{}}
	listed := map[string]map[int]bool{}
	readings := d.monitor.Readings()
	for _, r := range readings {
		uuid := r.Device.UUID
		listed[uuid] = map[int]bool{}
		for _, p := range d.ledger.Processes(uuid) {
			pid := p.Line[0].PID
			listed[uuid][pid] = true
			if p.Lease != nil || d.mps.Serves(p.Line) {
				continue
			}
			stray := api.Stray{GPU: uuid, PID: pid, Name: p.Name, User: d.userOf(pid), Memory: gpu.Some(p.Memory), Lease: p.Ended, Pod: kinship.PodOf(d.processes.Cgroups(pid))}
			if len(p.Fits) > 0 {
				stray.Evidence, stray.Fits = string(p.By), p.Fits
			}
			if p.Ended != "" {
				strays.Orphans = append(strays.Orphans, stray)
			} else {
				strays.Foreign = append(strays.Foreign, stray)
			}
		}
	}
	strays.Orphans = append(strays.Orphans, d.openers(readings, listed)...)
	return strays
}

// openers finds processes of ended leases that have a device open but are not on its
// list. Other processes that have it open may only be looking at it.
func (d *Strays) openers(readings []monitor.Reading, listed map[string]map[int]bool) []api.Stray {
	files := map[string]string{} // device file to UUID
	var names []string
	for _, r := range readings {
		if r.Device.Path != "" && r.Device.Parent == "" {
			files[r.Device.Path] = r.Device.UUID
			names = append(names, r.Device.Path)
		}
	}
	if len(names) == 0 {
		return nil
	}
	var found []api.Stray
	for file, pids := range d.whoOpened(names, d.processes.Openers) {
		for _, pid := range pids {
			if listed[files[file]][pid] {
				continue
			}
			if ended, line := d.ledger.Orphan(pid); ended != "" && !d.mps.Serves(line) {
				found = append(found, api.Stray{GPU: files[file], PID: pid, Name: d.processes.Name(pid), User: d.userOf(pid), Lease: ended})
			}
		}
	}
	return found
}

// userOf returns the user of a process, for people, or "" if the process has ended.
func (d *Strays) userOf(pid int) string {
	uid, err := d.processes.UID(pid)
	if err != nil {
		return ""
	}
	return d.users.Now(uid)
}

// TraceDescent adds to each process of a lease its ancestors up to the holder, so that a
// person sees which program started which. It reads a few files for each process, so it
// is only for answers about one lease. It skips processes without a pid, which the caller
// may not see.
func (d *Leases) TraceDescent(l *api.Lease) {
	for i, p := range l.Processes {
		if p.PID == 0 || l.Holder.PID == 0 || p.PID == l.Holder.PID {
			continue
		}
		id, err := d.processes.Identify(p.PID)
		if err != nil {
			continue // the process has ended since
		}
		line := d.processes.Ancestry(id)[1:]
		last := slices.IndexFunc(line, func(a process.ID) bool { return a.PID == l.Holder.PID })
		if last < 0 {
			continue
		}
		for _, a := range line[:last+1] {
			l.Processes[i].Ancestors = append(l.Processes[i].Ancestors, api.Ancestor{PID: a.PID, Name: d.processes.Name(a.PID)})
		}
	}
}
