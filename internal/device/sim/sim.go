// Package sim is a device backend without devices: GPUs that exist only as
// physics and a script.
//
// People run it to try berth on a machine without GPUs, and tests run it to see
// a GPU overheat, hang or fall off the bus on demand.
//
// A model (models.yaml) is a kind of GPU, a plant is the state of one GPU, and a script
// lists its events. State advances when somebody looks: there are no goroutines, and the
// same clock gives the same readings, however often they are taken.
package sim

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/device"
	processes "github.com/berth-gpu/berth/internal/process"
)

// Backend is a machine with simulated GPUs.
type Backend struct {
	Options
	cards  []*card
	poll   time.Duration // longest wait between two looks at the clock
	start  time.Time
	booted uint64  // the start in clock ticks since the boot of this machine
	speed  float64 // simulated seconds per second
	closed chan struct{}
	close  sync.Once

	mu       sync.Mutex
	reported time.Duration // guarded by mu: faults up to here have been reported
}

var _ device.Backend = (*Backend)(nil)

// Options are the options of Open.
type Options struct {
	Clock      func() time.Time // the simulation follows it; nil means time.Now. Several goroutines call it
	FirstIndex int              // of the devices, for a machine that has other devices too; part of the UUID
	Guests     string           // folder in which real processes take simulated memory, see guests.go; empty means none
}

// Open starts a simulation, now. The spec says of what:
//
//	(empty)               four of the default model
//	8                     eight of them
//	rtx-4060, 2xrtx-4060  one or two of a model
//	dgx-h200              a whole machine
//	2xh200+4xl4           several kinds
//	./hot.yaml            what a scenario file says
func Open(spec string, o Options) (*Backend, error) {
	known, err := readCatalog()
	if err != nil {
		return nil, err
	}
	var world *scenario
	if isPath(spec) {
		world, err = readScenario(known, spec, o.FirstIndex)
	} else {
		world, err = unscripted(known, spec, o.FirstIndex)
	}
	if err != nil {
		return nil, err
	}
	return newBackend(world, o), nil
}

// longWait is the longest wait between two looks at a clock that is time.Now: any timer
// works there. Another clock has to be polled.
const (
	longWait  = time.Hour
	pollClock = 20 * time.Millisecond
)

func newBackend(world *scenario, o Options) *Backend {
	b := &Backend{Options: o, poll: pollClock, speed: world.speed, closed: make(chan struct{}), reported: -1}
	if b.Clock == nil {
		b.Clock, b.poll = time.Now, longWait
	}
	b.start, b.booted = b.Clock(), processes.Now()
	for i, about := range describe(world.models, o.FirstIndex) {
		c := &card{
			backend: b, about: about, model: world.models[i], script: world.scripts[i],
			plant: newPlant(world.models[i]), guests: newGuests(o.Guests, about.UUID), fates: map[int]fate{},
		}
		c.plant.joules = c.guests.recall(b.start, c.model.Power.Idle)
		b.cards = append(b.cards, c)
	}
	return b
}

// Name returns "sim".
func (b *Backend) Name() string { return backendName }

const backendName = "sim"

// Scan lists the devices that are not lost. It answers from memory, so a hung device does
// not delay it.
func (b *Backend) Scan(context.Context) ([]device.Device, error) {
	now := b.elapsed()
	var list []device.Device
	for _, c := range b.cards {
		if !c.script.lost(now) {
			list = append(list, c)
		}
	}
	return list, nil
}

// Close ends every hang.
func (b *Backend) Close() error {
	b.close.Do(func() { close(b.closed) })
	return nil
}

// elapsed returns the simulated time.
func (b *Backend) elapsed() time.Duration {
	past := max(0, b.Clock().Sub(b.start))
	if b.speed == 1 {
		return past
	}
	return time.Duration(min(float64(past)*b.speed, float64(never/2)))
}

// wall returns the clock time of a moment of simulated time.
func (b *Backend) wall(t time.Duration) time.Time {
	return b.start.Add(time.Duration(float64(t) / b.speed))
}

// wait returns true when simulated time has reached t, and false if stop or the
// simulation is closed before.
func (b *Backend) wait(t time.Duration, stop <-chan struct{}) bool {
	for {
		left := t - b.elapsed()
		if left <= 0 {
			return true
		}
		var alarm <-chan time.Time // stays nil, and silent, if t never comes
		if t != never {
			pause := math.Ceil(float64(left) / b.speed)
			alarm = time.After(time.Duration(min(pause, float64(b.poll))))
		}
		select {
		case <-alarm:
		case <-stop:
			return false
		case <-b.closed:
			return false
		}
	}
}
