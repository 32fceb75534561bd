// Package desk decides what becomes of a question: who asks, for what, and what they get.
//
// Every door brings its callers here, so that every lease is requested, equipped and
// given back in the same way, whichever door the question came through.
//
// The desk takes and returns the types of the API, and refuses with a *Refusal, whose
// code never changes. It knows neither HTTP nor any other protocol.
package desk

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/enforce/idle"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/enforce/watchdog"
	"github.com/berth-gpu/berth/internal/file/fault"
	"github.com/berth-gpu/berth/internal/health/drains"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/history/energy"
	"github.com/berth-gpu/berth/internal/history/throughput"
	"github.com/berth-gpu/berth/internal/job/keeper"
	"github.com/berth-gpu/berth/internal/job/owner"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/numbers"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Parts are the parts of the daemon that the desk asks.
type Parts struct {
	Monitor   *monitor.Monitor
	Ledger    *ledger.Ledger
	Peaks     *peaks.Peaks // memory that earlier runs used
	Processes process.Table
	Users     *users.Names
	Energy    *energy.Meters // energy that devices and leases used; nil if nobody measures it

	Operations *throughput.Counter // work that services report
	Tokens     *tokens.Tokens
	Numbers    *numbers.Numbers // of the ids that the daemon makes; nil means from 1 on

	Config func() *config.Config        // as it is now; nil means zero settings
	Limits *atomic.Pointer[quota.Rules] // current limits of users; nil means berth's defaults

	MPS       MPS                // nil if this machine has none
	Groups    Groups             // nil if this machine has none
	Pacer     *pace.Pacer        // nil if this daemon paces nothing
	Parking   Parking            // nil if this daemon parks nothing
	Optimizer Optimizer          // nil if this daemon takes nothing back
	Idle      *idle.Idlers       // knows which leases are idle; nil if nobody watches
	Drains    *drains.Drains     // nil if nothing closes devices
	Checkup   Checkup            // nil if devices cannot be checked
	Throttle  Throttler          // nil if nothing acts on devices
	Watchdog  *watchdog.Watchdog // nil if nothing ends programs that use too much
	Faults    *fault.Faults      // confines panics to the job or service; nil confines none

	Jobs     *keeper.Keeper // nil if this daemon runs no jobs
	Logs     Logs           // nil if this daemon runs no programs
	Services *owner.Owner   // nil if this daemon runs no programs of services
	Front    Front          // nil if this daemon runs no programs of services

	CPUs   int    // CPUs of the machine, for plans; 0 if not known
	Socket string // socket of the daemon, for programs that are launched

	// Backup writes an archive of the state folder. It is nil if the daemon has none.
	Backup func(to io.Writer, what BackupQuery) error

	// Record records an act of authority. If it fails, the act must not be done. Nil
	// means that nothing is recorded.
	Record func(api.AuditEntry) error

	Publish func(gpu.Event) // publishes an event to everybody
	Note    func() string   // returns why there are no devices

	// ClearedBy says who clears the memory of devices between two programs, and when that
	// was checked. It is nil if nothing is known.
	ClearedBy func(devices []gpu.Device) string
}

// MPS lets the driver hold processes to their memory.
type MPS interface {
	// Available returns why this machine has no MPS, or nil if it has it.
	Available() error
	// Use starts what a lease of user uid on device uuid needs, and returns the directory
	// of its pipes.
	Use(ctx context.Context, uuid string, uid int, fence uint64) (pipe string, err error)
	// Release notes that the lease with this fence has ended. The lease need not have
	// used MPS.
	Release(fence uint64)
	// Serves reports whether a process, given with its ancestors, belongs to MPS itself.
	Serves(line []process.ID) bool
}

// Desk answers the questions of callers, each subject its own.
type Desk struct {
	Devices   *Devices
	People    *People
	Memory    *Memory
	Foresight *Foresight
	Leases    *Leases
	Attention *Attention
	Strays    *Strays
	Jobs      *Jobs
	Services  *Services
	Plans     *Plans

	socket string // of the daemon, for minders
	backup func(to io.Writer, what BackupQuery) error
	record recorder
}

// New returns a desk with these parts.
func New(p Parts) *Desk {
	if p.MPS == nil {
		p.MPS = noMPS{}
	}
	if p.Energy == nil {
		p.Energy = energy.New(energy.Options{})
	}
	if p.Config == nil {
		p.Config = func() *config.Config { return &config.Config{} }
	}
	if p.Numbers == nil {
		p.Numbers = numbers.New()
	}
	record := recorder(p.Record)
	if record == nil {
		record = func(api.AuditEntry) error { return nil }
	}
	d := &Desk{
		Devices: &Devices{
			monitor: p.Monitor, ledger: p.Ledger, energy: p.Energy, drains: p.Drains, checkup: p.Checkup, throttle: p.Throttle,
			config: p.Config, publish: p.Publish, note: p.Note, record: record,
		},
		People:    &People{users: p.Users, tokens: p.Tokens, limits: p.Limits, ledger: p.Ledger, keeper: p.Jobs, processes: p.Processes, record: record},
		Memory:    &Memory{peaks: p.Peaks, ledger: p.Ledger, config: p.Config},
		Foresight: &Foresight{peaks: p.Peaks, ledger: p.Ledger, config: p.Config},
		Strays:    &Strays{monitor: p.Monitor, ledger: p.Ledger, processes: p.Processes, users: p.Users, mps: p.MPS},
		socket:    p.Socket, backup: p.Backup, record: record,
	}
	d.Leases = &Leases{
		devices: d.Devices, people: d.People, memory: d.Memory, foresight: d.Foresight,
		equip: &equipper{
			devices: d.Devices, ledger: p.Ledger, mps: p.MPS, groups: p.Groups, checkup: p.Checkup, clearedBy: p.ClearedBy, config: p.Config,
		},
		ledger: p.Ledger, peaks: p.Peaks, monitor: p.Monitor, processes: p.Processes, numbers: p.Numbers, mps: p.MPS, parking: p.Parking, pacer: p.Pacer,
		optimizer: p.Optimizer, idle: p.Idle, faults: p.Faults, config: p.Config, publish: p.Publish, record: record,
	}
	d.Attention = &Attention{leases: d.Leases, monitor: p.Monitor, ledger: p.Ledger, peaks: p.Peaks, mps: p.MPS}
	d.Jobs = &Jobs{
		leases: d.Leases, devices: d.Devices, foresight: d.Foresight,
		keeper: p.Jobs, logs: p.Logs, ledger: p.Ledger, monitor: p.Monitor, watchdog: p.Watchdog, processes: p.Processes, config: p.Config, record: record,
	}
	d.Services = &Services{
		leases: d.Leases, devices: d.Devices,
		owner: p.Services, front: p.Front, logs: p.Logs, operations: p.Operations, ledger: p.Ledger, users: p.Users, config: p.Config, record: record,
	}
	d.Plans = &Plans{leases: d.Leases, devices: d.Devices, ledger: p.Ledger, monitor: p.Monitor, peaks: p.Peaks, cpus: p.CPUs, config: p.Config, publish: p.Publish}
	return d
}

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
