package desk

import (
	"slices"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/process"
)

// TraceDescent adds to each process of a lease its ancestors up to the holder, so that a
// person sees which program started which. It reads a few files for each process, so it
// is only for answers about one lease. It skips processes without a pid, which the caller
// may not see.
func (d *Desk) TraceDescent(l *api.Lease) {
	for i, p := range l.Processes {
		if p.PID == 0 || l.Holder.PID == 0 || p.PID == l.Holder.PID {
			continue
		}
		id, err := d.Processes.Identify(p.PID)
		if err != nil {
			continue // the process has ended since
		}
		line := d.Processes.Ancestry(id)[1:]
		last := slices.IndexFunc(line, func(a process.ID) bool { return a.PID == l.Holder.PID })
		if last < 0 {
			continue
		}
		for _, a := range line[:last+1] {
			l.Processes[i].Ancestors = append(l.Processes[i].Ancestors, api.Ancestor{PID: a.PID, Name: d.Processes.Name(a.PID)})
		}
	}
}
