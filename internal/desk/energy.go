package desk

import (
	"cmp"
	"slices"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// EnergyUsed returns how much energy devices used, and for whom. See returns an entry as the
// caller may see it; Used adds up entries that look the same then.
func (d *Devices) EnergyUsed(see func(api.EnergyUse) api.EnergyUse) api.Energy {
	out := api.Energy{GPUs: []api.DeviceEnergy{}, Used: []api.EnergyUse{}}
	if c := d.config().Energy; c.Price.Known() {
		out.Price, out.Currency = c.Price, c.Currency
	}
	for _, one := range d.energy.Devices() {
		of := api.DeviceEnergy{
			GPU: one.GPU, Since: one.Since, Total: one.Total, Leases: one.Leases, Others: one.Others, Idle: one.Idle, IdlePower: one.IdlePower,
			Source: "power", Unmeasured: one.Unmeasured.Seconds(),
		}
		if one.Counted {
			of.Source = "counter"
		}
		if r, known := d.monitor.Find(one.GPU); known {
			of.Index, of.Name = r.Device.Index, r.Device.Name
			out.GPUs = append(out.GPUs, of)
		}
	}
	slices.SortStableFunc(out.GPUs, func(a, b api.DeviceEnergy) int { return cmp.Compare(a.Index, b.Index) })
	place := map[api.EnergyUse]int{}
	for _, share := range d.energy.Accounts() {
		shown := see(api.EnergyUse{User: share.User, Service: share.Service, Name: share.Name})
		at, known := place[shown]
		if !known {
			at = len(out.Used)
			place[shown] = at
			out.Used = append(out.Used, shown)
		}
		out.Used[at].Energy += share.Joules
	}
	slices.SortStableFunc(out.Used, func(a, b api.EnergyUse) int { return cmp.Compare(b.Energy, a.Energy) })
	return out
}

// EnergyOf returns the energy that the lease with this fence has used. It is absent if
// nothing was measured.
func (d *Devices) EnergyOf(fence uint64) gpu.Opt[gpu.Joules] { return d.energy.Lease(fence) }
