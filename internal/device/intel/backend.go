// Package intel is the backend for Intel GPUs.
//
// It reads the files of the i915 and xe drivers, which are part of Linux, in
// /sys and /proc, and needs no library of the vendor. These drivers tell less
// than others; what they do not tell is absent.
//
// A read can hang as long as the driver does. No lock is held meanwhile, and no
// device reads a file of another one.
package intel

import (
	"context"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/drm"
)

// The names of the kernel's drivers.
const (
	older = "i915"
	newer = "xe"
)

// Options says where to look and for what.
type Options struct {
	Root drm.Root         // empty means /
	All  bool             // also GPUs that are part of a processor
	Now  func() time.Time // the clock; nil means time.Now
}

// Backend knows the Intel GPUs of this machine.
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
			Op: "look for Intel GPUs", Err: device.ErrNoDriver,
			Hint: "load the driver with modprobe xe or modprobe i915; in a container, pass /dev/dri in",
		}
	}
	return b, nil
}

// Name returns "intel".
func (b *Backend) Name() string { return "intel" }

// Close has nothing to close.
func (b *Backend) Close() error { return nil }

// Scan lists the GPUs in the order of their addresses.
func (b *Backend) Scan(ctx context.Context) ([]device.Device, error) {
	var list []device.Device
	for i, there := range b.look() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		list = append(list, b.adopt(locate(there.Card, there.ordinal), i))
	}
	return list, nil
}

// counted is a card with its number among all Intel cards, as the vendor's runtime
// numbers them by address.
type counted struct {
	drm.Card
	ordinal int
}

// look returns the cards to list. A card that is part of a processor uses the memory of
// the machine: it has nothing to lease, and is of little use to a program that wants a
// GPU.
func (b *Backend) look() []counted {
	var list []counted
	for i, c := range b.Root.Cards(older, newer) {
		if b.All || !c.Integrated() {
			list = append(list, counted{c, i})
		}
	}
	return list
}

// adopt returns the device at a place. The device may have had another driver before.
func (b *Backend) adopt(at *place, index int) *card {
	described := b.identify(at, index)
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.cards[described.UUID]
	if c == nil {
		c = &card{openers: b.openers, now: b.Now, uuid: described.UUID}
		b.cards[described.UUID] = c
	}
	c.at.Store(at)
	c.desc.Store(&described)
	return c
}

// find returns the device at an address, or nil.
func (b *Backend) find(address string) *card {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.cards {
		if c.at.Load().PCI == address {
			return c
		}
	}
	return nil
}
