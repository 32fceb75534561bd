package promexport

import "github.com/berth-gpu/berth/internal/lease"

var (
	slotsMetric     = deviceMetric(gauge, "gpu_slots", "Pipelines the device runs and may run.", "kind")
	leasedMetric    = deviceMetric(gauge, "gpu_memory_leased_mb", "Memory under leases, in MiB: for each the larger of leased and measured.")
	foreignMetric   = deviceMetric(gauge, "gpu_memory_foreign_mb", "Memory used under no lease, in MiB.")
	availableMetric = deviceMetric(gauge, "gpu_memory_available_mb", "Memory that can be leased now, in MiB.")
)

// leased shows what is leased on each device.
var leased = group{[]*family{slotsMetric, leasedMetric, foreignMetric, availableMetric}, func(now *Values, out lines) {
	for _, sum := range now.Ledger.Sums() {
		labels := labelsOf(&sum.Device)
		out.put(slotsMetric, float64(sum.Active), append(labels[:3:3], "active")...)
		out.put(slotsMetric, float64(sum.MaxPipelines), append(labels[:3:3], "capacity")...)
		out.put(leasedMetric, float64(sum.Leased+sum.Overuse), labels...)
		out.put(foreignMetric, float64(sum.Foreign), labels...)
		available := max(sum.Available(), 0)
		if sum.Closed != "" {
			available = 0
		}
		out.put(availableMetric, float64(available), labels...)
	}
}}

// holding is a number about what a user or a service holds.
type holding struct {
	user, service *family
	of            func(lease.Tally) float64
}

func holdingOf(name, before, after string, of func(lease.Tally) float64) holding {
	kind := func(kind string) *family {
		return metric(gauge, "gpu_"+kind+"_"+name, before+" the "+kind+after, kind)
	}
	return holding{kind("user"), kind("service"), of}
}

var holdings = []holding{
	holdingOf("leases", "Leases of", ".", func(t lease.Tally) float64 { return float64(t.Leases) }),
	holdingOf("waiting", "Requests of", " that wait.", func(t lease.Tally) float64 { return float64(t.Waiting) }),
	holdingOf("slots", "Slots that the leases of", " take.", func(t lease.Tally) float64 { return float64(t.Slots) }),
	holdingOf("memory_leased_mb", "Memory that the leases of", " promise, in MiB.", func(t lease.Tally) float64 { return float64(t.Memory) }),
	holdingOf("memory_measured_mb", "Memory that processes under the leases of", " use, in MiB.", func(t lease.Tally) float64 { return float64(t.Measured) }),
}

// holders returns the group of what each service and each user holds and waits for. A name
// with a label keeps its lines until the daemon restarts.
func holders(names *Names) group {
	var all []*family
	for _, h := range holdings {
		all = append(all, h.user, h.service)
	}
	return group{all, func(now *Values, out lines) {
		users, services := map[string]lease.Tally{}, map[string]lease.Tally{"": {}}
		for party, tally := range now.Ledger.Tallies() {
			add(users, names.User(party.User), tally)
			add(services, names.Service(party.Service, party.User), tally)
		}
		for _, name := range names.Users() {
			add(users, name, lease.Tally{})
		}
		for _, name := range names.Services() {
			add(services, name, lease.Tally{})
		}
		for _, h := range holdings {
			for name, sum := range users {
				out.put(h.user, h.of(sum), name)
			}
			for name, sum := range services {
				out.put(h.service, h.of(sum), name)
			}
		}
	}}
}

func add(sums map[string]lease.Tally, label string, more lease.Tally) {
	sum := sums[label]
	sum.Memory += more.Memory
	sum.Slots += more.Slots
	sum.Measured += more.Measured
	sum.Leases += more.Leases
	sum.Waiting += more.Waiting
	sums[label] = sum
}
