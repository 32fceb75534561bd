package batch

import (
	"time"

	"github.com/berth-gpu/berth/internal/batch/chunk"
)

// card is what a run knows about one GPU. The run's lock guards it.
type card struct {
	gpu     GPU
	workers int     // with a place there
	most    int     // the highest number of workers so far
	ready   int     // workers that take records
	speed   float64 // multiplier, as it was last seen

	fit     chunk.Fit
	pace    float64 // how much longer batches take now than the fit says; 1 at first
	largest int     // records in the largest batch that came back
	quick   float64 // seconds of a batch, lately

	failures int  // workers that failed in a row, without an outcome
	givenUp  bool // no more workers are started there

	done, failed      int64 // records
	retries, restarts int64
	busy              time.Duration // workers at work, added up
	latency           Histogram
	batch             int // records in the last batch
}

// learned updates the costs with a batch that came back. The first batch of a
// process warms it up (it loads kernels and allocates memory), so it does not
// count.
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
