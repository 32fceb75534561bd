// Package runs has the words for a run of a command under a minder: what it may use, and
// what the minder writes down about it.
package runs

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process"
)

// Limits are what a run may use of the machine. Zero means no limit.
type Limits struct {
	CPUs       float64
	HostMemory gpu.MiB
}

// ErrLimits means that a run cannot be limited as it should be.
var ErrLimits = errors.New("limit the run")

// IsShort reports whether an error says that the machine is short of something, or that a
// disk fails. That says nothing about a run, and passes.
func IsShort(err error) bool {
	short := []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN, unix.ENOSPC, unix.EDQUOT, unix.EIO, unix.ESTALE, unix.ETIMEDOUT}
	return slices.ContainsFunc(short, func(one error) bool { return errors.Is(err, one) })
}

// Errors of those who give minders their orders. One that passes (later.Passes) means that
// a minder asks again.
var (
	// ErrStopped means that the daemon is about to stop.
	ErrStopped = errors.New("the daemon is about to stop")
	// ErrNoLease means that the lease of a run has ended.
	ErrNoLease = errors.New("the lease has ended")
	// ErrNoOrder refuses the order of a run that is not due, or whose minder is another
	// process.
	ErrNoOrder = errors.New("there is no order for this run")
)

// Record is what the file of a run says. A record whose PID is 0 says nothing: no minder
// has begun.
type Record struct {
	Version int    `json:"version,omitempty"` // of the minder that wrote it
	PID     int    `json:"pid,omitempty"`     // of the minder
	Start   uint64 `json:"start,omitempty"`   // of the minder, see process.ID
	Boot    string `json:"boot,omitempty"`    // the boot of the machine in which it ran

	Groups []string `json:"groups,omitempty"` // the folders of its control group, if the daemon made one

	Started time.Time `json:"started,omitzero"` // zero: the command was not started
	UID     int       `json:"uid,omitempty"`    // this and the lease are known from started on
	Lease   string    `json:"lease,omitempty"`
	Fence   uint64    `json:"fence,omitempty"`
	Output  string    `json:"output,omitempty"` // the file that has the output of the command
	Error   string    `json:"error,omitempty"`  // the file that has its errors, if that is another one

	Ended       time.Time     `json:"ended,omitzero"`
	Exit        gpu.Opt[int]  `json:"exit,omitzero"`           // of the command; 128 and the number of the signal that ended it
	Signal      string        `json:"signal,omitempty"`        // the signal that ended it, as in SIGKILL
	Failure     string        `json:"failure,omitempty"`       // why the command could not be started, in words
	Short       bool          `json:"short,omitempty"`         // … and that passes, see IsShort
	OutOfMemory bool          `json:"out_of_memory,omitempty"` // the kernel killed a process of the run because there was no more memory for it
	PeakHost    gpu.MiB       `json:"peak_host,omitempty"`     // the most memory that one of its processes used; 0: less than a minder uses
	CPU         time.Duration `json:"cpu,omitempty"`           // of all its processes that have ended
	Shutdown    bool          `json:"shutdown,omitempty"`      // the machine was shutting down when it ended
}

// Minder identifies the process that wrote the record.
func (r Record) Minder() process.ID { return process.ID{PID: r.PID, Start: r.Start} }
