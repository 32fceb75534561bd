package drm

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// Options says where to look and for what.
type Options struct {
	Root Root             // empty means /
	All  bool             // also GPUs that are part of a processor
	Now  func() time.Time // the clock; nil means time.Now
}

// Backend knows the GPUs of a vendor on this machine.
type Backend struct {
	Options
	table   *Table
	openers *Openers

	mu     sync.Mutex // guards boards; never held while in the driver
	boards map[string]*board
}

var _ device.Backend = (*Backend)(nil)

// New returns a backend. It reads nothing yet.
func New(t *Table, o Options) *Backend {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Backend{Options: o, table: t, openers: o.Root.Openers(), boards: map[string]*board{}}
}

// Open returns a backend, or an error that says what is missing if there is no
// GPU.
func Open(t *Table, o Options) (device.Backend, error) {
	b := New(t, o)
	if len(b.look()) == 0 {
		return nil, &device.Error{Op: "look for " + t.Label + " GPUs", Err: device.ErrNoDriver, Hint: t.Missing}
	}
	return b, nil
}

// Name returns the name of the backend.
func (b *Backend) Name() string { return b.table.Name }

// Close has nothing to close.
func (b *Backend) Close() error { return nil }

// Scan lists the GPUs in the order of their addresses.
func (b *Backend) Scan(ctx context.Context) ([]device.Device, error) {
	var list []device.Device
	var failed error
	for i, at := range b.look() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		uuid, err := b.uuid(at)
		if err != nil {
			failed = cmp.Or(failed, err)
			continue // listed under another name, it could be leased beside itself
		}
		list = append(list, b.adopt(at, uuid, i))
	}
	if len(list) == 0 {
		return nil, failed
	}
	return list, nil
}

// place is where a GPU is found. It does not change.
type place struct {
	Card
	sensors Sensors
	node    node
	memory  gpu.MiB // 0 if the driver does not tell
}

// look returns the places of the cards to list. A card that is part of a processor uses
// the memory of the machine: it has nothing to lease, and is of little use to a program
// that wants a GPU.
func (b *Backend) look() []*place {
	var list []*place
	var nodes map[int]node
	if b.table.Computing != "" {
		nodes = readNodes(b.computing())
	}
	for i, c := range b.Root.Cards(b.table.Drivers...) {
		memory, told := b.table.memoryOf(&c)
		integrated := told && memory < b.table.LeastMemory
		if b.table.LeastMemory == 0 {
			integrated = c.Integrated()
		}
		if integrated && !b.All {
			continue
		}
		at := &place{Card: c, sensors: c.Sensors(), node: node{ordinal: gpu.Some(i)}, memory: memory}
		if b.table.Computing != "" {
			at.node = nodes[c.RenderMinor()]
		}
		list = append(list, at)
	}
	return list
}

// computing returns the folder of the driver for computing.
func (b *Backend) computing() string { return b.Root.Path(b.table.Computing) }

// memoryOf returns how much memory a card has, and whether the driver tells. Several
// files of a pattern are those of its tiles.
func (t *Table) memoryOf(c *Card) (sum gpu.MiB, told bool) {
	for _, pattern := range t.MemoryTotal {
		files, _ := filepath.Glob(filepath.Join(c.Dir, pattern))
		for _, file := range files {
			bytes, err := Number(file)
			told = told || err == nil
			sum += gpu.MiBOf(uint64(max(bytes, 0)))
		}
		if sum > 0 {
			break
		}
	}
	return sum, told
}

// uuid returns the UUID of the card at a place. A card that was found before keeps its
// UUID, whatever its files say at this moment. It returns an error for a new card whose
// serial number cannot be read now.
func (b *Backend) uuid(at *place) (string, error) {
	serial, err := at.serial(b.table.Serial)
	for _, c := range b.all() {
		if c.at.Load().Place() == at.Place() && (serial == "" || c.uuid == at.Place()) {
			return c.uuid, nil
		}
	}
	if err != nil {
		return "", &device.Error{Op: "read the serial number of the GPU at " + at.PCI, Err: err, Hint: "look in dmesg for messages of " + at.Driver}
	}
	return cmp.Or(serial, at.Place()), nil
}

// adopt returns the device at a place. The device may have been at another place, or had
// another driver, before.
func (b *Backend) adopt(at *place, uuid string, index int) *board {
	described := b.identify(at, uuid, index)
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.boards[described.UUID]
	if c == nil {
		c = &board{backend: b, uuid: described.UUID}
		b.boards[described.UUID] = c
	}
	c.at.Store(at)
	c.desc.Store(&described)
	return c
}

// all returns every device ever found.
func (b *Backend) all() []*board {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.boards))
}
