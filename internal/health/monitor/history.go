package monitor

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// window is the time that the history of a device covers at least, however often the
// device is sampled. Ten minutes at the shortest interval are 6,000 samples.
const window = 10 * time.Minute

// history keeps the newest samples of a device: at least size of them, and at least those
// of the last window. It is a ring that grows while it is full of samples that it must
// keep.
type history struct {
	size   int
	ring   []gpu.Sample
	oldest int // index of the oldest
	count  int
}

func (h *history) add(s *gpu.Sample) {
	h.shed(s.Time, 1)
	if h.count == len(h.ring) {
		grown := make([]gpu.Sample, max(16, 2*len(h.ring)))
		copy(grown, h.last(time.Time{}, 0))
		h.ring, h.oldest = grown, 0
	}
	h.ring[(h.oldest+h.count)%len(h.ring)] = *s
	h.count++
}

// shed drops the oldest samples that need not be kept, so that size samples remain after
// as many new ones as are about to come.
func (h *history) shed(now time.Time, coming int) {
	for h.count > 1 && h.count+coming > h.size && now.Sub(h.back(h.count-2).Time) >= window {
		h.ring[h.oldest] = gpu.Sample{} // frees its lists
		h.oldest = (h.oldest + 1) % len(h.ring)
		h.count--
	}
}

// back returns the sample n before the newest.
func (h *history) back(n int) *gpu.Sample {
	return &h.ring[(h.oldest+h.count-1-n)%len(h.ring)]
}

// newest returns the newest sample, or nil before the first.
func (h *history) newest() *gpu.Sample {
	if h.count == 0 {
		return nil
	}
	return h.back(0)
}

// last copies the newest samples that are not older than since, oldest first.
// It copies at most limit of them, unless limit is 0.
func (h *history) last(since time.Time, limit int) []gpu.Sample {
	most := h.count
	if limit > 0 {
		most = min(most, limit)
	}
	n := 0
	for n < most && !h.back(n).Time.Before(since) {
		n++
	}
	found := make([]gpu.Sample, 0, n)
	for n--; n >= 0; n-- {
		found = append(found, *h.back(n))
	}
	return found
}

// resize changes the size. It drops samples that need not be kept any more at once.
func (h *history) resize(size int) {
	h.size = size
	if s := h.newest(); s != nil {
		h.shed(s.Time, 0)
	}
}
