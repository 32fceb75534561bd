package batch

import (
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/batch/chunk"
	"github.com/berth-gpu/berth/internal/batch/record"
)

// take is the next group for a worker; nil: it gets none. With wait, it waits
// until there is one or the worker is not needed any more.
func (r *Run) take(w *worker, wait bool) *group {
	r.mu.Lock()
	defer r.mu.Unlock()
	var idle *time.Timer
	for {
		if w.leaving || r.stopping {
			return nil
		}
		if g := r.next(w); g != nil {
			r.inFlight += len(g.records)
			return g
		}
		if !wait || r.finished() {
			return nil
		}
		if idle == nil && r.eof {
			idle = time.AfterFunc(r.opt.IdleGrace, w.leave)
			defer idle.Stop()
		}
		r.idle++
		r.changed.Wait()
		r.idle--
	}
}

// next chooses a group: suspects first, because what they hold has waited
// longest, then what the pool gives.
func (r *Run) next(w *worker) *group {
	// While nothing has gone well yet, what has not failed is tried first: it
	// may not be the records that are wrong.
	if r.good != nil || r.pool.Len() == 0 {
		if g := r.nextSuspect(w); g != nil {
			return g
		}
	}
	if !r.primed || r.pool.Len() == 0 {
		return nil
	}
	model := r.model(w.card)
	budget := chunk.Plan(r.limits, model, r.situation(w))
	budget.Seconds /= w.card.pace
	bytes := 0
	records, weight := r.pool.Take(model.Falling && r.learning, func(count int, rec record.Record, weight float64) bool {
		bytes += len(rec.Data)
		return count == 1 || bytes <= r.opt.BatchBytes && budget.Room(model, count, weight)
	})
	for i := range records {
		r.poolBytes -= size(&records[i])
	}
	r.room.Signal()
	return r.numbered(&group{records: records, weight: weight})
}

func (r *Run) nextSuspect(w *worker) *group {
	for i, g := range r.suspects {
		if r.mayTry(g, w.card) {
			r.suspects = slices.Delete(r.suspects, i, i+1)
			r.pending -= len(g.records)
			return r.numbered(g)
		}
	}
	return nil
}

func (r *Run) numbered(g *group) *group {
	r.lastID++
	g.id = r.lastID
	return g
}

// mayTry keeps a suspect away from a GPU where it has failed, as long as there
// is another one to try it on: it may be the GPU that is broken.
func (r *Run) mayTry(g *group, on *card) bool {
	if !slices.Contains(g.tried, on.gpu.UUID) {
		return true
	}
	for _, c := range r.cards {
		if c.workers > 0 && !c.givenUp && !slices.Contains(g.tried, c.gpu.UUID) {
			return false
		}
	}
	return true
}

func (r *Run) situation(w *worker) chunk.Situation {
	return chunk.Situation{
		Workers: r.workers, Pending: r.pool.Len(), Weight: r.pool.Weight(), Seconds: r.secondsLeft(),
		Ending: r.eof, Largest: w.card.largest, Cap: w.cap.Records(), Speed: w.card.speed,
	}
}

// secondsLeft is what everything that waits, and what is not read yet, would
// take on one worker. 0: not known.
func (r *Run) secondsLeft() float64 {
	m := r.pooled()
	if !m.Known {
		return 0
	}
	seconds := m.Total(r.pool.Len(), r.pool.Weight())
	if read, total := r.source.Position(); !r.eof && r.readCount > 0 && read > r.readFrom && total > read {
		share := float64(total-read) / float64(read-r.readFrom)
		seconds += share * m.Total(int(r.readCount), r.readWeight)
	}
	return seconds
}

// finished reports whether every record has an outcome. The lock is held.
func (r *Run) finished() bool {
	return r.eof && r.pool.Len() == 0 && len(r.suspects) == 0 && r.inFlight == 0
}

// waiting is how many records could be given to a worker.
func (r *Run) waiting() int { return r.pool.Len() + r.pending }
