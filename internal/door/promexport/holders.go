package promexport

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-gpu/berth/internal/lease"
)

// holderDescs describes the gauges of one kind of holder: services or users.
type holderDescs struct{ leases, waiting, slots, leased, measured *prometheus.Desc }

func describeHolder(kind string) holderDescs {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("gpu_"+kind+"_"+name, help, []string{kind}, nil)
	}
	return holderDescs{
		leases:   desc("leases", "Leases of the "+kind+"."),
		waiting:  desc("waiting", "Requests of the "+kind+" that wait."),
		slots:    desc("slots", "Slots that the leases of the "+kind+" take."),
		leased:   desc("memory_leased_mb", "Memory that the leases of the "+kind+" promise, in MiB."),
		measured: desc("memory_measured_mb", "Memory that processes under the leases of the "+kind+" use, in MiB."),
	}
}

var serviceDescs, userDescs = describeHolder("service"), describeHolder("user")

// holders is a collector of what each service and each user holds and waits for. A name
// with a label keeps its lines until the daemon restarts.
type holders struct{ from Sources }

func (c *holders) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []holderDescs{serviceDescs, userDescs} {
		for _, desc := range []*prometheus.Desc{d.leases, d.waiting, d.slots, d.leased, d.measured} {
			out <- desc
		}
	}
}

func (c *holders) Collect(out chan<- prometheus.Metric) {
	users, services := map[string]lease.Tally{}, map[string]lease.Tally{"": {}}
	for party, tally := range c.from.Ledger().Tallies() {
		add(users, c.from.Labels.User(party.User), tally)
		add(services, c.from.Labels.Service(party.Service, party.User), tally)
	}
	for _, name := range c.from.Labels.Users() {
		add(users, name, lease.Tally{})
	}
	for _, name := range c.from.Labels.Services() {
		add(services, name, lease.Tally{})
	}
	userDescs.send(out, users)
	serviceDescs.send(out, services)
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

func (d *holderDescs) send(out chan<- prometheus.Metric, sums map[string]lease.Tally) {
	for label, sum := range sums {
		for desc, value := range map[*prometheus.Desc]float64{
			d.leases: float64(sum.Leases), d.waiting: float64(sum.Waiting), d.slots: float64(sum.Slots),
			d.leased: float64(sum.Memory), d.measured: float64(sum.Measured),
		} {
			out <- prometheus.MustNewConstMetric(desc, gauge, value, label)
		}
	}
}
