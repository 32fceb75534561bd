package past

import (
	"maps"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/berth-gpu/berth/internal/history/series"
)

// stored is a series as one of the stores knows it.
type stored struct {
	labels labels.Labels
	ref    storage.SeriesRef // 0 if not known yet
}

// catalog keeps the series that come again and again, so that a sample costs only a table
// lookup. The zero value is empty.
type catalog struct {
	table map[string]*known // by their labels
	key   []byte
}

// known is a series and its current half-minute.
type known struct {
	whole  stored // with every sample
	last   bool   // its half-minutes are the last values
	half   stored // the average, or the last value
	least  stored
	most   stored
	window window
	late   []lateWindow // of samples that came late, before the current half-minute
	seen   int64
}

// lateWindows is how many half-minutes before the one that is being collected may get
// samples. A daemon that comes after one that was killed stores what it missed, and goes on
// with the half-minute of the kill.
const lateWindows = 10

// lateWindow is a half-minute that had ended when its samples came.
type lateWindow struct {
	end    int64
	window window
}

// mostSeries is the most series at a time. A machine with sixteen devices and all the
// leases that have series has a third of it.
const mostSeries = 10_000

// find returns the series of a sample, or nil if there are too many.
func (c *catalog) find(s *series.Sample, now int64) *known {
	c.key = s.Labels.Bytes(c.key)
	k := c.table[string(c.key)]
	if k == nil {
		if len(c.table) >= mostSeries {
			return nil
		}
		if c.table == nil {
			c.table = map[string]*known{}
		}
		k = newKnown(s)
		c.table[string(c.key)] = k
	}
	k.seen = now
	return k
}

func newKnown(s *series.Sample) *known {
	k := &known{whole: stored{labels: s.Labels}, half: stored{labels: s.Labels}, last: s.Kind == series.Counter || s.Kind == series.Histogram}
	if !k.last {
		named := func(ending string) labels.Labels {
			return labels.NewBuilder(s.Labels).Set(labels.MetricName, s.Labels.Get(labels.MetricName)+ending).Labels()
		}
		k.least.labels, k.most.labels = named(leastEnding), named(mostEnding)
	}
	return k
}

// forget drops the references of all series, because the stores have been opened anew.
func (c *catalog) forget() {
	for _, k := range c.table {
		k.whole.ref, k.half.ref, k.least.ref, k.most.ref = 0, 0, 0, 0
	}
}

// expire removes the series without samples since a time, and those that a clock ahead of
// now left behind.
func (c *catalog) expire(since, now int64) {
	maps.DeleteFunc(c.table, func(_ string, k *known) bool { return k.seen < since || k.seen > now })
}
