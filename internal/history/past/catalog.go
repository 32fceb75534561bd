package past

import (
	"hash/maphash"
	"iter"
	"slices"

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
	seed  maphash.Seed
	table map[uint64][]*known
	count int
}

// known is a series and its current half-minute.
type known struct {
	own    series.Labels
	whole  stored // with every sample
	last   bool   // its half-minutes are the last values
	half   stored // the average, or the last value
	least  stored
	most   stored
	window window
	seen   int64
}

// mostSeries is the most series at a time. A machine with sixteen devices and all the
// leases that have series has a third of it.
const mostSeries = 10_000

// find returns the series of a sample, or nil if there are too many.
func (c *catalog) find(s *series.Sample, now int64) *known {
	if c.table == nil {
		c.seed, c.table = maphash.MakeSeed(), map[uint64][]*known{}
	}
	sum := c.hash(s.Labels)
	for _, k := range c.table[sum] {
		if slices.Equal(k.own, s.Labels) {
			k.seen = now
			return k
		}
	}
	if c.count >= mostSeries {
		return nil
	}
	c.count++
	k := newKnown(s)
	k.seen = now
	c.table[sum] = append(c.table[sum], k)
	return k
}

func (c *catalog) hash(l series.Labels) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	for i := range l {
		h.WriteString(l[i].Name)
		h.WriteByte(0)
		h.WriteString(l[i].Value)
		h.WriteByte(0)
	}
	return h.Sum64()
}

func newKnown(s *series.Sample) *known {
	k := &known{own: s.Labels, last: s.Kind == series.Counter || s.Kind == series.Histogram}
	k.whole.labels = vendor(s.Labels, "")
	k.half.labels = k.whole.labels
	if !k.last {
		k.least.labels, k.most.labels = vendor(s.Labels, leastEnding), vendor(s.Labels, mostEnding)
	}
	return k
}

// vendor returns labels in the form of the storage, with an ending added to the name.
func vendor(l series.Labels, ending string) labels.Labels {
	list := make([]labels.Label, 0, len(l))
	for _, each := range l {
		if each.Name == series.Name {
			each.Value += ending
		}
		if each.Value != "" { // an empty label counts as absent
			list = append(list, labels.Label{Name: each.Name, Value: each.Value})
		}
	}
	return labels.New(list...)
}

// all yields every series.
func (c *catalog) all() iter.Seq[*known] {
	return func(yield func(*known) bool) {
		for _, list := range c.table {
			for _, k := range list {
				if !yield(k) {
					return
				}
			}
		}
	}
}

// forget drops the references of all series, because the stores have been opened anew.
func (c *catalog) forget() {
	for k := range c.all() {
		k.whole.ref, k.half.ref, k.least.ref, k.most.ref = 0, 0, 0, 0
	}
}

// expire removes the series without samples since a time, and those that a clock ahead of
// now left behind.
func (c *catalog) expire(since, now int64) {
	for sum, list := range c.table {
		before := len(list)
		list = slices.DeleteFunc(list, func(k *known) bool { return k.seen < since || k.seen > now })
		c.count -= before - len(list)
		if len(list) == 0 {
			delete(c.table, sum)
		} else {
			c.table[sum] = list
		}
	}
}
