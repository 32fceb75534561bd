package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

var _ device.Governor = (*card)(nil)

// hand has the settings made through device.Governor.
type hand struct {
	limit gpu.Opt[gpu.Watts]
	at    time.Duration // when the limit was set
	fan   gpu.Opt[gpu.Percent]
}

// act applies the settings to a drive. A scripted power limit that came later takes
// precedence.
func (h *hand) act(d *drive) {
	if limit, set := h.limit.Get(); set && h.at >= d.capped {
		d.cap = float64(limit)
	}
	if speed, set := h.fan.Get(); set {
		d.cooling *= airFlow(speed)
	}
}

// airFlow returns the share of the usual air flow at a fan speed. The numbers are chosen,
// not measured: 60 % is the usual flow, and a fan that stands still leaves some.
func airFlow(speed gpu.Percent) float64 { return 0.4 + float64(speed)/100 }

// leastShare is the lowest power limit that a card accepts, as a share of its cap.
const leastShare = 0.3

// least returns the lowest power limit that a model accepts. An awake GPU without work
// stays below it.
func (p powerModel) least() gpu.Watts { return gpu.Watts(max(leastShare*p.Cap, 1.1*p.Awake)) }

// PowerLimits returns the power limit in force and the ones that the card accepts.
func (c *card) PowerLimits(context.Context) (limits device.PowerLimits, err error) {
	err = c.look(func(time.Duration, reading) {
		most := gpu.Watts(c.model.Power.Cap)
		limits = device.PowerLimits{Now: gpu.Watts(c.plant.cap), Default: most, Least: c.model.Power.least(), Most: most}
	})
	return limits, err
}

// SetPowerLimit sets the power limit.
func (c *card) SetPowerLimit(_ context.Context, limit gpu.Watts) error {
	least, most := c.model.Power.least(), gpu.Watts(c.model.Power.Cap)
	if !(limit >= least && limit <= most) {
		return c.refuse("set the power limit", fmt.Errorf("%.0f W is not between %.0f and %.0f W", limit, least, most))
	}
	return c.set(func(now time.Duration) { c.hand.limit, c.hand.at = gpu.Some(limit), now })
}

// SetFan sets the speed of the fan.
func (c *card) SetFan(_ context.Context, speed gpu.Percent) error {
	switch {
	case c.model.Fan == nil:
		return c.refuse("set the fan", device.ErrUnsupported)
	case !(speed >= 0 && speed <= 100):
		return c.refuse("set the fan", fmt.Errorf("%g %% is not between 0 and 100 %%", speed))
	}
	return c.set(func(time.Duration) { c.hand.fan = gpu.Some(speed) })
}

// ReleaseFan lets the fan follow the temperature again.
func (c *card) ReleaseFan(context.Context) error {
	if c.model.Fan == nil {
		return c.refuse("release the fan", device.ErrUnsupported)
	}
	return c.set(func(time.Duration) { c.hand.fan = gpu.Opt[gpu.Percent]{} })
}

// set changes a setting from now on.
func (c *card) set(change func(now time.Duration)) error {
	return c.look(func(now time.Duration, _ reading) {
		change(now)
		c.advance(now)
	})
}

func (c *card) refuse(op string, err error) error {
	return &device.Error{Op: op + " of " + c.about.UUID, Err: err, Hint: "the simulated GPU does not take it"}
}
