package nvml

import (
	"context"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

var _ device.Meter = (*card)(nil)

// longestMeasured is the longest stretch that the driver measures over.
const longestMeasured = time.Second

// Busy returns the share of each process in the newest stretch that the driver measured.
// The driver measures several times a second and keeps the newest measurement of each
// process, so a caller that wants all of them asks as often. Where several processes take
// turns, the driver names only one of them for each stretch.
func (c *card) Busy(ctx context.Context, since time.Time) (busy device.Busy, err error) {
	err = c.read(ctx, func(s *session, h nvml.Device) error {
		samples, ret := h.GetProcessUtilization(uint64(since.UnixMicro()))
		switch {
		case ret == nvml.ERROR_NOT_FOUND || ret == nvml.ERROR_INSUFFICIENT_SIZE:
			busy = device.Busy{From: since, Until: since} // nothing since then
		case gone(ret):
			return c.failed(s, ret)
		case ret != nvml.SUCCESS:
			return failure("measure the processes on "+c.uuid, ret)
		default:
			busy = c.measured(since, samples)
		}
		return nil
	})
	return busy, err
}

// measured sums samples up. If the driver has measured more than once since then, each
// sample covers a part of the time.
func (c *card) measured(since time.Time, samples []nvml.ProcessUtilizationSample) device.Busy {
	after := uint64(since.UnixMicro())
	newest, times := after, map[uint64]bool{}
	for _, s := range samples {
		if s.Pid != 0 && s.TimeStamp > after && s.SmUtil <= 100 {
			newest, times[s.TimeStamp] = max(newest, s.TimeStamp), true
		}
	}
	busy := device.Busy{From: since, Until: time.UnixMicro(int64(newest)), Shares: map[int]gpu.Percent{}}
	if length := busy.Until.Sub(c.metered); !c.metered.IsZero() && length > 0 && (c.stretch == 0 || length < c.stretch) {
		c.stretch = length
	}
	c.metered = busy.Until
	longest := longestMeasured
	if c.stretch > 0 {
		longest = min(longest, c.stretch*time.Duration(max(len(times), 1)))
	}
	if from := busy.Until.Add(-longest); from.After(busy.From) {
		busy.From = from
	}
	for _, s := range samples {
		if s.Pid != 0 && s.TimeStamp > after && s.SmUtil <= 100 {
			busy.Shares[int(s.Pid)] = gpu.Percent(float64(s.SmUtil) / float64(len(times)))
		}
	}
	return busy
}
