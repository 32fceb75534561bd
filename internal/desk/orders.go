package desk

import (
	"errors"
	"os"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/runs"
)

// Order returns what the minder of a run has to run. The caller is the process that the
// kernel names, and must be the one that has locked the record of the run.
func (d *Desk) Order(by Caller, b api.MinderRequest) (api.MinderOrder, error) {
	switch {
	case d.Jobs.keeper == nil || by.Door != access.Socket || by.Token != "" || by.UID != os.Geteuid():
		return api.MinderOrder{}, Refuse(Forbidden, "no_minder", "Only the minder of a run gets its order.")
	case by.Holder.PID == 0: // for want of open files, perhaps
		return api.MinderOrder{}, Refuse(Unavailable, "no_process", "It is not known now which process asks. Ask again.")
	}
	minder, err := process.ID{PID: by.Holder.PID, Start: by.Holder.Start}, error(runs.ErrNoOrder)
	var order api.MinderOrder
	if services := d.Services.owner; services != nil {
		order, err = services.Runs().Order(b.Run, minder)
	}
	if errors.Is(err, runs.ErrNoOrder) { // the record that it has locked is that of a job
		order, err = d.Jobs.keeper.Runs().Order(b.Run, minder)
	}
	if err != nil {
		return api.MinderOrder{}, refusedJob(err)
	}
	order.Socket = d.socket
	return order, nil
}
