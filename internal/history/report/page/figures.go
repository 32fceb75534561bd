package page

import (
	"fmt"
	"strconv"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// figures returns the numbers at the top of a report.
func (b *builder) figures() (list []figure) {
	var load, total, leased, used, idle, measured float64
	var energy gpu.Joules
	loads, counted, hottest := 0, false, gpu.Opt[gpu.Celsius]{}
	for _, d := range b.p.GPUs {
		if u, known := d.Utilization.Get(); known {
			load, loads = load+float64(u), loads+1
		}
		total += float64(d.Total) * d.Measured / 3600
		leased, used, idle, measured = leased+d.Leased, used+d.Used, idle+d.Idle, measured+d.Measured
		if e, known := d.Energy.Get(); known {
			energy, counted = energy+e, true
		}
		if t, known := d.Hottest.Get(); known {
			hottest = gpu.Some(max(t, hottest.Or(t)))
		}
	}
	add := func(known bool, name, value, note string) {
		if known {
			list = append(list, figure{name, value, note})
		}
	}
	asked, wasted := b.asked()
	cost, faults := "", 0.0
	if b.Energy.Price.Known() {
		cost = b.cost(energy)
	}
	for _, f := range b.p.Faults {
		faults += f.Count
	}
	waiting := &b.p.Waiting
	add(loads > 0, "Load", fmt.Sprintf("%.0f %%", load/float64(loads)), words.Count(len(b.p.GPUs), "GPU")+", on average")
	add(leased > 0, "Memory leased", percent(leased, total), memoryHours(leased))
	add(asked > 0, "Asked and not used", percent(wasted, asked), memoryHours(wasted))
	add(measured > 0 && leased > 0, "Leased and idle", hours(idle), percent(idle, measured)+" of the time of the GPUs")
	add(waiting.Mean.Known(), "Waiting", wait(waiting.Mean.Or(0)), "on average, for each request")
	add(hottest.Known(), "Hottest", optional(hottest, "%.0f °C"), "of all GPUs")
	add(counted, "Energy", energy.String(), cost)
	add(b.p.Source == "past", "Faults", strconv.Itoa(int(faults)), "events that tell of trouble")
	return list
}

// asked returns the memory whose use was measured, and how much of it was not used.
func (b *builder) asked() (measured, wasted float64) {
	holders := b.p.Users
	if len(holders) == 0 {
		holders = b.p.Services
	}
	for _, u := range holders {
		measured += u.Measured
		wasted += max(u.Measured-u.Used, 0)
	}
	return measured, wasted
}
