package drm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// PowerLimits reads the power limits. It was not tried on hardware.
func (c *board) PowerLimits(ctx context.Context) (device.PowerLimits, error) {
	_, limits, err := c.powerLimits(ctx)
	return limits, err
}

// powerLimits finds the limit that is in force, such as that of the card or that of the
// chip, and returns the sensor that sets it.
func (c *board) powerLimits(ctx context.Context) (sensor string, limits device.PowerLimits, err error) {
	if err := ctx.Err(); err != nil {
		return "", limits, err
	}
	s, failed := &c.at.Load().sensors, device.ErrUnsupported
	for _, l := range c.backend.table.Limits {
		n, err := s.Number(l.Now)
		if err != nil {
			failed = err
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoSensors) {
				continue
			}
			break // another limit in its place would pass for one that somebody has set
		}
		now, usual := watts(n).Or(0), s.Watts(l.Default).Or(0)
		c.highest = max(c.highest, now)
		most, whole := gpu.Watts(0), max(c.highest, usual)
		if l.Most != "" {
			most = s.Watts(l.Most).Or(0)
			whole = most
		}
		if whole <= 0 {
			failed = device.ErrUnsupported
			continue
		}
		// Zero is a limit that is switched off, or that the driver does not name.
		limits := device.PowerLimits{Now: now, Default: usual, Least: s.Watts(l.Least).Or(0), Most: most}
		if now == 0 {
			limits.Now = whole
		}
		if usual == 0 {
			limits.Default = whole
		}
		if limits.Least <= 0 { // a GPU at no power does not work
			limits.Least = min(whole/4, limits.Now)
		}
		return l.Now, limits, nil
	}
	return "", limits, c.refused("read the power limit", failed)
}

// SetPowerLimit sets the power limit. It was not tried on hardware.
func (c *board) SetPowerLimit(ctx context.Context, limit gpu.Watts) error {
	sensor, limits, err := c.powerLimits(ctx)
	if err != nil {
		return err
	}
	if !(limit >= limits.Least && (limits.Most == 0 || limit <= limits.Most)) { // zero would switch it off
		return fmt.Errorf("set the power limit of %s: %.0f W is not between %.0f and %.0f W", c.uuid, limit, limits.Least, limits.Most)
	}
	if err := c.at.Load().sensors.Write(sensor, int64(math.Round(float64(limit)*1e6))); err != nil {
		return c.refused("set the power limit", err)
	}
	return nil
}

// The ways to control a fan, as pwm1_enable has them.
const (
	fanByHand   = 1
	fanByDriver = 2
)

// SetFan sets the speed of the fan. It was not tried on hardware. AMD's GPUs from RX 7000
// on refuse it: their fans follow a curve.
func (c *board) SetFan(ctx context.Context, speed gpu.Percent) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !c.backend.table.Fan {
		return c.refused("set the fan", device.ErrUnsupported)
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
		if back := s.Write("pwm1_enable", fanByDriver); back != nil { // berth has it, and has to give it back
			return fmt.Errorf("set the fan of %s: %w; and it cannot be given back: %v", c.uuid, err, back)
		}
		return c.refused("set the fan", err)
	}
	return nil
}

// ReleaseFan gives the fan back to the driver.
func (c *board) ReleaseFan(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !c.backend.table.Fan {
		return c.refused("release the fan", device.ErrUnsupported)
	}
	if err := c.at.Load().sensors.Write("pwm1_enable", fanByDriver); err != nil {
		return c.refused("release the fan", err)
	}
	return nil
}
