package batch

import "github.com/berth-gpu/berth/internal/batch/record"

// Records that break workers and GPUs that break workers look alike. If several
// workers in a row failed on a GPU, the next one first gets a record that
// succeeded before. If the worker fails on that one too, the GPU is at fault,
// and no record is blamed.

const (
	probeAfter = 2        // failures in a row on a GPU
	probeBytes = 64 << 10 // the largest record that a probe may have
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

// keepGood keeps the first record that succeeded, for probes.
func (s *stock) keepGood(rec *record.Record) {
	if s.good == nil && len(rec.Data) <= probeBytes {
		s.good = rec
	}
}
