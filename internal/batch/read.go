package batch

import (
	"errors"
	"io"

	"github.com/berth-gpu/berth/internal/batch/outcome"
	"github.com/berth-gpu/berth/internal/batch/record"
)

// read fills the pool with records of the input.
func (r *Run) read() {
	defer r.source.Close()
	for {
		rec, err := r.source.Next()
		if errors.Is(err, io.EOF) {
			r.mu.Lock()
			r.input.end(r.source.Count())
			r.stock.primed = true
			r.mu.Unlock()
			r.changed.Broadcast()
			return
		}
		if err != nil {
			r.fail(err)
			return
		}
		if rec.Error != "" {
			if !r.reject(rec) {
				return
			}
		} else if !r.put(rec) {
			return
		}
	}
}

// reject gives an outcome to a record that no worker can take. It reports whether the run
// still wants records.
func (r *Run) reject(rec record.Record) bool {
	r.mu.Lock()
	if r.stopping {
		r.mu.Unlock()
		return false
	}
	r.input.saw(rec, r.source)
	r.stock.inFlight++
	r.mu.Unlock()
	r.deliver([]outcome.Outcome{outcome.Failure(rec.Index, rec.Data, rec.Error)}, 1)
	return true
}

// put waits for room and adds a record to the pool. It reports whether the run
// still wants records.
func (r *Run) put(rec record.Record) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.stock.bytes >= r.opt.Window && !r.stopping {
		r.prime()
		r.room.Wait()
	}
	if r.stopping {
		return false
	}
	r.input.saw(rec, r.source)
	r.input.count++
	r.input.weight += rec.Weight
	r.stock.put(rec)
	if r.stock.pool.Len() == 1 {
		r.changed.Broadcast()
	}
	return true
}

// prime lets workers begin. Until then the pool fills up, so that the longest
// records of the whole window, or of a whole small input, go first.
func (r *Run) prime() {
	if !r.stock.primed {
		r.stock.primed = true
		r.changed.Broadcast()
	}
}
