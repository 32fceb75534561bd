package sim

import (
	"errors"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// card is one simulated GPU.
type card struct {
	backend *Backend
	about   gpu.Device
	model   *model
	script  script

	mu     sync.Mutex
	plant  *plant       // guarded by mu
	guests *guests      // guarded by mu; nil if the simulation has none
	fates  map[int]fate // guarded by mu; of scripted processes, by pid

	scrubbed gpu.Opt[time.Duration] // guarded by mu; when memory was last overwritten
	hand     hand                   // guarded by mu; settings made through device.Governor
	noted    time.Duration          // guarded by mu; when the energy counter was last written
}

var errClosed = errors.New("the simulation is closed")

// answer waits until a hang is over, whatever the caller's deadline, as a driver call
// does. It returns the simulated time at which the device answers.
func (c *card) answer() (time.Duration, error) {
	now := c.backend.elapsed()
	for {
		until, hung := c.script.hungUntil(now)
		if !hung {
			break
		}
		if !c.backend.wait(until, nil) {
			return 0, &device.Error{Op: "read " + c.about.UUID, Err: errClosed}
		}
		now = c.backend.elapsed()
	}
	if c.script.lost(now) {
		return 0, &device.Error{Op: "read " + c.about.UUID, Err: device.ErrLost, Hint: "the scenario took it away"}
	}
	return now, nil
}

// reading is the activity of a card at a moment.
type reading struct {
	load      float64
	processes []running // those on the card
	all       []running // also those whose memory is elsewhere
}

// look calls do with what the card does, as soon as it answers. do has mu.
func (c *card) look(do func(now time.Duration, r reading)) error {
	now, err := c.answer()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.advance(now)
	if c.guests != nil && now-c.noted >= noteEvery {
		c.noted = now
		c.guests.note(c.plant.joules, c.plant.watts(r.load), c.backend.wall(now))
	}
	do(now, r)
	return nil
}

// advance advances the plant to now. The caller holds mu.
func (c *card) advance(now time.Duration) reading {
	visiting := c.guests.visiting()
	for {
		d, until := c.script.drive(c.plant.now, c.model, c.fates)
		c.hand.act(&d)
		for _, r := range visiting {
			d.load = min(1, d.load+r.load)
		}
		if c.plant.now >= now {
			c.plant.cap = d.cap
			all := byPID(append(visiting, c.script.processes(now, c.fates)...))
			return reading{d.load, c.present(all), all}
		}
		c.plant.advance(min(now, until), d)
	}
}
