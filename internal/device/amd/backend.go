// Package amd is the backend for AMD GPUs.
//
// It reads the files of the amdgpu driver, which is part of Linux, in /sys and
// /proc, and needs no library of the vendor.
//
// A read can hang as long as the driver does. No lock is held meanwhile, and no
// device reads a file of another one.
package amd

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/drm"
)

// driver is the name of the kernel's driver.
const driver = "amdgpu"

// leastMemory is how much memory of its own a GPU needs for the default scan to list it.
// A GPU with less is part of a processor and uses the memory of the machine: it has
// nothing to lease, and is of little use to a program that wants a GPU.
const leastMemory = gpu.MiB(1024)

// Options says where to look and for what.
type Options struct {
	Root drm.Root         // empty means /
	All  bool             // also GPUs that are part of a processor
	Now  func() time.Time // the clock; nil means time.Now
}

// Backend knows the AMD GPUs of this machine.
type Backend struct {
	Options
	openers *drm.Openers

	mu    sync.Mutex // guards cards; never held while in the driver
	cards map[string]*card
}

var _ device.Backend = (*Backend)(nil)

// New returns a backend. It reads nothing yet.
func New(o Options) *Backend {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Backend{Options: o, openers: o.Root.Openers(o.Now), cards: map[string]*card{}}
}

// Open returns a backend, or an error that says what is missing if there is no
// GPU.
func Open(o Options) (device.Backend, error) {
	b := New(o)
	if len(b.look()) == 0 {
		return nil, &device.Error{
			Op: "look for AMD GPUs", Err: device.ErrNoDriver,
			Hint: "load the driver with modprobe amdgpu; in a container, pass /dev/kfd and /dev/dri in",
		}
	}
	return b, nil
}

// Name returns "amd".
func (b *Backend) Name() string { return "amd" }

// Close has nothing to close.
func (b *Backend) Close() error { return nil }

// Scan lists the GPUs in the order of their addresses.
func (b *Backend) Scan(ctx context.Context) ([]device.Device, error) {
	nodes := readNodes(b.Root)
	var list []device.Device
	for i, there := range b.look() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		at := &place{Card: there, sensors: there.Sensors(), node: nodes[there.RenderMinor()]}
		list = append(list, b.adopt(at, i))
	}
	return list, nil
}

// look returns the cards that count.
func (b *Backend) look() []drm.Card {
	return slices.DeleteFunc(b.Root.Cards(driver), func(c drm.Card) bool {
		bytes, err := drm.Number(c.Device, "mem_info_vram_total")
		return !b.All && err == nil && gpu.MiBOf(uint64(max(bytes, 0))) < leastMemory
	})
}

// adopt returns the device at a place. The device may have been at another place before.
func (b *Backend) adopt(at *place, index int) *card {
	described := b.identify(at, index)
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.cards[described.UUID]
	if c == nil {
		c = &card{root: b.Root, openers: b.openers, now: b.Now, uuid: described.UUID}
		b.cards[described.UUID] = c
	}
	c.at.Store(at)
	c.desc.Store(&described)
	return c
}

// all returns every device ever found.
func (b *Backend) all() []*card {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []*card
	for _, c := range b.cards {
		list = append(list, c)
	}
	return list
}
