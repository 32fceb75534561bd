package daemon

import (
	"context"
	"net/http"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/job/run"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/minder"
)

// Machine is a simulated machine, on which a test plays whole daemons. Nobody comes in by its
// doors, which are not opened, but by Daemon.Doors.
type Machine struct {
	Devices   []device.Backend
	Processes process.World
	Users     *users.Database
	// Account looks up the user of a run, for its minder; it may take forever.
	Account func(user string, uid int) (api.MinderAccount, error)
	// Minders returns what starts the minders of the runs in a folder.
	Minders func(folder string) Minders
	Wall    func() time.Time // the clock of the wall
}

// Minders starts the minders of jobs or of services, and reads the logs of their programs.
type Minders interface {
	run.Minders
	desk.Logs
	// Minds reports whether a process is one of these minders.
	Minds(id process.ID) bool
	// Sweep removes what is left of runs that nobody knows any more.
	Sweep(ctx context.Context, now time.Time)
}

// minders returns what starts the minders of the runs in a folder.
func (o Options) minders(folder, socket string, systemd bool) (Minders, error) {
	if o.Machine != nil {
		return o.Machine.Minders(folder), nil
	}
	runs, err := minder.Open(folder)
	if err != nil {
		return nil, err
	}
	return minder.NewStarter(runs, minder.Options{Program: o.Program, Minder: o.Minder, Socket: socket, Systemd: systemd}), nil
}

// lookUp looks up the user of a run, for its minder. It may take forever.
func (d *Daemon) lookUp(user string, uid int) (api.MinderAccount, error) {
	if d.simulated != nil {
		return d.simulated.Account(user, uid)
	}
	return minder.Account(user, uid)
}

// wall returns the clock of the wall; nil means that of this machine.
func (o Options) wall() func() time.Time {
	if o.Machine != nil {
		return o.Machine.Wall
	}
	return nil
}

// Doors returns the ways into a daemon on a simulated machine, by the Unix socket and by TCP,
// and what finds out who has made a connection.
func (d *Daemon) Doors() (socket, tcp http.Handler, keeper doorkeeper.Doorkeeper) {
	keeper = d.doorkeeper()
	return keeper.ForSocket(d.handler), keeper.ForTCP(d.handler), keeper
}

// closed are the doors of a daemon on a simulated machine.
type closed struct{ over chan struct{} }

func (c *closed) serve() error { <-c.over; return nil }
func (c *closed) close()       { close(c.over) }
