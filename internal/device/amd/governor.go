package amd

import (
	"context"
	"fmt"
	"math"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// PowerLimits reads the power limits. It was not tried on hardware.
func (c *card) PowerLimits(ctx context.Context) (device.PowerLimits, error) {
	if err := ctx.Err(); err != nil {
		return device.PowerLimits{}, err
	}
	s := &c.at.Load().sensors
	now, known := s.Watts("power1_cap").Get()
	most, bounded := s.Watts("power1_cap_max").Get()
	if _, err := s.Number("power1_cap"); err != nil {
		return device.PowerLimits{}, c.refused("read the power limit", err)
	}
	if !known || !bounded || most <= 0 {
		return device.PowerLimits{}, c.refused("read the power limit", device.ErrUnsupported)
	}
	limits := device.PowerLimits{Now: now, Most: most, Default: s.Watts("power1_cap_default").Or(most), Least: s.Watts("power1_cap_min").Or(0)}
	if limits.Least <= 0 { // the driver names none, and a GPU at no power does not work
		limits.Least = min(most/4, now)
	}
	return limits, nil
}

// SetPowerLimit sets the power limit. It was not tried on hardware.
func (c *card) SetPowerLimit(ctx context.Context, limit gpu.Watts) error {
	limits, err := c.PowerLimits(ctx)
	if err != nil {
		return err
	}
	if !(limit >= limits.Least && limit <= limits.Most) {
		return fmt.Errorf("set the power limit of %s: %.0f W is not between %.0f and %.0f W", c.uuid, limit, limits.Least, limits.Most)
	}
	if err := c.at.Load().sensors.Write("power1_cap", int64(math.Round(float64(limit)*1e6))); err != nil {
		return c.refused("set the power limit", err)
	}
	return nil
}

// The ways to control a fan, as pwm1_enable has them.
const (
	fanByHand   = 1
	fanByDriver = 2
)

// SetFan sets the speed of the fan. It was not tried on hardware. GPUs from RX
// 7000 on refuse it: their fans follow a curve.
func (c *card) SetFan(ctx context.Context, speed gpu.Percent) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !(speed >= 0 && speed <= 100) {
		return fmt.Errorf("set the fan of %s: %g %% is not a speed", c.uuid, float64(speed))
	}
	s := &c.at.Load().sensors
	if _, err := s.Number("pwm1"); err != nil {
		return c.refused("set the fan", err)
	}
	if err := s.Write("pwm1_enable", fanByHand); err != nil {
		return c.refused("set the fan", err)
	}
	if err := s.Write("pwm1", int64(math.Round(float64(speed)*255/100))); err != nil {
		_ = s.Write("pwm1_enable", fanByDriver)
		return c.refused("set the fan", err)
	}
	return nil
}

// ReleaseFan gives the fan back to the driver.
func (c *card) ReleaseFan(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.at.Load().sensors.Write("pwm1_enable", fanByDriver); err != nil {
		return c.refused("release the fan", err)
	}
	return nil
}
