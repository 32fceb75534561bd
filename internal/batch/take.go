package batch

import (
	"time"

	"github.com/berth-gpu/berth/internal/batch/chunk"
)

// take returns the next group for a worker, or nil. If wait is true, it waits until there
// is a group or the run no longer needs the worker.
func (r *Run) take(w *worker, wait bool) *group {
	r.mu.Lock()
	defer r.mu.Unlock()
	var idle *time.Timer
	for {
		if w.leaving || r.stopping {
			return nil
		}
		if g := r.next(w); g != nil {
			r.stock.inFlight += len(g.records)
			r.wakeSupervisor()
			return g
		}
		if !wait || r.finished() {
			return nil
		}
		if idle == nil && r.input.eof {
			idle = time.AfterFunc(r.opt.IdleGrace, w.leave)
			defer idle.Stop()
		}
		r.staff.idle++
		r.changed.Wait()
		r.staff.idle--
	}
}

// next chooses a group: suspects first, because their records have waited
// longest, then records of the pool. The caller holds the lock.
func (r *Run) next(w *worker) *group {
	s := &r.stock
	// As long as no record has succeeded, records that have not failed go
	// first: the fault may not be in the records.
	if s.good != nil || s.pool.Len() == 0 {
		if g := s.takeSuspect(func(g *group) bool { return r.staff.mayTry(g, w.card) }, w.cap.Records()); g != nil {
			r.room.Signal()
			return g
		}
	}
	if !s.primed || s.pool.Len() == 0 {
		return nil
	}
	model := r.staff.model(w.card)
	budget := chunk.Plan(s.limits, model, r.situation(w))
	budget.Seconds /= w.card.pace
	g := s.take(model, budget, r.opt.BatchBytes)
	r.room.Signal()
	return g
}

func (r *Run) situation(w *worker) chunk.Situation {
	return chunk.Situation{
		Workers: r.staff.workers, Pending: r.stock.pool.Len(), Weight: r.stock.pool.Weight(), Seconds: r.secondsLeft(),
		Ending: r.input.eof, Largest: w.card.largest, Cap: w.cap.Records(), Speed: w.card.speed,
	}
}

// secondsLeft returns how long one worker would take for all records that wait
// or are not read yet. 0 means unknown.
func (r *Run) secondsLeft() float64 {
	m := r.staff.pooled()
	if !m.Known {
		return 0
	}
	seconds := m.Total(r.stock.pool.Len(), r.stock.pool.Weight())
	if rest := r.input.rest(r.source); rest > 0 {
		seconds += rest * m.Total(int(r.input.count), r.input.weight)
	}
	return seconds
}

// finished reports whether every record has an outcome. The caller holds the
// lock.
func (r *Run) finished() bool { return r.input.eof && r.stock.isEmpty() }
