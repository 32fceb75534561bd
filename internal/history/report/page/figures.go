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
	if loads > 0 {
		list = append(list, figure{"Load", fmt.Sprintf("%.0f %%", load/float64(loads)), words.Count(len(b.p.GPUs), "GPU") + ", on average"})
	}
	if leased > 0 {
		list = append(list, figure{"Memory leased", percent(leased, total), memoryHours(leased)})
	}
	if asked, wasted := b.asked(); asked > 0 {
		list = append(list, figure{"Asked and not used", percent(wasted, asked), memoryHours(wasted)})
	}
	if measured > 0 && leased > 0 {
		list = append(list, figure{"Leased and idle", hours(idle), percent(idle, measured) + " of the time of the GPUs"})
	}
	if mean, known := b.p.Waiting.Mean.Get(); known {
		list = append(list, figure{"Waiting", wait(mean), "on average, for " + words.CountThousands(int64(b.p.Waiting.Answered), "lease")})
	}
	if t, known := hottest.Get(); known {
		list = append(list, figure{"Hottest", fmt.Sprintf("%.0f °C", float64(t)), "of all GPUs"})
	}
	if counted {
		note := ""
		if b.Energy.Price.Known() {
			note = b.cost(energy)
		}
		list = append(list, figure{"Energy", energy.String(), note})
	}
	if b.p.Source == "past" {
		faults := 0.0
		for _, f := range b.p.Faults {
			faults += f.Count
		}
		list = append(list, figure{"Faults", strconv.Itoa(int(faults)), "events that tell of trouble"})
	}
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
