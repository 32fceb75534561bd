package batch

import (
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/batch/chunk"
)

// card holds what a run knows about one GPU. The run's lock guards it.
type card struct {
	gpu     GPU
	workers int     // workers that have a place there
	most    int     // the highest number of workers so far
	ready   int     // workers that take records
	speed   float64 // multiplier, as last seen

	fit     chunk.Fit
	pace    float64 // how much longer batches take now than the fit says; 1 at first
	largest int     // records in the largest batch that came back
	quick   float64 // recent seconds per batch

	failures int  // workers that failed in a row without an outcome
	givenUp  bool // no more workers are started there

	done, failed      int64 // records
	retries, restarts int64
	busy              time.Duration // total time that workers were at work
	latency           api.Latency   // of the batches that records were in
	batch             int           // records in the last batch
}

// learned updates the costs with a batch that came back. It ignores the first batch of a
// process, which warms it up: it loads kernels and allocates memory.
func (c *card) learned(g *group, took time.Duration, warm bool) {
	n := len(g.records)
	c.largest = max(c.largest, n)
	c.batch = n
	c.failures = 0
	if !warm {
		return
	}
	seconds := took.Seconds()
	c.quick += 0.3 * (seconds - c.quick)
	if m := c.fit.Model(); m.Known {
		c.pace += 0.1 * (seconds/m.Seconds(n, g.weight) - c.pace)
		c.pace = min(max(c.pace, 0.05), 20)
	}
	c.fit.Add(n, g.weight, seconds)
}

// observe counts n records whose batch took this many seconds.
func (c *card) observe(seconds float64, n int) {
	at, _ := slices.BinarySearch(c.latency.Bounds, seconds)
	c.latency.Counts[at] += uint64(n)
	c.latency.Sum += seconds * float64(n)
}
