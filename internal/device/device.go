// Package device is the seam between berth and GPU drivers.
//
// A backend (package nvml, sim, …) implements it; the monitor and the daemon
// use it; devicetest holds the suite that every backend passes.
package device

import (
	"context"
	"errors"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Backend knows the devices of one kind on this machine.
//
// Several goroutines may call it, but only one at a time calls a Device. A call may block
// for as long as a hung driver does: callers go through Guard, which gives up at the
// deadline and leaves that device alone until the call returns. While it is in the
// driver, a backend must therefore hold no lock that a call for another device needs.
type Backend interface {
	// Name returns the name of the backend in configuration and answers:
	// "nvml", "sim".
	Name() string

	// Scan lists the devices that are there now, in index order. A device keeps its UUID
	// for ever, and the devices of an earlier Scan stay usable: a device that fell off
	// the bus answers ErrLost until it is back. Finding no device is not an error.
	Scan(ctx context.Context) ([]Device, error)

	// Watch calls found for every fault the driver reports, until ctx ends, and then
	// returns nil. A backend that cannot watch returns ErrUnsupported at once.
	Watch(ctx context.Context, found func(Fault)) error

	// Close closes the connection to the driver. Nothing is called after it.
	Close() error
}

// Device is one GPU.
type Device interface {
	// Describe returns the description from memory, without asking the driver.
	Describe() gpu.Device

	// Fast fills everything in a sample but Slow, GPU and Time, in microseconds. Metrics
	// that the device does not have stay absent. An error means that the device as a
	// whole did not answer, and that the sample means nothing.
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
	Detail map[string]any // the vendor's additions to the data of the event; berth decides nothing by it
}

// Callers compare with these errors. Backends wrap them with the operation and, in Error,
// with what the user can do about it.
var (
	ErrLost         = errors.New("device is not on the bus")
	ErrHung         = errors.New("device did not answer in time")
	ErrUnsupported  = errors.New("not supported")
	ErrNoLibrary    = errors.New("driver library not found")
	ErrNoDriver     = errors.New("driver not loaded")
	ErrMismatch     = errors.New("driver and its library have different versions")
	ErrNoPermission = errors.New("no permission")
)

// Error is a failure with a remedy.
type Error struct {
	Op   string // what was tried, in a few words
	Err  error  // the cause; one of the above where it fits
	Hint string // what to do, one sentence
}

func (e *Error) Error() string {
	text := e.Op + ": " + e.Err.Error()
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Hint returns the remedy that err carries, if any.
func Hint(err error) string {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

// Specs returns the texts that name devices, for help and errors. MODEL and FILE stand
// for the user's text.
func Specs() []string {
	return []string{"auto", "nvml", "amd", "intel", "sim:4", "sim:MODEL", "sim:FILE"}
}

// SpecExamples returns texts that name devices, for a user to choose from.
func SpecExamples() []string {
	return []string{"auto", "nvml", "amd", "intel", "sim:4", "sim:rtx-4060", "sim:dgx-h200"}
}

// SpecError says that a text such as sim:4 names no devices.
type SpecError struct{ Err error }

func (e *SpecError) Error() string { return e.Err.Error() }
func (e *SpecError) Unwrap() error { return e.Err }
