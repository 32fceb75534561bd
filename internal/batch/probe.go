package batch

import "github.com/berth-gpu/berth/internal/batch/record"

// Records that break workers and GPUs that break workers look alike. If several
// workers in a row failed on a GPU, the next one first gets a record that
// succeeded before. If the worker fails on that one too, the GPU is at fault,
// and no record is blamed.

const (
	canaryAfter = 2        // failures in a row on a GPU
	canaryBytes = 64 << 10 // at most, of the record that is kept for this
)

// canary returns the record that succeeded before, if this worker must prove
// itself on it.
func (w *worker) canary() *group {
	r := w.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.batches > 0 || len(w.flight) > 0 || w.card.failures < canaryAfter || r.stock.good == nil {
		return nil
	}
	return r.stock.numbered(&group{records: []record.Record{*r.stock.good}, canary: true})
}

// sang notes that the worker has proved itself: it is alive, whatever it
// answered.
func (w *worker) sang() {
	w.run.mu.Lock()
	defer w.run.mu.Unlock()
	w.batches++
	w.card.failures = 0
}

// keepGood keeps the first record that succeeded.
func (s *stock) keepGood(rec *record.Record) {
	if s.good == nil && len(rec.Data) <= canaryBytes {
		s.good = rec
	}
}
