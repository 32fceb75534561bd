package past

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Every series has derived ones under the endings below, which the store works out while
// it reads. Each of their samples is an amount, and belongs to the time since the sample
// before it. So the amounts between two times add up to what there was, whatever the
// distances between the samples and between the points of the question: they are
// questions for sum_over_time. A series that is stored under such a name comes first.
// Derived series have no derived ones: a name with a thousand endings would read each
// sample a thousand times.
const (
	// secondsEnding is for how long there were measurements: the time since the sample
	// before, or nothing if that is long ago, because berth did not run meanwhile.
	secondsEnding = ":seconds"
	// areaEnding is the value times these seconds.
	areaEnding = ":area"
	// grownEnding is by how much a counter grew. One that falls has begun again at 0.
	grownEnding = ":grown"
	// risenEnding is by how much a sum grew that the daemon keeps over restarts. A daemon
	// that was killed has lost the newest part of it, and may count that again: only what
	// is above the highest value so far counts. A sum that falls to less than a tenth was
	// lost, and has begun again at 0.
	risenEnding = ":risen"
)

// lookBefore is how much earlier than asked for derived series are read at least, for the
// sample before the first one. Nothing is known of a series that has none.
const lookBefore = 15 * time.Minute

// derivation works out the amount of a sample from that before it.
type derivation func(s *derived, t int64, v float64) float64

var derivations = map[string]derivation{
	secondsEnding: func(s *derived, t int64, _ float64) float64 { return s.since(t) },
	areaEnding:    func(s *derived, t int64, v float64) float64 { return v * s.since(t) },
	grownEnding: func(s *derived, _ int64, v float64) float64 {
		switch {
		case math.IsNaN(s.last):
			return 0
		case v < s.last:
			return v
		}
		return v - s.last
	},
	risenEnding: func(s *derived, _ int64, v float64) float64 {
		before := s.most
		switch {
		case math.IsNaN(before):
			s.most = v
			return 0
		case v < before/10:
			s.most = v
			return v
		}
		s.most = max(v, before)
		return s.most - before
	},
}

// derivedOf returns the name of the series that a name is derived from, and how; nil if
// the name is not that of a derived series.
func derivedOf(name string) (string, derivation) {
	for ending, how := range derivations {
		if base, is := strings.CutSuffix(name, ending); is && base != "" {
			return base, how
		}
	}
	return name, nil
}

// stored reports whether there are series of this very name, such as those of a recording
// rule.
func (q *querier) stored(ctx context.Context, name *labels.Matcher, hints *storage.SelectHints) bool {
	return slices.ContainsFunc(q.samples, func(one piece) bool {
		return one.Select(ctx, false, one.within(hints), name).Next()
	})
}

// derive returns the derived series that have a name and match.
func (q *querier) derive(ctx context.Context, name, base string, how derivation, hints *storage.SelectHints, matchers []*labels.Matcher) storage.SeriesSet {
	earlier := *hints
	earlier.Start -= q.before
	own := make([]*labels.Matcher, len(matchers))
	for i, m := range matchers {
		own[i] = m
		if m.Name == labels.MetricName && m.Type == labels.MatchEqual {
			own[i] = labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, base)
		}
	}
	every := q.p.limits.Load().Every.Milliseconds()
	return &derivedSet{q.find(ctx, &earlier, own), func(s storage.Series) storage.Series {
		return &storage.SeriesEntry{
			Lset: labels.NewBuilder(s.Labels()).Set(labels.MetricName, name).Labels(),
			SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator {
				return &derived{Iterator: s.Iterator(nil), how: how, from: hints.Start, gap: step*3/2 + every, last: math.NaN(), most: math.NaN()}
			},
		}
	}}
}

// derivedSet returns the series that are derived from those of another set.
type derivedSet struct {
	storage.SeriesSet
	of func(storage.Series) storage.Series
}

// At returns the series.
func (s *derivedSet) At() storage.Series { return s.of(s.SeriesSet.At()) }

// derived reads a derived series.
type derived struct {
	chunkenc.Iterator // of the series that it is derived from
	how               derivation
	from              int64 // earlier samples only say what was before
	gap               int64 // samples further apart leave a gap, in milliseconds

	before int64   // time of the sample before, if there is one
	last   float64 // its value, or NaN if there is none
	most   float64 // the highest value so far
	there  bool    // the series had not ended before this sample

	t     int64
	v     float64
	found chunkenc.ValueType
}

// since returns the seconds since the sample before; 0 if there is none or a gap.
func (s *derived) since(t int64) float64 {
	if !s.there || t-s.before > s.gap {
		return 0
	}
	return float64(t-s.before) / 1000
}

// Next moves to the next sample.
func (s *derived) Next() chunkenc.ValueType {
	for {
		s.found = s.Iterator.Next()
		if s.found != chunkenc.ValFloat {
			return s.found
		}
		t, v := s.Iterator.At()
		switch {
		case value.IsStaleNaN(v):
			s.there = false
			s.t, s.v = t, v
		case math.IsNaN(v): // not a measurement
			s.there = false
			continue
		default:
			s.t, s.v = t, s.how(s, t, v)
			s.before, s.last, s.there = t, v, true
		}
		if t >= s.from {
			return s.found
		}
	}
}

// Seek moves to the first sample at or after a time, and does not move back. It reads
// every sample: each depends on that before it.
func (s *derived) Seek(t milliseconds) chunkenc.ValueType {
	for s.found == chunkenc.ValNone && s.before == 0 || s.found == chunkenc.ValFloat && s.t < t {
		if s.Next() == chunkenc.ValNone {
			break
		}
	}
	return s.found
}

// At returns the sample.
func (s *derived) At() (int64, float64) { return s.t, s.v }

// AtT returns the time of the sample.
func (s *derived) AtT() int64 { return s.t }
