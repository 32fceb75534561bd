// Package desk decides what becomes of a question: who asks, for what, and what
// they get.
//
// Every door brings its callers here, so that a lease is asked for, equipped
// and given back in one way, whichever way the question came.
//
// The desk takes and returns the types of the API, and refuses with a *Refusal,
// whose code never changes. It knows neither HTTP nor any other protocol.
package desk

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/enforce/idle"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/history/energy"
	"github.com/berth-gpu/berth/internal/history/throughput"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Keepers are the parts of the daemon that the desk asks. Those that may be
// missing say so.
type Keepers struct {
	Monitor   *monitor.Monitor
	Ledger    *ledger.Ledger
	Peaks     *peaks.Peaks // what earlier runs used
	Processes process.Table
	Users     Users

	Energy *energy.Meters                    // what devices and leases used; nil: nobody measured
	Price  func() (gpu.Opt[float64], string) // of a kilowatt-hour, as configured now, and its currency; nil: not set

	Operations *throughput.Counter // what services report
	Tokens     *tokens.Tokens

	Limits func() *quota.Rules // what users may have, now; nil: what berth has by itself

	MPS         MPS                // nil: this machine has none
	Groups      Groups             // nil: this machine has none
	Pacer       Pacer              // nil: this daemon paces nothing
	Parking     Parking            // nil: this daemon parks nothing
	Optimizer   Optimizer          // nil: this daemon takes nothing back
	Enforcement func() Enforcement // as configured now
	CPUs        int                // of the machine, for plans; 0: not known
	Socket      string             // where the daemon listens, for programs that are launched

	Wait     func() time.Duration                  // allocation_timeout, as configured now; nil: nobody waits to be resumed
	Services func() []string                       // of the configuration, as it is now; nil: it names none
	Idle     func(fence uint64) (idle.Spell, bool) // since when a lease is idle; nil: nobody looks

	Drains   Drains    // nil: nothing closes devices
	Checkup  Checkup   // nil: devices cannot be checked
	Throttle Throttler // acts on devices; nil: nobody does

	// Record writes an act of authority down. If it fails, the act must not be done.
	// Nil means that nobody does.
	Record func(api.AuditEntry) error

	Publish func(gpu.Event) // tells everybody what happened
	Note    func() string   // says why there are no devices

	// ClearedBy says who clears the memory of devices between two programs, and
	// when that was checked; nil: nothing is known.
	ClearedBy func(devices []gpu.Device) string
}

// Enforcement is what holds leases to their memory.
type Enforcement struct {
	Context gpu.MiB // what a CUDA context takes of a lease
	MPS     bool    // the driver may be asked to, through MPS

	Scrub     bool   // free memory is overwritten before another user gets it
	Isolation string // what keeps programs from other devices, unless they ask for something else
}

// MPS lets the driver hold processes to their memory.
type MPS interface {
	// Available says why this machine has no MPS; nil: it has.
	Available() error
	// Use starts what the lease with a fence, of a user on a device, needs, and
	// returns the directory of its pipes.
	Use(ctx context.Context, uuid string, uid int, fence uint64) (pipe string, err error)
	// Release notes that the lease with a fence has ended; it need not have
	// used any.
	Release(fence uint64)
	// Serves reports whether a process, given with its ancestors, belongs to
	// MPS itself.
	Serves(line []process.ID) bool
}

// Users knows users by login name.
type Users interface {
	// Now returns the name of a user, or the number, without waiting for it.
	Now(uid int) string
	// Account returns the id of a user by name, and the groups that the user
	// database names; nil: it does not say. It may wait, but only for a moment.
	Account(name string) (uid int, groups []int, known bool)
}

// Desk answers those who ask.
type Desk struct {
	Keepers
	traces traces
}

// New returns a desk that asks these keepers.
func New(k Keepers) *Desk {
	if k.MPS == nil {
		k.MPS = noMPS{}
	}
	if k.Drains == nil {
		k.Drains = noDrains{}
	}
	if k.Energy == nil {
		k.Energy = energy.New(energy.Options{})
	}
	if k.Price == nil {
		k.Price = func() (gpu.Opt[float64], string) { return gpu.Opt[float64]{}, "" }
	}
	if k.Enforcement == nil {
		k.Enforcement = func() Enforcement { return Enforcement{} }
	}
	if k.Record == nil {
		k.Record = func(api.AuditEntry) error { return nil }
	}
	return &Desk{Keepers: k}
}

// Caller is somebody who asks. The door has found out who that is; the caller
// was not asked.
type Caller struct {
	access.Actor
	Holder lease.Holder // the caller as the holder of a lease; its process, where that is known
	PIDs   PIDs         // nil: their numbers of processes are ours
	Place  Place        // nil: they need none

	Limits *quota.Limits // what the caller may have; nil: the ledger finds out
}

// PIDs knows the processes of a caller.
type PIDs interface {
	// Here returns the number that a process has where the daemon runs, for a
	// number that the caller writes down. In a container it has another one.
	Here(pid int) (int, error)
	// Self fills in the process of the caller, if that is certain. Over TCP it
	// looks through all processes, so only those who need it ask.
	Self(lease.Holder) lease.Holder
}

// Place is the place of a caller among those who ask at the same time.
type Place interface {
	Aside()                   // gives the place to others while the ledger is waited for
	Back(ctx context.Context) // takes it again, unless ctx ends first
}

// limits returns what the caller may have, as far as leases are concerned; nil if
// that is not known.
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

// self returns the caller as the holder of a lease, with its process if that is
// known.
func (c *Caller) self() lease.Holder {
	if c.PIDs == nil || c.Holder.PID != 0 {
		return c.Holder
	}
	return c.PIDs.Self(c.Holder)
}

// serving returns the service that a request is for which names this one. A token
// that acts for one service acts for it also if the request names none; it refuses
// a request in the name of another one.
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

// Device returns the device that somebody names by index or UUID, or refuses
// and says which there are. An empty name is the first device.
func (d *Desk) Device(name string) (monitor.Reading, error) {
	if r, found := d.Monitor.Find(name); found {
		return r, nil
	}
	known := d.Monitor.Readings()
	if len(known) == 0 {
		return monitor.Reading{}, Refuse(Unknown, "no_device", "There is no GPU here. %s", d.Note())
	}
	refusal := Refuse(Unknown, "unknown_device", "There is no device %q here. Use an index or a UUID: berth status and GET /api/gpu/status/all list them.", name)
	uuids := make([]string, len(known))
	for i, r := range known {
		uuids[i] = r.Device.UUID
	}
	refusal.Extra = map[string]any{"known": uuids}
	return monitor.Reading{}, refusal
}

// label returns the name of a device for people.
func (d *Desk) label(uuid string) string {
	if r, known := d.Monitor.Find(uuid); known {
		return fmt.Sprintf("GPU %d", r.Device.Index)
	}
	return uuid
}
