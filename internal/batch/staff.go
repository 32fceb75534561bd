package batch

import (
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/batch/chunk"
)

// staff holds the workers of a run and the GPUs they are on. The run's lock
// guards it.
type staff struct {
	cards       map[string]*card // by ID of the GPU
	avoid       []string         // IDs of GPUs that the run gave up
	workers     int              // workers that have a place
	idle        int              // workers that wait for records
	numbers     map[int]bool     // numbers of the workers
	everReady   bool             // whether any worker was ever ready
	ahead       bool             // whether the first worker still has its head start
	lastFailure string
}

func newStaff() staff { return staff{cards: map[string]*card{}, numbers: map[int]bool{}} }

// add adds a worker for a place. A worker gets the lowest free number, so one
// that replaces another has the same number.
func (s *staff) add(g *Grant) (number int, c *card) {
	for number = 1; s.numbers[number]; number++ {
	}
	s.numbers[number] = true
	c = s.cards[g.GPU.ID()]
	if c == nil {
		bounds := api.LatencyBounds()
		c = &card{gpu: g.GPU, speed: g.SpeedNow(), pace: 1, latency: api.Latency{Bounds: bounds, Counts: make([]uint64, len(bounds)+1)}}
		s.cards[g.GPU.ID()] = c
	}
	c.workers++
	c.most = max(c.most, c.workers)
	s.workers++
	return number, c
}

// remove forgets a worker whose place was given back.
func (s *staff) remove(c *card) {
	c.workers--
	s.workers--
}

// failed counts a worker that failed. It reports whether the run gives up on
// the GPU now, which it does after most failures in a row.
func (s *staff) failed(c *card, err error, most int) (giveUp bool) {
	c.failures++
	s.lastFailure = err.Error()
	if c.givenUp || c.failures < most {
		return false
	}
	c.givenUp = true
	s.avoid = append(s.avoid, c.gpu.ID())
	return true
}

// failures returns how many workers failed in a row, by GPU.
func (s *staff) failures() map[string]int {
	counts := make(map[string]int, len(s.cards))
	for id, c := range s.cards {
		counts[id] = c.failures
	}
	return counts
}

// loading returns how many workers have a place and are not ready yet.
func (s *staff) loading() int {
	n := s.workers
	for _, c := range s.cards {
		n -= c.ready
	}
	return n
}

// fullSpeedWorkers returns how many workers at full speed would do as much as those that
// are ready.
func (s *staff) fullSpeedWorkers() float64 {
	sum := 0.0
	for _, c := range s.cards {
		sum += float64(c.ready) * c.speed / c.pace
	}
	return sum
}

// unreadyLimit is how often each worker of every GPU may fail before any was
// ever ready. After that the command itself is wrong.
const unreadyLimit = 3

// neverReady reports whether no worker was ever ready and every available GPU has used up
// its tries. The run asks for the GPUs with the fewest failures first, so each gets its
// tries; on a GPU that has tries left, a worker may still be loading.
func (s *staff) neverReady() bool {
	for _, c := range s.cards {
		if c.failures < unreadyLimit*c.most {
			return false
		}
	}
	return !s.everReady
}

// mayTry reports whether a suspect may be tried on a GPU. It may not be tried where it
// has failed, as long as there is another GPU to try: the GPU may be the broken part. A
// GPU whose multiplier is 0 takes no records, and nobody waits for it.
func (s *staff) mayTry(g *group, on *card) bool {
	if !slices.Contains(g.tried, on.gpu.ID()) {
		return true
	}
	for _, c := range s.cards {
		if c.workers > 0 && !c.givenUp && c.speed > 0 && !slices.Contains(g.tried, c.gpu.ID()) {
			return false
		}
	}
	return true
}

// model returns the cost of a batch on a GPU, or on all GPUs together if this one is too
// new.
func (s *staff) model(c *card) chunk.Model {
	if m := c.fit.Model(); m.Known {
		return m
	}
	return s.pooled()
}

// pooled returns the cost of a batch on all GPUs taken together.
func (s *staff) pooled() chunk.Model {
	fits := make([]chunk.Fit, 0, len(s.cards))
	for _, c := range s.cards {
		fits = append(fits, c.fit)
	}
	return chunk.Sum(fits...).Model()
}

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

	failures int    // workers that failed in a row without an outcome
	givenUp  bool   // no more workers are started there
	trouble  string // why workers lost their places there, see Grant.Trouble

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
