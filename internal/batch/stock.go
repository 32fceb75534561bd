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
	bytes    int  // bytes of the records that wait
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
		s.bytes += g.size()
	}
}

// takeSuspect takes the first suspect that may be tried, or returns nil. If the suspect
// has more than most records, it takes that many of them; 0 means no limit.
func (s *stock) takeSuspect(mayTry func(*group) bool, most int) *group {
	at := slices.IndexFunc(s.suspects, mayTry)
	if at < 0 {
		return nil
	}
	g := s.suspects[at]
	if most > 0 && len(g.records) > most {
		var rest *group
		g, rest = g.cut(most)
		s.suspects[at] = rest
	} else {
		s.suspects = slices.Delete(s.suspects, at, at+1)
	}
	s.pending -= len(g.records)
	s.bytes -= g.size()
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

// group is a set of records that one worker has, or that wait as suspects to be tried by
// themselves.
type group struct {
	id       int64
	records  []record.Record
	weight   float64
	bytes    int      // of the message that handed it over
	suspect  bool     // part of a batch that failed, not to be mixed with others
	failures int      // failures of a single record
	tried    []string // IDs of the GPUs where it failed
	probe    bool     // the record has an outcome already, and only tests the worker
}

// size returns the memory that the records take.
func (g *group) size() int {
	sum := 0
	for i := range g.records {
		sum += size(&g.records[i])
	}
	return sum
}

// parts cuts a group that failed on a GPU into smaller ones. A batch that was too large
// for the memory of a GPU says nothing against that GPU: its parts may be tried there.
func (g *group) parts(cause chunk.Cause, gpu string) []*group {
	var out []*group
	from := 0
	for _, end := range chunk.Parts(cause, len(g.records)) {
		part := g.part(from, end)
		if cause != chunk.OutOfMemory {
			part.triedOn(gpu)
		}
		out = append(out, part)
		from = end
	}
	return out
}

// cut returns the first n records of a group, and the rest.
func (g *group) cut(n int) (first, rest *group) {
	return g.part(0, n), g.part(n, len(g.records))
}

// part returns some of the records of a group, to be tried by themselves.
func (g *group) part(from, end int) *group {
	part := &group{records: g.records[from:end:end], suspect: true, tried: slices.Clone(g.tried)}
	for i := range part.records {
		part.weight += part.records[i].Weight
	}
	return part
}

func (g *group) triedOn(gpu string) {
	if !slices.Contains(g.tried, gpu) {
		g.tried = append(g.tried, gpu)
	}
}

// overhead is the memory that a record takes in addition to its bytes.
const overhead = 128

func size(r *record.Record) int { return len(r.Data) + overhead }

// Records that break workers and GPUs that break workers look alike. If several
// workers in a row failed on a GPU, the next one first gets a record that
// succeeded before. If the worker fails on that one too, the GPU is at fault,
// and no record is blamed.

const (
	probeAfter = 2        // failures in a row on a GPU
	probeBytes = 64 << 10 // a record for probes that is larger gives way to a smaller one
)

// probe returns a group with a record that succeeded before, if this worker has to answer
// it first. It returns nil otherwise.
func (w *worker) probe() *group {
	r := w.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.batches > 0 || len(w.flight) > 0 || w.card.failures < probeAfter || r.stock.good == nil {
		return nil
	}
	return r.stock.numbered(&group{records: []record.Record{*r.stock.good}, probe: true})
}

// probeAnswered counts an answer to a probe. Whatever the answer says, the
// worker and its GPU work.
func (w *worker) probeAnswered() {
	w.run.mu.Lock()
	defer w.run.mu.Unlock()
	w.batches++
	w.card.failures = 0
}

// keepGood keeps the first record that succeeded and is not large, for probes, and a large
// one until then.
func (s *stock) keepGood(rec *record.Record) {
	if s.good == nil || len(s.good.Data) > probeBytes && len(rec.Data) < len(s.good.Data) {
		s.good = rec
	}
}
