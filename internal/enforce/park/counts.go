package park

import (
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

// NewCounts returns zero for everything that is counted.
func NewCounts() Counts {
	c := Counts{Moved: map[Goal]gpu.MiB{Away: 0, Back: 0}, Took: map[Goal]time.Duration{Away: 0, Back: 0}, Failures: map[move.Step]int{}}
	for _, s := range move.Steps() {
		c.Failures[s] = 0
	}
	return c
}
