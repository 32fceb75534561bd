// Package trace reads and writes recordings of a GPU: CSV with a header and a line for
// each sample.
//
// The columns t_s (seconds), temp_c and power_w are required. The package knows others by
// their names, and ignores unknown ones.
//
// Pure: no clock, no I/O.
package trace

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Point is one sample of a recording. An empty cell is absent.
type Point struct {
	At                time.Duration // since the time zero of the recording
	Temperature       gpu.Opt[gpu.Celsius]
	Power             gpu.Opt[gpu.Watts]
	Utilization       gpu.Opt[gpu.Percent]
	MemoryUsed        gpu.Opt[gpu.MiB]
	MemoryTotal       gpu.Opt[gpu.MiB]
	MemoryTemperature gpu.Opt[gpu.Celsius]
	ClockSM           gpu.Opt[gpu.MHz]
	Fan               gpu.Opt[gpu.Percent]
	Energy            gpu.Opt[float64] // joules, from a counter
	Throttle          string           // reasons, as the recorder wrote them
}

// Trace is a recording, in the order of time.
type Trace struct {
	Points []Point
	Gaps   []Gap
}

// Gap is a time without samples, far longer than between other samples.
type Gap struct {
	Line int // the line after the gap
	At   time.Duration
	For  time.Duration
}

func (g Gap) String() string {
	return fmt.Sprintf("line %d: nothing was recorded for %v", g.Line, g.For.Round(time.Millisecond))
}

// A gap is that many times longer than most steps, and no shorter than shortest.
const (
	longer   = 10
	shortest = 5 * time.Second
)

// gapsBetween returns the gaps between points; line returns the line of the point with an
// index.
func gapsBetween(times []time.Duration, line func(i int) int) []Gap {
	var steps []time.Duration
	for i := 1; i < len(times); i++ {
		steps = append(steps, times[i]-times[i-1])
	}
	if len(steps) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(steps))
	limit := max(shortest, longer*sorted[len(sorted)/2])
	var gaps []Gap
	for i, step := range steps {
		if step > limit {
			gaps = append(gaps, Gap{Line: line(i + 1), At: times[i], For: step})
		}
	}
	return gaps
}

// Every returns the recording with at most one point in each interval.
func (t Trace) Every(interval time.Duration) []Point {
	var kept []Point
	// A clock that ticks a little early must not lose a sample.
	early := interval / 20
	for _, p := range t.Points {
		if len(kept) == 0 || p.At >= kept[len(kept)-1].At+interval-early {
			kept = append(kept, p)
		}
	}
	return kept
}
