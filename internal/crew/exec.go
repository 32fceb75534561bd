package crew

import (
	"context"
	"errors"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/cexec"
	"github.com/berth-gpu/berth/internal/child"
	"github.com/berth-gpu/berth/internal/launch"
)

// Exec is a program that this process becomes, once it has the lease.
type Exec struct {
	File    string // of the program
	request launch.Request
	environ []string
	socket  string
}

// NewExec finds the file of a program before its lease is taken: nobody has to
// wait for a command that is not there. From now on this process ignores the
// signals that were ignored when it began, also while it waits for the lease.
// An empty socket is where the program looks for the daemon anyway.
func NewExec(r launch.Request, command, environ []string, socket string) (*Exec, error) {
	KeepIgnored()
	file, err := child.Program(command[0], child.PathOf(environ))
	if err != nil {
		return nil, err
	}
	return &Exec{File: file, request: r, environ: environ, socket: socket}, nil
}

// ExecDaemon is what a program asks of the daemon; a client is one.
type ExecDaemon interface {
	Acquire(ctx context.Context, r api.LeaseRequest) (api.Lease, error)
}

// Acquire takes the lease of the program. It waits as long as the request says.
func (e *Exec) Acquire(ctx context.Context, d ExecDaemon) (api.Lease, error) {
	granted, err := d.Acquire(ctx, e.request.LeaseRequest)
	if err == nil && granted.Launch == nil {
		return granted, errors.New("the daemon is older than this command, and does not say what the program needs: restart it")
	}
	return granted, err
}

// Environment returns the environment of the program under its lease.
func (e *Exec) Environment(l api.Lease) []string {
	environ, _ := launch.Environment(l, l.Launch.Devices, e.ladder(l), e.environ)
	return environ
}

// Preview returns how a lease would change the environment of the program, and
// what that would hold the program to.
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
	}
}
