package intel

import (
	"context"
	"fmt"
	"math"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// PowerLimits reads the power limits. It was not tried on hardware. The drivers
// tell the default and take every limit up to it.
func (c *card) PowerLimits(ctx context.Context) (device.PowerLimits, error) {
	file, limits, err := c.powerLimits(ctx)
	if err == nil && file == "" {
		err = c.refused("read the power limit", device.ErrUnsupported)
	}
	return limits, err
}

// powerLimits finds the file of the limit that is in force: that of the card, or
// that of the chip.
func (c *card) powerLimits(ctx context.Context) (file string, limits device.PowerLimits, err error) {
	if err := ctx.Err(); err != nil {
		return "", limits, err
	}
	s := &c.at.Load().sensors
	for i, file := range limitFiles {
		if _, err := s.Number(file); err != nil {
			continue
		}
		now, rated := s.Watts(file).Or(0), s.Watts(ratedFiles[i]).Or(0)
		if most := max(now, rated); most > 0 {
			// Zero is a limit that is switched off.
			limits := device.PowerLimits{Now: now, Default: rated, Most: most}
			if now == 0 {
				limits.Now = most
			}
			if rated == 0 {
				limits.Default = most
			}
			limits.Least = min(most/4, limits.Now) // the drivers name none, and a GPU at no power does not work
			return file, limits, nil
		}
	}
	return "", limits, nil
}

// SetPowerLimit sets the power limit. It was not tried on hardware.
func (c *card) SetPowerLimit(ctx context.Context, limit gpu.Watts) error {
	file, limits, err := c.powerLimits(ctx)
	if err != nil {
		return err
	}
	if file == "" {
		return c.refused("set the power limit", device.ErrUnsupported)
	}
	if !(limit >= limits.Least && limit <= limits.Most) { // zero would switch it off
		return fmt.Errorf("set the power limit of %s: %.0f W is not between %.0f and %.0f W", c.uuid, limit, limits.Least, limits.Most)
	}
	if err := c.at.Load().sensors.Write(file, int64(math.Round(float64(limit)*1e6))); err != nil {
		return c.refused("set the power limit", err)
	}
	return nil
}

// SetFan refuses: the drivers only read fans.
func (c *card) SetFan(context.Context, gpu.Percent) error {
	return c.refused("set the fan", device.ErrUnsupported)
}

// ReleaseFan refuses: the drivers only read fans.
func (c *card) ReleaseFan(context.Context) error {
	return c.refused("release the fan", device.ErrUnsupported)
}
