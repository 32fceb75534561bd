package programs

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/process/child"
	"github.com/berth-gpu/berth/internal/process/inherited"
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
	if absolute, err := filepath.Abs(socket); err == nil && socket != "" && socket[0] != '@' {
		socket = absolute // the program may go to another folder
	}
	return &Exec{File: file, request: r, environ: environ, socket: socket}, nil
}

// NewID returns the id under which to ask for the lease of a program. If the user chose
// none, the daemon makes one.
func NewID(ctx context.Context, c *client.Client, r *launch.Request) (id string, err error) {
	if r.ID != "" {
		return r.ID, nil
	}
	id, err = c.NewID(ctx, r.Called)
	problem := (*api.Problem)(nil)
	if errors.As(err, &problem) && (problem.Status == http.StatusNotFound || problem.Status == http.StatusMethodNotAllowed) {
		// The daemon is older than this command.
		id, err = r.Called+"-"+strings.ToLower(rand.Text()[:6]), nil
	}
	return id, err
}

// ID returns the id under which Acquire asks.
func (e *Exec) ID(ctx context.Context, c *client.Client) (id string, err error) {
	e.request.ID, err = NewID(ctx, c, &e.request)
	return e.request.ID, err
}

// Acquire takes the lease of the program. It waits as long as the request allows.
func (e *Exec) Acquire(ctx context.Context, c *client.Client) (api.Lease, error) {
	granted, err := c.WithoutStream().Acquire(ctx, e.request.LeaseRequest)
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
		Context: l.Launch.Context, MPS: l.Launch.MPS, Compute: launch.Least(l.Launch.Compute, e.request.Compute), Torch: child.Torch(e.File, e.environ), Socket: e.socket,
		Isolation: l.Launch.Isolation, ClearedBy: l.Launch.ClearedBy,
	}
}

// KeepIgnored ignores the signals that were ignored when this process began, even if
// they have been handled since: the user did not want them to end anything.
func KeepIgnored() {
	for _, s := range inherited.Ignored() {
		signal.Ignore(s)
	}
}

// Become makes this process the program. It returns only if that fails. The process
// stays the same to the kernel: execve keeps the pid and the start time, so a lease
// that is bound to the process continues, and ends with the program.
//
// Nothing of berth remains in the program. execve closes every file that Go opens, sets
// signal handlers to their defaults, and restores the limits that Go raised. Become
// undoes the other changes of Go: it ignores again the signals that were ignored when
// this process began, and closes those of the first three files that were closed.
func Become(file string, command, environ []string) error {
	KeepIgnored()
	for _, fd := range inherited.Closed() {
		_ = syscall.Close(fd)
	}
	err := syscall.Exec(file, command, environ)
	if errors.Is(err, syscall.ENOEXEC) {
		// The script has no first line that names its interpreter, so a shell runs it.
		err = syscall.Exec("/bin/sh", append([]string{"sh", file}, command[1:]...), environ)
	}
	exit := child.ExitNotExecutable
	reason := err.Error()
	if errors.Is(err, syscall.ENOENT) { // the file exists
		reason, exit = "the interpreter that its first line names, or its loader, does not exist", child.ExitNotFound
	}
	return &child.ProgramError{Name: file, Reason: reason, Exit: exit}
}

// Obey waits for the order that RunPlan gives to a process that it starts, and becomes
// the command of the order. It returns only if that fails.
func Obey(become func(file string, command, environ []string) error) error {
	order, err := awaitOrder()
	if err != nil {
		return err
	}
	return become(order.Path, order.Args, order.Env)
}
