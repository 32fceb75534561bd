package nvml

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// card is one device: a GPU, or an instance that MIG cut out of one.
type card struct {
	lib   *library
	roots Roots
	uuid  string
	pci   string
	slice *slice // of a MIG instance; nil for a GPU

	mu    sync.Mutex // guards desc and wires.nearest; never held while in the driver
	desc  gpu.Device
	wires wiring

	recut atomic.Bool // whether MIG instances have changed, and with them what the device can be asked

	// One goroutine at a time reads the device and owns the fields below.
	session *session    // the session that handle is from
	handle  nvml.Device // nil if it has to be found again
	whole   nvml.Device // the GPU that a MIG instance is part of; nil if not found
	lost    bool        // whether the last reading found it gone
	ret     nvml.Return // with which it was last found gone
	absent  metrics     // metrics that the device does not have; void with the handle
	doubted metrics     // metrics that it refused when it was last asked for them
	names   nameCache
	sampled uint64        // NVML's time of the last process utilisation
	metered time.Time     // end of the last measurement of Busy
	stretch time.Duration // the shortest that the driver was seen to measure over; 0 if not known
}

var _ device.Device = (*card)(nil)

// Describe answers from memory.
func (c *card) Describe() gpu.Device {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.desc
	d.Links = slices.Clone(d.Links)
	d.Instances = slices.Clone(d.Instances)
	return d
}

// revise changes the description. change must not call the driver.
func (c *card) revise(change func(*gpu.Device)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.desc)
}

// read runs one reading. A device that is lost for the second time in a row may be back
// on the bus without NVML seeing it, so read then restarts the library if that may help. It
// does not help a device that waits for a reset, and it disturbs the others.
func (c *card) read(ctx context.Context, reading func(*session, nvml.Device) error) error {
	err := c.try(ctx, reading)
	if errors.Is(err, device.ErrLost) && c.lost && c.ret != nvml.ERROR_RESET_REQUIRED && c.slice == nil && c.onBus() && c.lib.restart(ctx) {
		err = c.try(ctx, reading)
	}
	wasLost := c.lost
	c.lost = errors.Is(err, device.ErrLost)
	if wasLost && err == nil {
		c.lib.recovered()
	}
	return err
}

// try runs one reading on a handle that is valid in the session.
func (c *card) try(ctx context.Context, reading func(*session, nvml.Device) error) error {
	s, err := c.lib.enter(ctx)
	if err != nil {
		return err
	}
	defer c.lib.leave()
	if c.handle == nil || c.session != s {
		h, ret := s.find(c)
		if ret != nvml.SUCCESS {
			return c.failed(s, ret)
		}
		c.session, c.handle, c.absent, c.doubted = s, h, 0, 0
		if c.slice != nil {
			c.whole = s.findWhole(c)
		}
	}
	if c.recut.Swap(false) {
		c.absent = 0
	}
	return reading(s, c.handle)
}

// find looks a device up by its PCI address, which hardly ever changes: to find a UUID,
// NVML may have to wake up other GPUs, and one of those may hang.
func (s *session) find(c *card) (nvml.Device, nvml.Return) {
	if c.slice == nil && c.pci != "" {
		h, ret := s.api.DeviceGetHandleByPciBusId(c.pci)
		if gone(ret) {
			return nil, ret
		}
		if ret == nvml.SUCCESS {
			if uuid, ret := h.GetUUID(); ret == nvml.SUCCESS && uuid == c.uuid {
				return h, nvml.SUCCESS
			}
		}
	}
	h, ret := s.api.DeviceGetHandleByUUID(c.uuid)
	if ret == nvml.ERROR_NOT_FOUND || ret == nvml.ERROR_INVALID_ARGUMENT {
		ret = nvml.ERROR_GPU_NOT_FOUND
	}
	return h, ret
}

// failed returns the error for a device that did not answer as a whole. The next reading
// looks its handle up again.
func (c *card) failed(s *session, ret nvml.Return) error {
	c.handle, c.ret = nil, ret
	if ret == nvml.ERROR_UNINITIALIZED {
		c.lib.invalidate(s)
	}
	return failure("read "+c.uuid, ret)
}

// onBus reports whether the device answers on the PCI bus, as far as berth can tell. The
// first two bytes of its configuration space are the vendor, and read as ones if no
// device is there. This spares the other devices a restart that cannot help.
func (c *card) onBus() bool {
	devices := filepath.Join(c.roots.Sys, "bus/pci/devices")
	if _, err := os.Stat(devices); err != nil || c.pci == "" {
		return true
	}
	f, err := os.Open(filepath.Join(devices, c.pci, "config"))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	defer f.Close()
	var vendor [2]byte
	if _, err := f.Read(vendor[:]); err != nil {
		return true
	}
	return vendor != [2]byte{0xff, 0xff}
}
