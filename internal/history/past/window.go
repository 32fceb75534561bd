package past

import (
	"math"

	"github.com/prometheus/prometheus/model/value"
)

// step is the length of a window, in milliseconds.
const step = 30_000

// The endings of the names of the least and the most. The average keeps the name of the
// metric, and so does the last value of a counter.
const (
	leastEnding = ":min"
	mostEnding  = ":max"
)

// windowEnd returns the end of the window of a time. Each window includes its start and
// excludes its end. It is stored at its end.
func windowEnd(t int64) int64 {
	start := t - t%step
	if t < 0 && t%step != 0 {
		start -= step
	}
	return start + step
}

// window condenses the samples of one series in one half-minute: to the average,
// the least and the most of a gauge, and the last value of a counter. The zero
// value is an empty window.
type window struct {
	count       int // of samples that are numbers
	blank       bool
	sum         float64
	least, most float64
	last        float64
	live        bool // the window before had samples
	ended       bool // the series ended after its last sample
}

// Add adds a sample. A stale value means that the series has ended. Any other NaN is not
// a measurement, and is kept only if there is nothing else.
func (w *window) Add(v float64) {
	if value.IsStaleNaN(v) {
		w.ended = true
		return
	}
	w.ended = false
	if math.IsNaN(v) {
		w.blank = true
		return
	}
	if w.count == 0 {
		w.least, w.most = v, v
	}
	w.count++
	w.sum += v
	w.least, w.most, w.last = min(w.least, v), max(w.most, v), v
}

// half is the content of one half-minute.
type half struct {
	Empty   bool // there is nothing to store
	Stale   bool // the series ended before this window began; there are no values
	Average float64
	Least   float64
	Most    float64
	Last    float64
}

// Close returns the content of the window, and begins the next one. The window after the
// last one of an ended series is stale.
func (w *window) Close() half {
	was := *w
	*w = window{live: was.count > 0 || was.blank, ended: was.ended}
	switch {
	case was.count > 0:
		// Rounding must not move the average outside the measured range.
		average := min(max(round(was.sum/float64(was.count)), was.least), was.most)
		return half{Average: average, Least: was.least, Most: was.most, Last: was.last}
	case was.blank:
		nan := math.NaN()
		return half{Average: nan, Least: nan, Most: nan, Last: nan}
	}
	over := was.live && was.ended
	return half{Empty: !over, Stale: over}
}

// keptBits is the number of bits of the fraction of an average that are kept: five
// digits.
const keptBits = 17

// round rounds a fractional number to five digits. The cleared bits halve the space of
// the stored average.
func round(v float64) float64 {
	if v == math.Trunc(v) || math.IsNaN(v) {
		return v
	}
	const drop = 52 - keptBits
	b := math.Float64bits(v)
	return math.Float64frombits((b + 1<<(drop-1)) &^ (1<<drop - 1))
}
