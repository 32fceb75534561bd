package desk

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/enforce/idle"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/enforce/slowdown"
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
	"github.com/berth-gpu/berth/internal/process/minder"
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

// noMPS implements MPS for a machine that has none.
type noMPS struct{}

var errNoMPS = errors.New("there is no MPS on this machine")

func (noMPS) Available() error { return errNoMPS }

func (noMPS) Use(context.Context, string, int, uint64) (string, error) { return "", errNoMPS }

func (noMPS) Release(uint64) {}

func (noMPS) Serves([]process.ID) bool { return false }

// Groups keeps processes from devices that they have not leased.
type Groups interface {
	// Available returns why this machine has no groups, or nil if it has them.
	Available() error
	// Enclose moves a process into a group of its own, which can open only those of
	// NVIDIA's GPUs that have these minors. Leavable reports whether the user of the
	// process can move it out again.
	Enclose(id process.ID, fence uint64, minors []int) (leavable bool, err error)
	// Encloses reports whether the lease with this fence has a group.
	Encloses(fence uint64) bool
	// Release notes that a lease has ended. The lease need not have had a group.
	Release(fence uint64)
}

// Checkup checks devices.
type Checkup interface {
	Check(ctx context.Context, on gpu.Device, a proof.Ask, by gpu.By) (proof.Result, error)
	// Scrub overwrites the memory of a device that could be leased, and also held, the
	// amount of a lease whose processes have not started.
	Scrub(ctx context.Context, on gpu.Device, held gpu.MiB) (proof.Result, error)
}

// Throttler acts on devices that should run slower.
type Throttler interface {
	// Acts returns what is done to a device.
	Acts(uuid string) slowdown.Acts
	// Rest restores every device, and acts on none until Resume.
	Rest(ctx context.Context)
	Resume()
}

// Parking parks and resumes leases. Its methods return when the memory has moved.
type Parking interface {
	// Park parks a lease whose processes share no memory of the device. Unshared is the
	// owner's promise that they share none, where berth cannot tell.
	Park(ctx context.Context, k lease.Key, fence uint64, by access.Actor, why string, unshared bool) error
	// Resume waits for room for at most wait; an absent wait has no limit.
	Resume(ctx context.Context, k lease.Key, fence uint64, by access.Actor, why string, wait gpu.Opt[time.Duration]) error
	// Wake resumes a lease whose program asks for it. It does nothing if the lease is not
	// parked.
	Wake(ctx context.Context, k lease.Key, fence uint64) error
	// Of returns where the memory of a lease is, or false if the lease was never parked.
	Of(fence uint64) (move.Status, bool)
	// Kept returns why berth does not park a parkable lease by itself, or "" if it does.
	Kept(held *lease.Lease) string
}

// Optimizer gets memory back from leases. Only one optimization runs at a time.
type Optimizer interface {
	// Optimize works on the leases that may allows, for the actor by, and returns when it
	// is done.
	Optimize(ctx context.Context, by access.Actor, b api.Optimize, may func(*lease.Lease) bool) (api.Optimization, error)
}

// Front knows the front of a daemon.
type Front interface {
	// User returns the user that the front runs as, or false if none may run.
	User() (uid int, runs bool)
	// Seen notes where the front with a name takes requests, which counts as long as it gets
	// orders; empty if it does not say that.
	Seen(name, listen string)
	// State returns how the front is, or nil if the settings want none.
	State() *api.FrontState
}

// Logs reads the logs of jobs with the rights of their users, and knows whether runs can
// be limited.
type Logs interface {
	ReadLog(ctx context.Context, r minder.Reading, until <-chan struct{}, begin func(offset int64), w io.Writer) error
	CanLimit() error
}

// LogQuery says which part of the log of a job to read.
type LogQuery struct {
	Errors bool
	Lines  int
	Follow bool
}

// BackupQuery says what a backup has.
type BackupQuery struct {
	Secrets bool // environments of jobs, hashes of tokens, and what settings hide
	NoPast  bool // nothing that was measured
}
