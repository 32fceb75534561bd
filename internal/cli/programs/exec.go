package programs

import (
	"context"
	"errors"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/process/cexec"
	"github.com/berth-gpu/berth/internal/process/child"
	"github.com/berth-gpu/berth/internal/process/launch"
)

// Exec is a program that this process becomes when it has the lease.
type Exec struct {
	File    string // of the program
	request launch.Request
	environ []string
	socket  string
}

// NewExec finds the file of a program before the lease is taken, so that nobody waits
// for a command that does not exist. From then on, also while it waits for the lease,
// this process ignores the signals that were ignored when it began. If socket is empty,
// the program looks for the daemon in the usual place.
func NewExec(r launch.Request, command, environ []string, socket string) (*Exec, error) {
	KeepIgnored()
	file, err := child.Program(command[0], child.PathOf(environ))
	if err != nil {
		return nil, err
	}
	return &Exec{File: file, request: r, environ: environ, socket: socket}, nil
}

// ExecDaemon grants the lease of a program. A client is an ExecDaemon.
type ExecDaemon interface {
	Acquire(ctx context.Context, r api.LeaseRequest) (api.Lease, error)
}

// Acquire takes the lease of the program. It waits as long as the request allows.
func (e *Exec) Acquire(ctx context.Context, d ExecDaemon) (api.Lease, error) {
	granted, err := d.Acquire(ctx, e.request.LeaseRequest)
	if err == nil && granted.Launch == nil {
		return granted, errors.New("the daemon is older than this command and does not send what the program needs: restart the daemon")
	}
	return granted, err
}

// Environment returns the environment of the program under its lease.
func (e *Exec) Environment(l api.Lease) []string {
	environ, _ := launch.Environment(l, l.Launch.Devices, e.ladder(l), e.environ)
	return environ
}

// Preview returns how a lease would change the environment of the program, and
// which limits those changes set.
func (e *Exec) Preview(l api.Lease) (changes []string, receipt launch.Receipt) {
	ladder := e.ladder(l)
	if l.EnforcedBy == launch.MPS {
		ladder.MPS = "(of the MPS daemon that would be started)"
	}
	environ, receipt := launch.Environment(l, l.Launch.Devices, ladder, e.environ)
	return launch.Changes(e.environ, environ), receipt
}

func (e *Exec) ladder(l api.Lease) launch.Ladder {
	return launch.Ladder{
		Context: l.Launch.Context, MPS: l.Launch.MPS, Compute: e.request.Compute, Torch: cexec.Torch(e.File), Socket: e.socket,
		Isolation: l.Launch.Isolation, ClearedBy: l.Launch.ClearedBy,
	}
}
