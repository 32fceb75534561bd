package runs

import (
	"math"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/lease"
)

// Total holds what batches have done on one GPU since the daemon started.
type Total struct {
	GPU     string // UUID
	Records uint64
	Latency api.Latency // durations of the batches that records were in
}

// Totals returns the totals of the GPUs that batches have worked on.
func (r *Runs) Totals() []Total {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]Total, 0, len(r.totals))
	for _, t := range r.totals {
		one := *t
		one.Latency.Counts = slices.Clone(t.Latency.Counts)
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Total) int { return strings.Compare(a.GPU, b.GPU) })
	return list
}

// count adds what is new in a report, on GPUs on which its user holds a lease.
// The caller holds the lock.
func (r *Runs) count(owner lease.Owner, before, now *api.Batch, held map[string]bool) {
	for i := range now.GPUs {
		g := &now.GPUs[i]
		may := r.standing(owner, g.GPU, held[g.GPU], now.Reported)
		if may == nil {
			continue
		}
		var old api.BatchGPU
		if at := slices.IndexFunc(before.GPUs, func(o api.BatchGPU) bool { return o.GPU == g.GPU }); at >= 0 {
			old = before.GPUs[at]
		}
		t := r.totals[g.GPU]
		if t == nil {
			t = &Total{GPU: g.GPU}
			r.totals[g.GPU] = t
		}
		done, was := max(g.Done, 0), max(old.Done, 0)
		added := may.take(uint64(max(done-was, 0))) // a count that goes down is ignored
		t.Records = add(t.Records, added)
		t.observe(&old.Latency, &g.Latency, added)
	}
}

// longest is the longest valid time of a record, in seconds: a day.
const longest = 24 * 60 * 60

// observe adds what is new in a histogram, for at most this many records. It
// keeps the sum within what the counts allow: a record in a bucket took at
// least the lower end of the bucket, and at most the upper end.
func (t *Total) observe(before, now *api.Latency, records uint64) {
	if !sound(now) {
		return
	}
	if t.Latency.Bounds == nil {
		t.Latency.Bounds = api.LatencyBounds()
		t.Latency.Counts = make([]uint64, len(now.Counts))
	}
	again := sound(before)
	var least, most, lower float64
	for i, n := range now.Counts {
		if again {
			n -= min(before.Counts[i], n)
		}
		n = min(n, records)
		records -= n
		t.Latency.Counts[i] = add(t.Latency.Counts[i], n)
		upper := float64(longest)
		if i < len(now.Bounds) {
			upper = now.Bounds[i]
		}
		least += float64(n) * lower
		most += float64(n) * upper
		lower = upper
	}
	sum := now.Sum
	if again {
		sum -= before.Sum
	}
	t.Latency.Sum += min(max(sum, least), most)
}

// add returns a+b, or the largest number if that overflows.
func add(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

// sound reports whether a histogram has the buckets that all runners use, and a sum that
// is a number.
func sound(l *api.Latency) bool {
	return slices.Equal(l.Bounds, api.LatencyBounds()) && len(l.Counts) == len(l.Bounds)+1 &&
		!math.IsNaN(l.Sum) && !math.IsInf(l.Sum, 0)
}
