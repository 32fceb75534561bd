package batch

import (
	"errors"
	"io"

	"github.com/berth-gpu/berth/internal/batch/outcome"
	"github.com/berth-gpu/berth/internal/batch/record"
)

// read fills the pool.
func (r *Run) read() {
	defer r.source.Close()
	for {
		rec, err := r.source.Next()
		if errors.Is(err, io.EOF) {
			r.mu.Lock()
			r.eof = true
			r.total = r.source.Count()
			r.seen = r.total
			r.primed = true
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

// reject gives a record that cannot be handed to a worker its outcome.
func (r *Run) reject(rec record.Record) bool {
	r.mu.Lock()
	if r.stopping {
		r.mu.Unlock()
		return false
	}
	r.noteRead(rec)
	r.inFlight++
	r.mu.Unlock()
	r.deliver([]outcome.Outcome{outcome.Failure(rec.Index, rec.Data, rec.Error)}, 1)
	return true
}

// put adds a record that was read, when there is room for it. It reports
// whether the run still wants records.
func (r *Run) put(rec record.Record) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.poolBytes >= r.opt.Window && !r.stopping {
		r.prime()
		r.room.Wait()
	}
	if r.stopping {
		return false
	}
	r.noteRead(rec)
	r.pool.Put(rec, rec.Weight)
	r.poolBytes += size(&rec)
	r.readCount++
	r.readWeight += rec.Weight
	if r.pool.Len() == 1 {
		r.changed.Broadcast()
	}
	return true
}

// noteRead follows how far the input was read.
func (r *Run) noteRead(rec record.Record) {
	if r.readCount == 0 {
		r.readFrom, _ = r.source.Position()
	}
	r.seen = rec.Index + 1
}

// prime lets workers begin. Before, the pool is filled, so that the longest
// records of the whole window, or of a whole small input, can go first.
func (r *Run) prime() {
	if !r.primed {
		r.primed = true
		r.changed.Broadcast()
	}
}
