package batch

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/internal/batch/chunk"
	"github.com/berth-gpu/berth/internal/batch/outcome"
	"github.com/berth-gpu/berth/internal/batch/record"
)

// settle records the outcomes of a group. faults maps the position of a record
// in the group to its error.
func (r *Run) settle(w *worker, g *group, outcomes [][]byte, faults map[int]string, took time.Duration) {
	settled := make([]outcome.Outcome, len(g.records))
	failed := 0
	var good *record.Record
	for i, rec := range g.records {
		if text, bad := faults[i]; bad {
			settled[i] = outcome.Failure(rec.Index, rec.Data, text)
		} else {
			settled[i] = outcome.Success(rec.Index, outcomes[i])
		}
		if settled[i].Failed {
			failed++
		} else {
			good = &g.records[i]
		}
	}
	r.mu.Lock()
	if good != nil {
		r.stock.keepGood(good)
	}
	c := w.card
	c.learned(g, took, w.batches > 0)
	c.done += int64(len(settled))
	c.failed += int64(failed)
	c.busy += took
	c.observe(took.Seconds(), len(settled))
	r.mu.Unlock()
	w.batches++
	r.deliver(settled, failed)
}

// deliver counts outcomes and sends them to the disk. Their records stay in flight until
// the disk has them.
func (r *Run) deliver(settled []outcome.Outcome, failed int) {
	r.mu.Lock()
	r.tally.done += int64(len(settled))
	r.tally.failed += int64(failed)
	r.mu.Unlock()
	r.sink.put(settled)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stock.inFlight -= len(settled)
	if r.finished() {
		r.changed.Broadcast()
	}
}

// takeBack decides what happens to a group that a worker did not finish. The
// worker no longer holds it.
func (r *Run) takeBack(g *group, cause chunk.Cause, c *card, text string) {
	if cause != chunk.Withdrawn && len(g.records) == 1 {
		g.failures++
	}
	verdict := chunk.Judge(cause, len(g.records), g.failures, r.opt.Tries)
	if verdict == chunk.Mark {
		r.mark(g, cause, c, text)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stock.inFlight -= len(g.records)
	r.tally.retries += int64(len(g.records))
	c.retries += int64(len(g.records))
	switch {
	case verdict == chunk.Split:
		r.stock.suspect(g.parts(cause, c.gpu.ID())...)
	case verdict == chunk.Alone:
		g.suspect = true
		g.triedOn(c.gpu.ID())
		r.stock.suspect(g)
	case g.suspect:
		r.stock.suspect(g)
	default:
		for _, rec := range g.records {
			r.stock.put(rec)
		}
	}
	r.changed.Broadcast()
}

// mark gives up on a single record.
func (r *Run) mark(g *group, cause chunk.Cause, c *card, text string) {
	rec := g.records[0]
	switch {
	case cause == chunk.Refused:
	case g.failures == 1:
		text = fmt.Sprintf("%s: %s", cause, text)
	default:
		text = fmt.Sprintf("given up after %d tries by itself, the last one: %s: %s", g.failures, cause, text)
	}
	r.mu.Lock()
	if cause != chunk.Refused {
		r.tally.marked++
	}
	c.done++
	c.failed++
	r.mu.Unlock()
	if cause != chunk.Refused {
		r.notify(EventMarked, c.gpu, "", "the record of %s is marked: %s", rec.Place(), text)
	}
	r.deliver([]outcome.Outcome{outcome.Failure(rec.Index, rec.Data, text)}, 1)
}
