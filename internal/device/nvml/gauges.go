package nvml

import (
	"context"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/proof"
)

// Gauges reads the values that a check of a device compares. It waits as long as the
// driver takes, so only the process of the check may use it.
type Gauges struct {
	session *session
	handle  nvml.Device
	absent  metrics

	hasRemapping bool
}

// OpenGauges loads the driver's library and finds a device.
func OpenGauges(uuid string) (*Gauges, error) {
	b, err := load()
	if err != nil {
		return nil, err
	}
	return b.Gauges(uuid)
}

// Gauges returns the gauges of a device.
func (b *Backend) Gauges(uuid string) (*Gauges, error) {
	s, err := b.lib.enter(context.Background())
	if err != nil {
		return nil, err
	}
	h, ret := s.api.DeviceGetHandleByUUID(uuid)
	if ret != nvml.SUCCESS {
		return nil, failure("find "+uuid, ret)
	}
	return &Gauges{
		session: s, handle: h,
		hasRemapping: s.api.Extensions().LookupSymbol("nvmlDeviceGetRemappedRows") == nil,
	}, nil
}

// Link returns the present link, and the best that the device and its slot can do. A
// value that the driver does not tell is 0.
func (g *Gauges) Link() proof.Link {
	known := func(ask func() (int, nvml.Return)) int {
		if n, ret := ask(); ret == nvml.SUCCESS {
			return n
		}
		return 0
	}
	return proof.Link{
		Generation: known(g.handle.GetCurrPcieLinkGeneration), Width: known(g.handle.GetCurrPcieLinkWidth),
		MostGeneration: known(g.handle.GetMaxPcieLinkGeneration), MostWidth: known(g.handle.GetMaxPcieLinkWidth),
	}
}

// Clocks returns the present clock, the highest one, and the reasons for the difference.
func (g *Gauges) Clocks() proof.Clocks {
	var now gpu.Sample
	readClocks(&round{absent: &g.absent}, g.session, g.handle, &now)
	c := proof.Clocks{SM: now.ClockSM, Reasons: now.Throttle}
	if most, ret := g.handle.GetMaxClockInfo(nvml.CLOCK_SM); ret == nvml.SUCCESS {
		c.Most = gpu.Some(gpu.MHz(most))
	}
	return c
}

// Errors returns the memory errors that the device counts. Newer devices replace rows of
// memory, older ones retire pages.
func (g *Gauges) Errors() proof.Errors {
	r := round{absent: &g.absent}
	e := proof.Errors{
		Corrected:   errorsTotal(&r, g.handle, eccCorrected, nvml.MEMORY_ERROR_TYPE_CORRECTED),
		Uncorrected: errorsTotal(&r, g.handle, eccUncorrected, nvml.MEMORY_ERROR_TYPE_UNCORRECTED),
	}
	if g.hasRemapping {
		if _, _, pending, broken, ret := g.handle.GetRemappedRows(); ret == nvml.SUCCESS {
			e.Pending, e.Broken = gpu.Some(pending), gpu.Some(broken)
			return e
		}
	}
	if pending, ret := g.handle.GetRetiredPagesPendingStatus(); ret == nvml.SUCCESS {
		e.Pending = gpu.Some(pending == nvml.FEATURE_ENABLED)
	}
	return e
}
