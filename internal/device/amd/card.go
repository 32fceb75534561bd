package amd

import (
	"errors"
	"io/fs"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/drm"
)

// card is one GPU.
type card struct {
	root    drm.Root
	openers *drm.Openers
	now     func() time.Time
	uuid    string

	at   atomic.Pointer[place]      // where it was last found
	desc atomic.Pointer[gpu.Device] // as it was last found

	// One goroutine at a time reads the device and owns the fields below.
	usage drm.Usage
}

// place is where a GPU is found. It does not change.
type place struct {
	drm.Card
	sensors drm.Sensors
	node    node
}

var (
	_ device.Device   = (*card)(nil)
	_ device.Meter    = (*card)(nil)
	_ device.Governor = (*card)(nil)
)

// Describe answers from memory.
func (c *card) Describe() gpu.Device { return *c.desc.Load() }

// silent returns the error for a GPU that answered no read; err is one of the reasons.
func (c *card) silent(at *place, err error) error {
	e := &device.Error{Op: "read " + c.uuid, Err: err}
	switch {
	case at.Gone():
		e.Err = device.ErrLost
		e.Hint = "look in dmesg for messages of amdgpu; a GPU that fell off the bus usually needs a reboot"
	case drm.Denied(err):
		e.Err = device.ErrNoPermission
		e.Hint = "let this user read " + at.Device + ", or run berth as root"
	default:
		e.Hint = "look in dmesg for messages of amdgpu"
	}
	return e
}

// refused returns the error for a file that could not be written or read.
func (c *card) refused(op string, err error) error {
	e := &device.Error{Op: op + " of " + c.uuid, Err: err}
	switch {
	case c.at.Load().Gone():
		e.Err = device.ErrLost
	case drm.Denied(err):
		e.Err = device.ErrNoPermission
		e.Hint = "run berth as root"
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EIO):
		e.Err = device.ErrUnsupported
		e.Hint = "the driver does not take it on this GPU"
	}
	return e
}
