package batch

import (
	"slices"

	"github.com/berth-gpu/berth/api"
)

// Histogram counts records by the duration of their batch.
type Histogram struct {
	Bounds []float64 `json:"bounds" doc:"Upper ends of the buckets, in seconds."`
	Counts []uint64  `json:"counts" doc:"One more than bounds: the last bucket has no end."`
	Sum    float64   `json:"sum_seconds"`
}

func newHistogram() Histogram {
	bounds := api.LatencyBounds()
	return Histogram{Bounds: bounds, Counts: make([]uint64, len(bounds)+1)}
}

// observe counts n records whose batch took this many seconds.
func (h *Histogram) observe(seconds float64, n int) {
	at, _ := slices.BinarySearch(h.Bounds, seconds)
	h.Counts[at] += uint64(n)
	h.Sum += seconds * float64(n)
}

func (h Histogram) clone() Histogram {
	h.Counts = slices.Clone(h.Counts)
	return h
}
