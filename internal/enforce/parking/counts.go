package parking

import (
	"maps"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/park"
)

// Counts are numbers about parking since the daemon began.
type Counts struct {
	Parked   int     // leases that are parked now
	Host     gpu.MiB // memory of the machine that leases take now
	Moved    map[park.Goal]gpu.MiB
	Took     map[park.Goal]time.Duration
	Failures map[park.Step]int
	Turns    int // leases that were parked because others waited
}

func newCounts() Counts {
	c := Counts{Moved: map[park.Goal]gpu.MiB{park.Away: 0, park.Back: 0}, Took: map[park.Goal]time.Duration{park.Away: 0, park.Back: 0}, Failures: map[park.Step]int{}}
	for _, s := range park.Steps() {
		c.Failures[s] = 0
	}
	return c
}

// Counts returns the numbers as they are now.
func (p *Parking) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.counts
	c.Moved, c.Took, c.Failures = maps.Clone(c.Moved), maps.Clone(c.Took), maps.Clone(c.Failures)
	for _, r := range p.leases {
		if r.Phase == park.Parked {
			c.Parked++
		}
		if r.Phase != "" {
			c.Host += r.host()
		}
	}
	return c
}
