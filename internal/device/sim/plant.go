package sim

import (
	"cmp"
	"time"
)

// tick is the grid in simulated time for everything that has no exact solution:
// the steps of the governor, and ramps of load. It is fixed, so that the state
// at a moment does not depend on earlier readings.
const tick = 100 * time.Millisecond

// plant is the physical state of one GPU at one moment of simulated time.
type plant struct {
	model      *model
	now        time.Duration
	air        float64 // temperature of the air as the heat sink feels it
	die        warmth
	memory     warmth
	sensor     float64 // power as its sensor shows it
	joules     float64
	governor   float64       // share of full clock that the temperature allows
	awakeUntil time.Duration // without further work
	cap        float64       // the power limit in force
}

// drive has the influences on a plant from outside.
type drive struct {
	load    float64 // 0 to 1
	ambient float64
	cooling float64       // share of the designed air flow
	cap     float64       // power limit; 0 means that of the model
	capped  time.Duration // when that limit was set from outside; 0 means at the start
}

// newPlant returns a GPU that has been idle for a long time.
func newPlant(m *model) *plant {
	return &plant{
		model:    m,
		air:      m.Ambient,
		die:      restingAt(m.Die, m.Power.Idle),
		memory:   restingAt(m.MemoryModes, m.Power.Idle),
		sensor:   m.Power.Idle,
		governor: 1,
		cap:      m.Power.Cap,
	}
}

// advance lets time pass under a constant drive. One long step and many short ones lead
// to the same state.
func (p *plant) advance(until time.Duration, d drive) {
	p.cap = cmp.Or(d.cap, p.model.Power.Cap)
	for p.now < until {
		next := until
		if p.governed(d) {
			if p.now%tick == 0 {
				p.governor = govern(p.governor, p.celsius(), float64(p.model.Limits.Slowdown))
			}
			next = min(next, p.now-p.now%tick+tick)
		}
		if d.load == 0 && p.now < p.awakeUntil {
			next = min(next, p.awakeUntil)
		}
		p.pass(next, d)
	}
}

// governed reports whether the governor may have to act under this drive. If not, any
// stretch of time is one step.
func (p *plant) governed(d drive) bool {
	highest := max(p.air, d.ambient) + p.die.highest(p.model.Die, p.watts(d.load), d.cooling)
	return p.governor < 1 || highest >= float64(p.model.Limits.Slowdown)
}

// pass integrates over a stretch in which the power does not change.
func (p *plant) pass(until time.Duration, d drive) {
	watts, dt := p.watts(d.load), (until - p.now).Seconds()
	p.die.advance(p.model.Die, watts, d.cooling, dt)
	p.memory.advance(p.model.MemoryModes, watts, d.cooling, dt)
	// A new ambient temperature arrives as slowly as the heat sink warms up.
	p.air = relax(p.air, d.ambient, dt, p.model.Die[len(p.model.Die)-1].Seconds)
	p.sensor = relax(p.sensor, watts, dt, p.model.Power.SensorSeconds)
	p.joules += watts * dt
	p.now = until
	if d.load > 0 {
		p.awakeUntil = until + time.Duration(p.model.Power.AwakeSeconds*float64(time.Second))
	}
}

func (p *plant) asleep(load float64) bool { return load == 0 && p.now >= p.awakeUntil }

// clock returns the share of full clock that the GPU runs at while it is awake.
func (p *plant) clock(load float64) float64 {
	return min(p.governor, p.model.Power.capped(load, p.cap))
}

// watts returns the power that the GPU draws now.
func (p *plant) watts(load float64) float64 {
	if p.asleep(load) {
		return p.model.Power.Idle
	}
	return p.model.Power.watts(load, p.clock(load))
}

// celsius returns the temperature of the die.
func (p *plant) celsius() float64 { return p.air + p.die.sum() }

// memoryCelsius returns the temperature of the memory, if there is a sensor.
func (p *plant) memoryCelsius() float64 { return p.air + p.model.MemoryOffset + p.memory.sum() }
