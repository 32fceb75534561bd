package batches

import (
	"math"
	"slices"

	"github.com/berth-gpu/berth/api"
)

// Total is what batches have done on one GPU since the daemon started.
type Total struct {
	GPU     string // UUID
	Records uint64
	Latency api.Latency // how long the batch took that a record was in
}

// Totals lists the GPUs that batches have worked on.
func (k *Keeper) Totals() []Total {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := make([]Total, 0, len(k.totals))
	for _, t := range k.totals {
		one := *t
		one.Latency.Counts = slices.Clone(t.Latency.Counts)
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Total) int {
		if a.GPU < b.GPU {
			return -1
		}
		return 1
	})
	return list
}

// count adds what is new in a report. The lock is held.
func (k *Keeper) count(before, now *api.Batch) {
	for i := range now.GPUs {
		g := &now.GPUs[i]
		if !k.known(g.GPU) {
			continue
		}
		t := k.totals[g.GPU]
		if t == nil {
			t = &Total{GPU: g.GPU}
			k.totals[g.GPU] = t
		}
		var old api.BatchGPU
		if at := slices.IndexFunc(before.GPUs, func(o api.BatchGPU) bool { return o.GPU == g.GPU }); at >= 0 {
			old = before.GPUs[at]
		}
		if g.Done > old.Done { // a count that goes down is not believed
			t.Records += uint64(g.Done - old.Done)
		}
		t.observe(&old.Latency, &g.Latency)
	}
}

// observe adds what is new in a histogram. One that makes no sense, or has
// other buckets than those before it, is passed over.
func (t *Total) observe(before, now *api.Latency) {
	if !sound(now) {
		return
	}
	if t.Latency.Bounds == nil {
		t.Latency.Bounds = slices.Clone(now.Bounds)
		t.Latency.Counts = make([]uint64, len(now.Counts))
	}
	if !slices.Equal(t.Latency.Bounds, now.Bounds) {
		return
	}
	same := slices.Equal(before.Bounds, now.Bounds) && len(before.Counts) == len(now.Counts)
	for i, n := range now.Counts {
		if same {
			n -= min(before.Counts[i], n)
		}
		t.Latency.Counts[i] += n
	}
	sum := now.Sum
	if same {
		sum -= before.Sum
	}
	t.Latency.Sum += max(sum, 0)
}

func sound(l *api.Latency) bool {
	if len(l.Bounds) == 0 || len(l.Counts) != len(l.Bounds)+1 || math.IsNaN(l.Sum) || math.IsInf(l.Sum, 0) {
		return false
	}
	for i, b := range l.Bounds {
		if math.IsNaN(b) || math.IsInf(b, 0) || i > 0 && b <= l.Bounds[i-1] {
			return false
		}
	}
	return true
}
