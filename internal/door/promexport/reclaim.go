package promexport

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/park"
)

var (
	parkedDesc     = prometheus.NewDesc("berth_parked_leases", "Leases whose memory is in the memory of the machine.", nil, nil)
	parkedHostDesc = prometheus.NewDesc("berth_parked_host_bytes", "Memory of the machine that parked leases take, and those on their way.", nil, nil)
	parkBytesDesc  = prometheus.NewDesc("berth_park_bytes_total", "Memory that was moved off devices (away) and back (back).", []string{"direction"}, nil)
	parkTookDesc   = prometheus.NewDesc("berth_park_seconds_total", "How long moving memory off devices (away) and back (back) has taken.", []string{"direction"}, nil)
	parkFailedDesc = prometheus.NewDesc("berth_park_failures_total", "Steps of parking and resuming that a driver refused or did not finish.", []string{"step"}, nil)
	parkTurnsDesc  = prometheus.NewDesc("berth_park_turns_total", "Leases that were parked because others waited for their device.", nil, nil)
	idleDesc       = prometheus.NewDesc("berth_idle_leases", "Leases that berth may park and that have not used their devices for park_idle_after.", nil, nil)
	optimizedDesc  = prometheus.NewDesc("berth_optimizations_total", "Optimizations that were more than a dry run.", nil, nil)
	reclaimedDesc  = prometheus.NewDesc("berth_reclaimed_bytes_total", "Memory that optimizations got back, as measured, by rung; for shrink: what became free to lease.", []string{"rung"}, nil)
)

// Parking has numbers about parked leases since the daemon started.
type Parking struct {
	Parked   int     // leases that are parked now
	Host     gpu.MiB // memory of the machine that leases take now
	Moved    map[park.Goal]gpu.MiB
	Took     map[park.Goal]time.Duration
	Failures map[move.Step]int
	Turns    int // leases that were parked because others waited
}

// Optimized has numbers about optimizations since the daemon started.
type Optimized struct {
	Runs  uint64             // optimizations that were more than a dry run
	Freed map[string]gpu.MiB // by rung
}

// reclaiming is a collector over parked leases and optimizations.
type reclaiming struct{ from Sources }

func (c *reclaiming) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		parkedDesc, parkedHostDesc, parkBytesDesc, parkTookDesc, parkFailedDesc, parkTurnsDesc, idleDesc, optimizedDesc, reclaimedDesc,
	} {
		out <- d
	}
}

func (c *reclaiming) Collect(out chan<- prometheus.Metric) {
	send := func(desc *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, kind, v, labels...)
	}
	if c.from.Parking != nil {
		p := c.from.Parking()
		send(parkedDesc, gauge, float64(p.Parked))
		send(parkedHostDesc, gauge, bytes(p.Host))
		send(parkTurnsDesc, counter, float64(p.Turns))
		for _, goal := range []park.Goal{park.Away, park.Back} {
			send(parkBytesDesc, counter, bytes(p.Moved[goal]), string(goal))
			send(parkTookDesc, counter, p.Took[goal].Seconds(), string(goal))
		}
		for _, step := range move.Steps() {
			send(parkFailedDesc, counter, float64(p.Failures[step]), string(step))
		}
	}
	if c.from.Idle != nil {
		send(idleDesc, gauge, float64(c.from.Idle()))
	}
	if c.from.Optimized != nil {
		o := c.from.Optimized()
		send(optimizedDesc, counter, float64(o.Runs))
		for rung, freed := range o.Freed {
			send(reclaimedDesc, counter, bytes(freed), rung)
		}
	}
}

func bytes(m gpu.MiB) float64 { return float64(m) * (1 << 20) }
