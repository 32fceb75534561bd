package park

import (
	"maps"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
)

// Counts are numbers about parking since the daemon began.
type Counts struct {
	Parked   int     // leases that are parked now
	Host     gpu.MiB // memory of the machine that leases take now
	Moved    map[Goal]gpu.MiB
	Took     map[Goal]time.Duration
	Failures map[move.Step]int
	Turns    int // leases that were parked because others waited
}

func newCounts() Counts {
	c := Counts{Moved: map[Goal]gpu.MiB{Away: 0, Back: 0}, Took: map[Goal]time.Duration{Away: 0, Back: 0}, Failures: map[move.Step]int{}}
	for _, s := range move.Steps() {
		c.Failures[s] = 0
	}
	return c
}

// Counts returns the numbers as they are now.
func (p *Parker) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.counts
	c.Moved, c.Took, c.Failures = maps.Clone(c.Moved), maps.Clone(c.Took), maps.Clone(c.Failures)
	for _, r := range p.leases {
		if r.Phase == move.Parked {
			c.Parked++
		}
		if r.Phase != "" {
			c.Host += r.host()
		}
	}
	return c
}
