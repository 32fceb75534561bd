package desk

import (
	"context"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Caller is somebody who asks. The door has found out who that is, without relying on
// what the caller says.
type Caller struct {
	access.Actor
	Holder lease.Holder // the caller as the holder of a lease, with its process if known
	PIDs   PIDs         // nil if the caller sees the same pids as the daemon
	Place  Place        // nil if the caller needs none

	Repeated bool // the caller asked for the same lease before, and got no answer

	Limits *quota.Limits // limits of the caller; nil if the ledger has to find them

	// Certain means that the kernel has named the user in a way in which programs may be
	// run for it, or that an administrator has bound the token of the caller to the user.
	Certain bool
}

// PIDs translates and finds the processes of a caller.
type PIDs interface {
	// Here returns the pid that a process has where the daemon runs, for a pid that the
	// caller gives. In a container the two differ.
	Here(pid int) (int, error)
	// Self fills in the process of the caller, if that is certain. Over TCP it looks
	// through all processes, so call it only if the process is needed.
	Self(lease.Holder) lease.Holder
}

// Place is the place of a caller among those who are served at the same time.
type Place interface {
	Aside()                   // gives the place to others during a wait for the ledger
	Back(ctx context.Context) // takes it again, unless ctx ends first
}

// limits returns the limits of the caller that concern leases, or nil if they are not
// known.
func (c *Caller) limits() *lease.Limits {
	if c.Limits == nil {
		return nil
	}
	return &c.Limits.Limits
}

func (c *Caller) here(pid int) (int, error) {
	if c.PIDs == nil {
		return pid, nil
	}
	return c.PIDs.Here(pid)
}

// self returns the caller as the holder of a lease, with its process if that is known.
func (c *Caller) self() lease.Holder {
	if c.PIDs == nil || c.Holder.PID != 0 {
		return c.Holder
	}
	return c.PIDs.Self(c.Holder)
}

// serving returns the service that a request acts for, given the one that it names. A
// token for one service acts for that service also if the request names none, and may not
// act for another one.
func (c *Caller) serving(service string) (string, error) {
	service = words.Service(service)
	switch {
	case c.Service == "" || service == c.Service:
		return service, nil
	case service == "":
		return c.Service, nil
	}
	return "", Refuse(Forbidden, "other_service", "The token %s acts only for the service %s, and the request is for %s. Name %s or no service, or ask an administrator for another token. Nothing was changed.",
		c.Token, c.Service, service, c.Service)
}

func (c *Caller) aside() {
	if c.Place != nil {
		c.Place.Aside()
	}
}

func (c *Caller) back(ctx context.Context) {
	if c.Place != nil {
		c.Place.Back(ctx)
	}
}

// changed changes a lease while the caller stands aside, and returns the lease as the API
// shows it.
func (c *Caller) changed(ctx context.Context, change func() (*lease.Lease, error)) (api.Lease, error) {
	c.aside()
	l, err := change()
	c.back(ctx)
	if err != nil {
		return api.Lease{}, Refused(err)
	}
	return LeaseOf(ledger.Held{Lease: l}), nil
}
