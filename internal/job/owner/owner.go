package owner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/job/service"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// Options are the options of Open.
type Options struct {
	Folder  string // for services.json; it must be there
	Boot    string // of the machine
	Minders Minders
	Numbers func() (int64, error) // of instances, as of jobs
	// Account looks a user up. An error that wraps keeper.ErrNotNow means that a minder
	// should ask again.
	Account  func(user string, uid int) (api.MinderAccount, error)
	FreePort func() (int, error)
	// LastLines returns the last lines of a log, and Follow hands every line of it to a
	// function, those that are there and those that come, until the function returns false
	// or ctx ends. Both read with the rights of the user of the service.
	LastLines func(ctx context.Context, s *service.Spec, path string, n int) []string
	Follow    func(ctx context.Context, s *service.Spec, path string, line func(string) bool) error
	Publish   func(gpu.Event)
	Log       *slog.Logger
	Front     func() api.FrontSettings
	// Nudge is called when the use of a program has changed, see mover.Nudge. It must not
	// block; nil: nobody wants to know.
	Nudge func()
}

// Errors for callers to test. A minder is refused with those of package keeper.
var (
	// ErrUnknown means that there is no such service.
	ErrUnknown = errors.New("there is no such service")
	// ErrState means that a service is in a state in which that cannot be done.
	ErrState = errors.New("that cannot be done now")
)

// Refusal says why a service does not come.
type Refusal struct {
	Status     int           // of HTTP
	Code       string        // for programs
	Why        string        // for people
	RetryAfter time.Duration // zero: to ask again does not help
}

func (r *Refusal) Error() string { return r.Why }

// Owner owns the programs of services.
type Owner struct{ Options }

// Open reads services.json. Run then goes on where the last daemon stopped.
func Open(o Options) (*Owner, error) { return &Owner{o}, nil }

// Run brings services and sends them away until ctx ends. Programs that run are left alone.
func (o *Owner) Run(ctx context.Context, l Leases) error { <-ctx.Done(); return nil }

// Configure replaces the settings of all services. It stops nothing, and does not wait:
// what has changed holds from the next start of a service. One that is not among them is
// sent away and forgotten. It is called before Run, and at each reload.
func (o *Owner) Configure(all []service.Spec) {}

// Orders sends orders to a front until ctx ends, send fails, or the front asks again.
func (o *Owner) Orders(ctx context.Context, front string, send func(api.FrontOrder) error) error {
	return fmt.Errorf("not yet")
}

// Report takes in what a front reports.
func (o *Owner) Report(r api.FrontReports) error { return nil }

// Bring brings a service for somebody, and returns when it is open. It returns a *Refusal
// if it does not come. Once ctx has ended, nobody waits for it any more.
func (o *Owner) Bring(ctx context.Context, b api.FrontBring) (api.FrontBrought, error) {
	return api.FrontBrought{}, &Refusal{}
}

// List returns all services, in the order of their names.
func (o *Owner) List() []api.Service { return nil }

// Find returns a service.
func (o *Owner) Find(name string) (api.Service, bool) { return api.Service{}, false }

// Start starts a service, or lets one start again that was stopped.
func (o *Owner) Start(name string, by access.Actor, why string) error { return ErrUnknown }

// Stop stops a service until somebody starts it.
func (o *Owner) Stop(name string, by access.Actor, why string) error { return ErrUnknown }

// Restart stops a service and starts it again.
func (o *Owner) Restart(name string, by access.Actor, why string) error { return ErrUnknown }

// Move stops a service and starts it on another device.
func (o *Owner) Move(name, uuid string, by access.Actor, why string) error { return ErrUnknown }

// Vacate restarts the services on a device that nothing is granted on any more, so that
// they come back on another one.
func (o *Owner) Vacate(uuid, why string) {}

// Order returns what a minder has to run. Caller is the process that asks; it must be the
// one that has locked the record of the run. The lease is bound to it.
func (o *Owner) Order(run string, caller process.ID) (api.MinderOrder, error) {
	return api.MinderOrder{}, ErrUnknown
}

// Use implements mover.Services.
func (o *Owner) Use(k lease.Key, fence uint64) (park.Use, bool) { return park.Use{}, false }

// Away implements mover.Services.
func (o *Owner) Away(k lease.Key, fence uint64, wanter lease.Key, why string) {}

// LeaseEnded notes that a lease has ended. It does not wait: the ledger calls it.
func (o *Owner) LeaseEnded(k lease.Key, fence uint64, why string) {}

// ServiceOf returns the service whose program has a lease, or "" if it is none of a
// service.
func (o *Owner) ServiceOf(k lease.Key) string { return "" }
