package daemon

import (
	"runtime"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/monitor"
)

// Slots is how many pipelines a device runs and may run.
func (d *Daemon) Slots(uuid string) api.Slots {
	devices := len(d.monitor.Readings())
	// Unless configured, the CPUs are shared out: a pipeline needs one to feed
	// its device.
	share := max(1, (runtime.NumCPU()+devices-1)/max(1, devices))
	return api.Slots{Capacity: d.settings.load().Config.GPU.For(uuid).MaxPipelines.Or(share)}
}

// Available is what can be leased now, per device.
func (d *Daemon) Available() []api.DeviceAvailable {
	out := []api.DeviceAvailable{}
	for _, r := range d.monitor.Readings() {
		out = append(out, d.availableOf(r))
	}
	return out
}

func (d *Daemon) availableOf(r monitor.Reading) api.DeviceAvailable {
	c := d.settings.load().Config.GPU.For(r.Device.UUID)
	total := r.Device.MemoryTotal
	a := api.DeviceAvailable{
		GPU: r.Device.UUID, State: r.State, Health: r.Health,
		Total: total, Limit: min(total, c.MemoryLimit.Or(total)), Reserve: c.MemoryReserve,
		Foreign: r.Sample.MemoryUsed.Or(0),
	}
	if r.State == gpu.Critical || r.State == gpu.Unavailable {
		a.Reason = r.Reason
		return a
	}
	a.Available = max(0, a.Limit-a.Reserve-a.Leased-a.Foreign)
	if a.Available == 0 {
		a.Reason = "Everything that may be leased is in use."
	}
	return a
}
