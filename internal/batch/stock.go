package batch

import (
	"slices"

	"github.com/berth-gpu/berth/internal/batch/chunk"
	"github.com/berth-gpu/berth/internal/batch/record"
)

// stock holds the records that were read and have no outcome yet. The run's
// lock guards it.
type stock struct {
	limits   chunk.Limits
	learning bool // whether the run learns what a weight means, because the user did not say

	pool     chunk.Pool[record.Record]
	bytes    int  // bytes of the records in the pool
	primed   bool // whether workers may take from the pool
	suspects []*group
	pending  int            // records in suspects
	inFlight int            // records with workers, or on their way to the sink
	lastID   int64          // id of the last group
	good     *record.Record // a record that succeeded; nil if none has yet
}

func newStock(o Options) stock {
	return stock{
		// Without a cost, a trend in the input, which may be sorted, looks like an
		// expensive call.
		limits:   chunk.Limits{Min: o.MinBatch, Max: o.Batch, Seconds: o.BatchTime.Seconds(), Singly: o.Input.Cost.By == record.ByNothing},
		learning: o.Input.Cost.By == record.BySize,
	}
}

// put adds a record to the pool.
func (s *stock) put(rec record.Record) {
	s.pool.Put(rec, rec.Weight)
	s.bytes += size(&rec)
}

// take takes a group from the pool: one record, or several with at most most bytes
// together.
func (s *stock) take(model chunk.Model, budget chunk.Budget, most int) *group {
	bytes := 0
	records, weight := s.pool.Take(model.Falling && s.learning, func(count int, rec record.Record, weight float64) bool {
		bytes += len(rec.Data)
		return count == 1 || bytes <= most && budget.Room(model, count, weight)
	})
	for i := range records {
		s.bytes -= size(&records[i])
	}
	return s.numbered(&group{records: records, weight: weight})
}

// suspect keeps groups to be tried by themselves.
func (s *stock) suspect(groups ...*group) {
	for _, g := range groups {
		s.suspects = append(s.suspects, g)
		s.pending += len(g.records)
	}
}

// takeSuspect takes the first suspect that may be tried, or returns nil.
func (s *stock) takeSuspect(mayTry func(*group) bool) *group {
	at := slices.IndexFunc(s.suspects, mayTry)
	if at < 0 {
		return nil
	}
	g := s.suspects[at]
	s.suspects = slices.Delete(s.suspects, at, at+1)
	s.pending -= len(g.records)
	return s.numbered(g)
}

// numbered gives a group the next id.
func (s *stock) numbered(g *group) *group {
	s.lastID++
	g.id = s.lastID
	return g
}

// waiting returns how many records a worker could take.
func (s *stock) waiting() int { return s.pool.Len() + s.pending }

// isEmpty reports whether every record that was read has an outcome.
func (s *stock) isEmpty() bool { return s.waiting() == 0 && s.inFlight == 0 }
