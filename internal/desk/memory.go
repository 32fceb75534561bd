package desk

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/peaks"
)

// Memory is what earlier runs used.
type Memory struct {
	peaks  *peaks.Peaks
	ledger *ledger.Ledger
	config func() *config.Config
}

// draw returns the power that earlier runs of the same name drew on one device. It is
// absent if that is not known.
func (d *Memory) draw(h lease.Holder) gpu.Opt[gpu.Watts] {
	key := peaks.KeyOf(h)
	if key.Name == "" {
		return gpu.Opt[gpu.Watts]{}
	}
	return d.peaks.Drew(key)
}

// mostEver returns the most memory that could ever be leased on one device.
func (d *Memory) mostEver() gpu.MiB {
	var most gpu.MiB
	for _, sum := range d.ledger.Sums() {
		most = max(most, sum.Most)
	}
	return most
}

// Measured lists what earlier runs of all users used.
func (d *Memory) Measured() []api.Measured {
	most, context := d.mostEver(), d.config().GPU.Context
	var all []api.Measured
	for _, e := range d.peaks.All() {
		all = append(all, api.Measured{
			User: e.User, Name: e.Name, Step: e.Step, Runs: e.Count, Last: e.Last,
			Asked: e.Asked(), Peak: e.Peak(), Next: min(e.Need(context), most), Seconds: e.Seconds(), Drew: e.Drew(),
		})
	}
	return all
}

// Measure remembers a measurement under the name of the caller.
func (d *Memory) Measure(by Caller, b api.Measurement) error {
	var most gpu.MiB // memory of the largest device
	for _, sum := range d.ledger.Sums() {
		most = max(most, sum.Device.MemoryTotal)
	}
	if most > 0 && b.Memory > most {
		return wrongFields(lease.FieldErrors{{Field: "memory_mb", Detail: fmt.Sprintf("is more than any device of this machine has, which is %d", most)}})
	}
	d.peaks.Add(peaks.Key{User: by.User, Name: gpu.Printable(b.Name, gpu.Whole), Step: gpu.Printable(b.Step, gpu.Whole)},
		peaks.Run{Peak: b.Memory, Seconds: b.Seconds}, time.Now())
	return nil
}

// ofWish returns how much memory a wish is for on each device, with a note for the
// holder, and whether that is what earlier runs of the same name used.
func (d *Memory) ofWish(by *Caller, w *wish, where *gpu.Where) (memory gpu.MiB, note string, learned bool) {
	if w.AllMemory {
		return d.allMemory(where), w.note, false
	}
	if !w.Learned || w.Memory != 0 || w.Name == "" {
		return w.Memory, w.note, false
	}
	need, peak := d.peaks.Offer(peaks.Key{User: by.User, Name: w.Name}, d.config().GPU.Context, d.mostEver())
	if need == 0 {
		return 0, w.note, false
	}
	return need, w.Name + " gets " + need.String() + ": earlier runs used up to " + peak.String(), true
}

// allMemory returns the most memory that could ever be leased on one of the devices that
// meet these conditions.
func (d *Memory) allMemory(where *gpu.Where) (most gpu.MiB) {
	for _, sum := range d.ledger.Sums() {
		model := sum.Device.Model()
		if where.Allows(sum.Device.UUID, sum.Device.Index) && where.Unmet(&model) == "" {
			most = max(most, sum.Most)
		}
	}
	return most
}
