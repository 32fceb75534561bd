package monitor

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// history keeps the newest samples of a device. It grows until it has size
// samples; from then on each new one takes the place of the oldest.
type history struct {
	size    int
	samples []gpu.Sample
	oldest  int // where the oldest is; 0 while it grows
}

func (h *history) add(s *gpu.Sample) {
	if len(h.samples) < h.size {
		h.samples = append(h.samples, *s)
		return
	}
	h.samples[h.oldest] = *s
	h.oldest = (h.oldest + 1) % h.size
}

// back returns the sample n before the newest.
func (h *history) back(n int) *gpu.Sample {
	return &h.samples[(h.oldest+len(h.samples)-1-n)%len(h.samples)]
}

// newest returns the newest sample, or nil before the first.
func (h *history) newest() *gpu.Sample {
	if len(h.samples) == 0 {
		return nil
	}
	return h.back(0)
}

// last copies the newest samples that are not older than since, oldest first.
// It copies at most limit of them, unless limit is 0.
func (h *history) last(since time.Time, limit int) []gpu.Sample {
	most := len(h.samples)
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

// resize changes the size, and keeps the newest samples.
func (h *history) resize(size int) {
	if size != h.size {
		*h = history{size: size, samples: h.last(time.Time{}, size)}
	}
}
