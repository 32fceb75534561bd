package past

import (
	"cmp"
	"slices"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// piece reads one piece of time. The pieces of a query follow one another and do not
// overlap. Therefore only one piece of a series is read at a time: the storage's own way
// to chain series seeks in all of them at every point of a graph.
type piece struct {
	storage.Querier
	from, to int64 // both included
}

// within returns the hints for the piece: the storage reads as far as they say, also
// beyond the piece.
func (p *piece) within(hints *storage.SelectHints) *storage.SelectHints {
	own := *hints
	own.Start, own.End = max(own.Start, p.from), min(own.End, p.to)
	return &own
}

// pieceSet returns the series of one piece.
type pieceSet struct {
	storage.SeriesSet
	to      int64
	current *pieceSeries
}

// Next moves to the next series.
func (s *pieceSet) Next() bool {
	if !s.SeriesSet.Next() {
		return false
	}
	s.current = &pieceSeries{s.SeriesSet.At(), s.to}
	return true
}

// At returns the series.
func (s *pieceSet) At() storage.Series { return s.current }

// pieceSeries is a series in one piece.
type pieceSeries struct {
	storage.Series
	to int64
}

// join returns the pieces of a series as one series.
func join(list ...storage.Series) storage.Series {
	pieces := make([]*pieceSeries, len(list))
	for i, s := range list {
		pieces[i] = s.(*pieceSeries)
	}
	slices.SortFunc(pieces, func(a, b *pieceSeries) int { return cmp.Compare(a.to, b.to) })
	return &storage.SeriesEntry{
		Lset: pieces[0].Labels(),
		SampleIteratorFn: func(it chunkenc.Iterator) chunkenc.Iterator {
			j, is := it.(*joined)
			if !is {
				j = &joined{}
			}
			j.rest = pieces
			j.enter()
			return j
		},
	}
}

// milliseconds is a time. It has a name because go vet takes a method Seek(int64) for that
// of an io.Seeker.
type milliseconds = int64

// joined reads the pieces of a series one after the other. It keeps the current sample,
// because a query engine asks for it several times.
type joined struct {
	chunkenc.Iterator // of the current piece
	to                int64
	rest              []*pieceSeries
	t                 int64
	v                 float64
}

// enter moves to the next piece.
func (j *joined) enter() {
	j.Iterator, j.to = j.rest[0].Series.Iterator(j.Iterator), j.rest[0].to
	j.rest = j.rest[1:]
}

// Next moves to the next sample.
func (j *joined) Next() chunkenc.ValueType {
	kind := j.Iterator.Next()
	if kind == chunkenc.ValFloat {
		j.t, j.v = j.Iterator.At()
		return kind
	}
	return j.found(kind)
}

// Seek moves to the first sample at or after a time, and does not move back.
func (j *joined) Seek(t milliseconds) chunkenc.ValueType {
	for t > j.to && len(j.rest) > 0 {
		j.enter()
	}
	return j.found(j.Iterator.Seek(t)) // all that the next pieces hold is later than t
}

// found keeps the sample that the current piece has found. If it has found none, found
// moves to the first sample of the next pieces.
func (j *joined) found(kind chunkenc.ValueType) chunkenc.ValueType {
	for kind == chunkenc.ValNone && len(j.rest) > 0 && j.Iterator.Err() == nil {
		j.enter()
		kind = j.Iterator.Next()
	}
	switch kind {
	case chunkenc.ValNone:
	case chunkenc.ValFloat:
		j.t, j.v = j.Iterator.At()
	default:
		j.t = j.Iterator.AtT()
	}
	return kind
}

// At returns the sample.
func (j *joined) At() (int64, float64) { return j.t, j.v }

// AtT returns the time of the sample.
func (j *joined) AtT() int64 { return j.t }

// AtST returns 0: the stores keep no start times.
func (j *joined) AtST() int64 { return 0 }
