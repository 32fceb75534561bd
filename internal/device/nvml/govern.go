package nvml

import (
	"context"
	"fmt"
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

var _ device.Governor = (*card)(nil)

// PowerLimits returns the power limit that was set and the ones that the driver accepts.
func (c *card) PowerLimits(ctx context.Context) (limits device.PowerLimits, err error) {
	err = c.govern(ctx, "read the power limits", func(_ *session, h nvml.Device) nvml.Return {
		now, ret := h.GetPowerManagementLimit()
		if ret != nvml.SUCCESS {
			return ret
		}
		usual, ret := h.GetPowerManagementDefaultLimit()
		if ret != nvml.SUCCESS {
			return ret
		}
		least, most, ret := h.GetPowerManagementLimitConstraints()
		if ret == nvml.SUCCESS {
			limits = device.PowerLimits{Now: watts(now), Default: watts(usual), Least: watts(least), Most: watts(most)}
		}
		return ret
	})
	return limits, err
}

// SetPowerLimit sets the power limit, in whole milliwatts.
func (c *card) SetPowerLimit(ctx context.Context, limit gpu.Watts) error {
	op := fmt.Sprintf("set the power limit to %.0f W", limit)
	if !(limit > 0 && limit < math.MaxUint32/1000) {
		return &device.Error{Op: op + " on " + c.uuid, Err: fmt.Errorf("that is no power limit")}
	}
	err := c.govern(ctx, op, func(_ *session, h nvml.Device) nvml.Return {
		return h.SetPowerManagementLimit(uint32(math.Round(float64(limit) * 1000)))
	})
	if err == nil {
		c.revise(func(d *gpu.Device) { d.PowerLimit = gpu.Some(limit) })
	}
	return err
}

// SetFan sets the speed of every fan, within the range of the fans of the device.
func (c *card) SetFan(ctx context.Context, speed gpu.Percent) error {
	op := fmt.Sprintf("set the fans to %.0f %%", speed)
	if !(speed >= 0 && speed <= 100) {
		return &device.Error{Op: op + " on " + c.uuid, Err: fmt.Errorf("that is no fan speed")}
	}
	return c.govern(ctx, op, func(s *session, h nvml.Device) nvml.Return {
		return s.eachFan(h, func(fan int) nvml.Return {
			whole := int(math.Round(float64(speed)))
			if least, most, ret := h.GetMinMaxFanSpeed(); ret == nvml.SUCCESS {
				whole = min(max(whole, least), most)
			}
			return h.SetFanSpeed_v2(fan, whole)
		})
	})
}

// ReleaseFan gives every fan back to the driver, also those after one that the driver
// does not take.
func (c *card) ReleaseFan(ctx context.Context) error {
	return c.govern(ctx, "give the fans back to the driver", func(s *session, h nvml.Device) nvml.Return {
		failed := nvml.SUCCESS
		ret := s.eachFan(h, func(fan int) nvml.Return {
			if ret := h.SetDefaultFanSpeed_v2(fan); failed == nvml.SUCCESS {
				failed = ret
			}
			return nvml.SUCCESS
		})
		if ret == nvml.SUCCESS {
			ret = failed
		}
		return ret
	})
}

// eachFan calls set for every fan of a device. It returns an error for a device without
// fans: setting them is not supported.
func (s *session) eachFan(h nvml.Device, set func(fan int) nvml.Return) nvml.Return {
	if !s.hasFans {
		return nvml.ERROR_NOT_SUPPORTED
	}
	count, ret := h.GetNumFans()
	if ret == nvml.SUCCESS && count == 0 {
		ret = nvml.ERROR_NOT_SUPPORTED
	}
	for fan := 0; fan < count && ret == nvml.SUCCESS; fan++ {
		ret = set(fan)
	}
	return ret
}

// govern runs one call that reads or sets limits. A MIG instance has no limits of its
// own.
func (c *card) govern(ctx context.Context, op string, call func(*session, nvml.Device) nvml.Return) error {
	if c.slice != nil {
		return &device.Error{Op: op + " on " + c.uuid, Err: device.ErrUnsupported, Hint: "a MIG instance has the power limit and the fans of its GPU"}
	}
	return c.read(ctx, func(s *session, h nvml.Device) error {
		ret := call(s, h)
		switch {
		case ret == nvml.SUCCESS:
			return nil
		case gone(ret):
			return c.failed(s, ret)
		case ret == nvml.ERROR_NO_PERMISSION:
			return &device.Error{Op: op + " on " + c.uuid, Err: device.ErrNoPermission, Hint: "only root may set it: run the daemon as root"}
		case unsupported(ret):
			return &device.Error{Op: op + " on " + c.uuid, Err: device.ErrUnsupported, Hint: "the driver does not let anybody set it on this GPU"}
		}
		return failure(op+" on "+c.uuid, ret)
	})
}

// watts converts the driver's milliwatts.
func watts(milli uint32) gpu.Watts { return gpu.Watts(float64(milli) / 1000) }
