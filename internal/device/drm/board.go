package drm

import (
	"cmp"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// board is one GPU.
type board struct {
	backend *Backend
	uuid    string

	at   atomic.Pointer[place]      // where it was last found
	desc atomic.Pointer[gpu.Device] // as it was last found

	// One goroutine at a time reads the device and owns the fields below.
	usage  Usage
	energy gpu.Opt[float64] // at the time read
	read   time.Time

	highest gpu.Watts // power limit that was ever in force
}

var (
	_ device.Device   = (*board)(nil)
	_ device.Meter    = (*board)(nil)
	_ device.Governor = (*board)(nil)
)

// Describe answers from memory.
func (c *board) Describe() gpu.Device { return *c.desc.Load() }

// identify describes the GPU at a place.
func (b *Backend) identify(at *place, uuid string, index int) gpu.Device {
	t := b.table
	product := ""
	if t.Product != "" {
		product, _ = Text(at.Dir, t.Product)
	}
	d := gpu.Device{
		UUID: uuid, Index: index, Name: gpu.Printable(cmp.Or(product, b.Root.Name(&at.Card), t.Label+" GPU "+at.Model), 128),
		Vendor: t.Vendor, Backend: t.Name, Driver: b.Root.DriverVersion(at.Driver), Ordinal: at.node.ordinal,
		PCI: at.PCI, Path: at.Render(), MemoryTotal: at.memory, NUMANode: at.NUMANode(),
		TempMax: at.sensors.Temperature("crit", t.Core...), TempShutdown: at.sensors.Temperature("emergency", t.Core...),
	}
	for _, l := range t.Limits {
		if limit := at.sensors.Watts(l.Now); limit.Known() {
			if limit.Or(0) > 0 {
				d.PowerLimit = limit
			}
			break
		}
	}
	return d
}

// serial returns the UUID that a vendor shows for a serial number: GPU- and sixteen
// hexadecimal digits. It returns "" for a GPU that has none, or one that berth may never
// read. Such a GPU gets its UUID from its place.
func (p *place) serial(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := Text(p.Dir, file)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EACCES) {
			err = nil
		}
		return "", err
	}
	text = strings.TrimPrefix(strings.ToLower(text), "0x")
	if n, err := strconv.ParseUint(text, 16, 64); err != nil || n == 0 {
		return "", nil
	}
	const digits = 16
	return "GPU-" + strings.Repeat("0", max(digits-len(text), 0)) + text, nil
}

// lost returns an error if the card has left the bus.
func (c *board) lost(at *place) error {
	if !at.Gone() {
		return nil
	}
	return &device.Error{
		Op: "read " + c.uuid, Err: device.ErrLost,
		Hint: "look in dmesg for messages of " + at.Driver + "; a GPU that fell off the bus usually needs a reboot",
	}
}

// silent returns the error for a GPU that answered no read; err is one of the reasons.
func (c *board) silent(at *place, err error) error {
	if lost := c.lost(at); lost != nil {
		return lost
	}
	e := &device.Error{Op: "read " + c.uuid, Err: err, Hint: "look in dmesg for messages of " + at.Driver}
	if Denied(err) {
		e.Err = device.ErrNoPermission
		e.Hint = "let this user read " + at.Device + ", or run berth as root"
	}
	return e
}

// refused returns the error for a file that could not be written or read.
func (c *board) refused(op string, err error) error {
	e := &device.Error{Op: op + " of " + c.uuid, Err: err}
	switch {
	case c.at.Load().Gone():
		e.Err = device.ErrLost
	case Denied(err):
		e.Err = device.ErrNoPermission
		e.Hint = "run berth as root"
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EIO):
		e.Err = device.ErrUnsupported
		e.Hint = "the driver does not take it on this GPU"
	}
	return e
}
