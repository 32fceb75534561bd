// Package nvml is the backend for NVIDIA GPUs.
//
// It speaks to the driver through NVML, which is loaded at run time: the binary
// also starts where there is no driver, and then says what is missing.
//
// Calls into the driver can hang for ever. Three rules keep that from spreading. No lock
// is held while in the driver. Scan asks about every device in its own goroutine and goes
// on without those that do not answer. And the backend shuts the library down and
// initialises it again, which NVML needs to see a device that came back to the bus, only
// when nobody is inside it.
package nvml

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/berth-gpu/berth/internal/device"
)

// libraryName is the file that the driver installs. The dynamic loader finds it.
const libraryName = "libnvidia-ml.so.1"

// Backend knows the NVIDIA GPUs of this machine.
type Backend struct {
	lib   *library
	roots Roots

	counting errand[int]
	linking  errand[struct{}]

	mu       sync.Mutex // guards the rest; never held while in the driver
	probes   []*errand[[]*card]
	seen     [][]*card        // findings of the last probe, by index
	cards    map[string]*card // every device ever found, by UUID
	enlarged chan struct{}    // closed and replaced when cards grows
}

var _ device.Backend = (*Backend)(nil)

// Roots says where the kernel's file systems are. Empty fields mean /sys and
// /proc; tests point them at captured trees.
type Roots struct {
	Sys  string
	Proc string
}

// New returns a backend on lib, which it initialises when it is first used.
func New(lib nvml.Interface, roots Roots) *Backend {
	if roots.Sys == "" {
		roots.Sys = "/sys"
	}
	if roots.Proc == "" {
		roots.Proc = "/proc"
	}
	return &Backend{
		lib:      &library{api: lib},
		roots:    roots,
		cards:    map[string]*card{},
		enlarged: make(chan struct{}),
	}
}

// Open loads the driver's library and initialises it. Its errors are *device.Error and
// say whether the library, the driver or the permission is missing, and what to do.
func Open() (*Backend, error) {
	b, err := load()
	if err != nil {
		return nil, err
	}
	if err := b.ready(); err != nil {
		_ = b.Close()
		return nil, err
	}
	return b, nil
}

// Opener returns Open for repeated tries: only one of its calls at a time is in a driver
// that hangs.
func Opener() func() (device.Backend, error) {
	var b *Backend
	return func() (device.Backend, error) {
		if b == nil {
			loaded, err := load()
			if err != nil {
				return nil, err
			}
			b = loaded
		}
		if err := b.ready(); err != nil {
			return nil, err
		}
		return b, nil
	}
}

// load loads the library, and asks the driver nothing.
func load() (*Backend, error) {
	// A second reference keeps the library in memory for the life of the
	// process: a hung call must not return into code that a restart has
	// unloaded.
	if err := dl.New(libraryName, dl.RTLD_LAZY|dl.RTLD_GLOBAL|dl.RTLD_NODELETE).Open(); err != nil {
		missing := failure("load NVML", nvml.ERROR_LIBRARY_NOT_FOUND)
		missing.Err = fmt.Errorf("%w: %v", missing.Err, err)
		return nil, missing
	}
	return New(nvml.New(nvml.WithLibraryPath(libraryName)), Roots{}), nil
}

// ready asks the driver whether it answers.
func (b *Backend) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := b.count(ctx)
	return err
}

// Name returns "nvml".
func (b *Backend) Name() string { return "nvml" }

// Close closes the connection to the driver.
func (b *Backend) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var closing errand[struct{}]
	_, err := closing.run(ctx, func(context.Context) (struct{}, error) {
		return struct{}{}, b.lib.close()
	})
	return err
}

// adopt returns the card with this UUID, and creates it if it is new.
func (b *Backend) adopt(uuid string, identify func() *card) *card {
	b.mu.Lock()
	known := b.cards[uuid]
	b.mu.Unlock()
	if known != nil {
		return known
	}
	fresh := identify() // in the driver, so without the lock
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.cards[uuid]; known != nil {
		return known
	}
	b.cards[uuid] = fresh
	close(b.enlarged)
	b.enlarged = make(chan struct{})
	return fresh
}

// all returns every device ever found, and a channel that is closed when there is a new
// one.
func (b *Backend) all() ([]*card, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.cards)), b.enlarged
}
