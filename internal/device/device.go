// Package device is the seam between berth and GPU drivers.
//
// A backend (package nvml, sim, …) implements it; the monitor and the daemon
// use it; devicetest holds the suite that every backend passes.
package device

import (
	"context"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Backend knows the devices of one kind on this machine.
//
// Calls may come from several goroutines, but each Device is asked by one at a
// time. A call may block for as long as a hung driver does: callers go through
// Guard, which gives up at the deadline and leaves that device alone until the
// call is back. A backend must therefore hold no lock while it is in the
// driver that a call for another device needs.
type Backend interface {
	// Name returns the name of the backend in configuration and answers:
	// "nvml", "sim".
	Name() string

	// Scan lists the devices that are there now, in index order. A device
	// keeps its UUID for ever, and what an earlier Scan returned stays usable:
	// a device that fell off answers ErrLost until it is back. No device is
	// not an error.
	Scan(ctx context.Context) ([]Device, error)

	// Watch calls found for every fault the driver reports, until ctx ends,
	// and returns nil then. A backend that cannot watch returns ErrUnsupported
	// at once.
	Watch(ctx context.Context, found func(Fault)) error

	// Close closes the connection to the driver. Nothing is called after it.
	Close() error
}

// Device is one GPU.
type Device interface {
	// Describe returns the description from memory, without asking the driver.
	Describe() gpu.Device

	// Fast fills everything in a sample but Slow, GPU and Time, in
	// microseconds. Metrics the device does not have stay absent. An error
	// means that the device as a whole did not answer, and then the sample
	// means nothing.
	Fast(ctx context.Context, into *gpu.Sample) error

	// Slow fills the metrics that cost milliseconds.
	Slow(ctx context.Context, into *gpu.Slow) error
}

// Fault is a fault that the driver reported by itself.
type Fault struct {
	gpu.Fault
	GPU    string // UUID; empty if the driver did not say which
	Time   time.Time
	PID    int            // the process that caused it; 0 if not known
	Detail map[string]any // what the vendor adds for programs, in the data of the event; nothing is decided by it
}
