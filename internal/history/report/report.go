// Package report sums up a machine from the answers of the daemon: how each
// device was used, who holds it, and what could be done better.
//
// Pure: no clock, no I/O.
package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// Answers are the answers of the daemon that a report is made from.
type Answers struct {
	Status       api.StatusAll
	Available    api.Available
	Leases       api.Leases
	Past         api.PastLeases
	Measurements api.Measurements
	Energy       api.Energy
	History      map[string][]gpu.Sample // by UUID, oldest first

	// The rest is for a period. Series has the answers of the store of the past by the
	// names of the questions. It is nil if there is no store.
	Series  map[string][]api.QuerySeries
	Remarks []string // what could not be asked, and why
}

// Make returns the report at this time.
func Make(a Answers, now time.Time) api.Report {
	return api.Report{
		Time: now, GPUs: a.devices(), Services: a.services(), Measurements: a.Measurements.Measurements, Energy: a.Energy, Advice: a.advice(now),
	}
}

func (a *Answers) devices() []api.DeviceReport {
	list := make([]api.DeviceReport, len(a.Status.GPUs))
	for i, d := range a.Status.GPUs {
		list[i] = a.device(d)
	}
	return list
}

func (a *Answers) device(d api.Status) api.DeviceReport {
	uuid := d.Device.UUID
	r := api.DeviceReport{GPU: uuid, Index: d.Device.Index, Name: d.Device.Name, State: d.State, Total: d.Device.MemoryTotal}
	var load, power mean
	samples := a.History[uuid]
	for _, s := range samples {
		load.add(float64(s.Utilization.Or(0)), s.Utilization.Known())
		power.add(float64(s.Power.Or(0)), s.Power.Known() && s.PowerOf == "")
		r.Peak = max(r.Peak, s.MemoryUsed.Or(0))
		if t, known := s.Temperature.Get(); known {
			r.Hottest = gpu.Some(max(t, r.Hottest.Or(t)))
		}
	}
	if load.n > 0 {
		r.Utilization = gpu.Some(gpu.Percent(load.value()))
	}
	if power.n > 0 {
		r.Power = gpu.Some(gpu.Watts(power.value()))
	}
	if len(samples) > 1 {
		r.Covers = samples[len(samples)-1].Time.Sub(samples[0].Time).Seconds()
	}
	for _, free := range a.Available.GPUs {
		if free.GPU == uuid {
			r.Foreign, r.Available = free.Foreign, free.Available
		}
	}
	for _, l := range a.Leases.Leases {
		for i, p := range l.Parts {
			if p.GPU == uuid {
				r.Leases++
				r.Leased += l.Holds(i)
				r.Measured += p.Measured.Or(0)
			}
		}
	}
	return r
}

// mean is the average of the added values.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64, known bool) {
	if known {
		m.sum += v
		m.n++
	}
}

func (m *mean) value() float64 { return m.sum / float64(max(m.n, 1)) }

func (a *Answers) services() []api.ServiceReport {
	found := map[string]*api.ServiceReport{}
	users := map[string]map[string]bool{}
	of := func(h api.Holder) *api.ServiceReport {
		if found[h.Service] == nil {
			found[h.Service], users[h.Service] = &api.ServiceReport{Service: h.Service}, map[string]bool{}
		}
		users[h.Service][h.User] = true
		return found[h.Service]
	}
	for _, l := range a.Leases.Leases {
		r := of(l.Holder)
		r.Leases++
		for i, p := range l.Parts {
			r.Leased += l.Holds(i)
			r.Measured += p.Measured.Or(0)
			if l.State != "parked" {
				r.Slots += p.Slots
			}
		}
	}
	for _, w := range a.Leases.Waiting {
		of(w.Holder).Waiting++
	}
	for _, l := range a.Past.Leases {
		r := of(l.Holder)
		r.Past++
		r.PastPeak = max(r.PastPeak, l.Peak)
	}
	list := make([]api.ServiceReport, 0, len(found))
	for name, r := range found {
		r.Users = slices.Sorted(maps.Keys(users[name]))
		list = append(list, *r)
	}
	slices.SortFunc(list, func(x, y api.ServiceReport) int {
		return cmp.Or(cmp.Compare(y.Leased, x.Leased), cmp.Compare(y.Past, x.Past), strings.Compare(x.Service, y.Service))
	})
	return list
}
