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
	r.wakeSupervisor()
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

// intake counts how much of the input was read. The run's lock guards it.
type intake struct {
	expect int64 // records of the input according to the caller; 0 if unknown
	eof    bool
	total  int64 // records of the input, once eof
	seen   int64 // records of the input that were read or skipped
	from   int64 // bytes of the input before the first wanted record
	count  int64 // wanted records, and their weight
	weight float64
}

// saw counts a record that was read.
func (i *intake) saw(rec record.Record, source *record.Source) {
	if i.count == 0 {
		i.from, _ = source.Position()
	}
	i.seen = rec.Index + 1
}

// end notes that there are no more records.
func (i *intake) end(total int64) { i.eof, i.total, i.seen = true, total, total }

// rest returns how much of the input is not read yet, as a multiple of what was read. It
// returns 0 if nothing is left or the amount is unknown.
func (i *intake) rest(source *record.Source) float64 {
	read, total := source.Position()
	if !i.eof && i.count > 0 && total == 0 && i.expect > i.seen {
		return float64(i.expect-i.seen) / float64(i.count)
	}
	if i.eof || i.count == 0 || read <= i.from || total <= read {
		return 0
	}
	return float64(total-read) / float64(read-i.from)
}

// records returns the number of records in the input. The number is exact at the end of
// the input; before, it is an estimate from how much was read, or what the caller
// expects.
func (i *intake) records(source *record.Source) (n int64, known bool) {
	if i.eof {
		return i.total, true
	}
	if read, total := source.Position(); read > 0 && total > 0 && i.seen > 0 {
		return int64(float64(i.seen) * max(1, float64(total)/float64(read))), true
	}
	if i.expect > 0 {
		return max(i.expect, i.seen), true
	}
	return 0, false
}
