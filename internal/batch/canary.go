package batch

import "github.com/berth-gpu/berth/internal/batch/record"

// Records that break workers and GPUs that break workers look alike. Where
// several workers in a row have failed on a GPU, the next one first gets a
// record that has gone well before: if it breaks on that one too, it is the
// GPU, and no record is blamed.

const (
	canaryAfter = 2        // failures in a row on a GPU
	canaryBytes = 64 << 10 // of a record that is kept for this
)

// canary is the record that has gone well, if this worker should prove itself.
func (w *worker) canary() *group {
	r := w.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.batches > 0 || len(w.flight) > 0 || w.card.failures < canaryAfter || r.stock.good == nil {
		return nil
	}
	return r.stock.numbered(&group{records: []record.Record{*r.stock.good}, canary: true})
}

// sang is a worker that has proved itself: it lives, whatever it answered.
func (w *worker) sang() {
	w.run.mu.Lock()
	defer w.run.mu.Unlock()
	w.batches++
	w.card.failures = 0
}

// keepGood remembers the first record that went well.
func (s *stock) keepGood(rec *record.Record) {
	if s.good == nil && len(rec.Data) <= canaryBytes {
		s.good = rec
	}
}
