package api

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Energy says how much energy devices used, and for whom.
type Energy struct {
	Price    gpu.Opt[float64] `json:"price_per_kwh,omitzero" doc:"What a kilowatt-hour costs, as energy.price_per_kwh says. Absent: it is not set."`
	Currency string           `json:"currency,omitempty" doc:"The currency of the price."`
	GPUs     []DeviceEnergy   `json:"gpus" doc:"Every device of which something was measured, by index."`
	Used     []EnergyUse      `json:"used" doc:"For whom leases used energy, those that have ended included; the most first."`
}

// Cost returns the price of an amount of energy. It is absent if no price is set.
func (e *Energy) Cost(j gpu.Joules) gpu.Opt[float64] {
	price, set := e.Price.Get()
	if !set {
		return gpu.Opt[float64]{}
	}
	return gpu.Some(price * j.WattHours() / 1000)
}

// DeviceEnergy says how much energy a device used. Leases, others and idle add up to the
// total.
type DeviceEnergy struct {
	GPU        string     `json:"gpu" doc:"UUID of the device."`
	Index      int        `json:"index"`
	Name       string     `json:"name,omitempty"`
	Since      time.Time  `json:"since" doc:"When the daemon first measured it. Restarts do not count."`
	Total      gpu.Joules `json:"energy_joules"`
	Leases     gpu.Joules `json:"leases_joules" doc:"What processes under leases used, above what the device draws by itself."`
	Others     gpu.Joules `json:"others_joules" doc:"What processes under no lease used, and what cannot be put down to a lease any more."`
	Idle       gpu.Joules `json:"idle_joules" doc:"What the device draws by itself, also while it works."`
	IdlePower  gpu.Watts  `json:"idle_watts" doc:"What the device draws by itself, as far as the daemon has learned; 0: it has not."`
	Source     string     `json:"source" enum:"counter,power" doc:"counter: the driver counts. power: the daemon adds up the power of its samples."`
	Unmeasured float64    `json:"unmeasured_seconds" doc:"How much of the time since then nobody measured. What was used then is missing."`
}

// EnergyUse says how much energy leases used for a user, a service and a program.
type EnergyUse struct {
	User    string     `json:"user,omitempty" doc:"Absent: users for whom there was no account of their own."`
	Service string     `json:"service,omitempty"`
	Name    string     `json:"name,omitempty" doc:"What the leases were called; only for their user and operators."`
	Energy  gpu.Joules `json:"energy_joules"`
}
