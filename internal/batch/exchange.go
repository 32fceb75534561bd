package batch

import (
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/berth-gpu/berth/internal/batch/chunk"
	"github.com/berth-gpu/berth/internal/text/words"
)

// fill hands the worker its next batch, and another one if batches are short, so that it
// need not wait for the pipe.
func (w *worker) fill() error {
	for len(w.flight) < w.depth() {
		g := w.probe()
		if g == nil {
			g = w.run.take(w, len(w.flight) == 0)
		}
		if g == nil {
			return nil
		}
		if !w.proc.Alive() {
			// The worker never had these records, whatever ended it.
			w.giveBack(g, chunk.Withdrawn, "")
			if len(w.flight) > 0 {
				return nil // it may have answered before
			}
			if a, more := <-w.proc.messages; more && a.err == nil && a.kind == messageBye && w.batches > 0 {
				return errBye
			}
			return &failure{chunk.Died, ""}
		}
		if len(w.flight) == 0 {
			w.since = time.Now()
		}
		w.flight = append(w.flight, g)
		w.buf = appendBatch(w.buf[:0], g.id, g.records)
		g.bytes = len(w.buf)
		err := w.proc.Send(w.buf, w.run.opt.Timeout)
		if cap(w.buf) > 8<<20 {
			w.buf = nil // release the memory of a huge record
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return &failure{chunk.Hung, fmt.Sprintf("it took no records for %s", w.run.opt.Timeout)}
		}
		if err != nil {
			return &failure{chunk.Died, ""}
		}
	}
	return nil
}

// mostDepth is the most batches that a worker has.
const mostDepth = 32

// depth returns how many batches the worker should have. A second one pays only if
// batches or records are short, or if the worker reads ahead or is far away. Behind a
// long batch, or near the end, another worker could do it sooner.
func (w *worker) depth() int {
	const shortBatch, shortRecord = 0.05, 0.001 // seconds
	r := w.run
	r.mu.Lock()
	defer r.mu.Unlock()
	long := !w.ahead && w.grant.Latency == nil && w.card.quick > max(shortBatch, shortRecord*float64(w.card.batch))
	if w.batches < 2 || long || w.card.speed < 1 || w.cap.Records() > 0 ||
		len(r.stock.suspects) > 0 || r.stock.pool.Len() < 2*r.staff.workers*w.card.largest {
		return 1
	}
	if w.grant.Latency == nil {
		return 2
	}
	return w.remoteDepth()
}

// remoteDepth returns how many batches a worker on another machine should have: those
// that it does while a message goes there and back, and two more, but no more bytes than
// allowed. The caller holds the lock.
func (w *worker) remoteDepth() int {
	depth := 2
	if w.card.quick > 0 {
		depth += int(min(math.Ceil(w.grant.Latency().Seconds()/w.card.quick), mostDepth))
	}
	bytes := 0
	for _, g := range w.flight {
		bytes += g.bytes
	}
	if n := len(w.flight); n > 0 && bytes+bytes/n > w.run.opt.FlightBytes {
		depth = n
	}
	return min(depth, mostDepth)
}

// receive waits for an answer to the oldest batch.
func (w *worker) receive() error {
	limit := w.run.opt.Timeout
	timer := time.NewTimer(w.remaining(w.since, limit))
	defer timer.Stop()
	for {
		select {
		case a, more := <-w.proc.messages:
			return w.hear(a, more)
		case <-timer.C:
		}
		if left := w.remaining(w.since, limit); left > 0 {
			timer.Reset(left)
			continue
		}
		select {
		case a, more := <-w.proc.messages: // it came, and this goroutine was late
			return w.hear(a, more)
		default:
			return &failure{chunk.Hung, fmt.Sprintf("no answer to %s within %s", words.Count(len(w.flight[0].records), "record"), limit)}
		}
	}
}

// hear acts on what comes from the worker; more is false if that is the end.
func (w *worker) hear(a answer, more bool) error {
	switch {
	case !more:
		return &failure{chunk.Died, ""}
	case errors.Is(a.err, errTooLong):
		return w.outOfMemory(fmt.Sprintf("an answer of more than %d bytes", w.run.opt.AnswerBytes), a.at)
	case isNonsense(a.err):
		return &failure{chunk.Nonsense, a.err.Error()}
	case a.err != nil:
		return &failure{chunk.Died, ""}
	}
	return w.handle(a)
}

func isNonsense(err error) bool {
	var n *nonsenseError
	return errors.As(err, &n)
}

// handle acts on a message.
func (w *worker) handle(a answer) error {
	g := w.flight[0]
	switch {
	case a.kind == messageBye && w.batches == 0:
		return &failure{chunk.Nonsense, "it said bye before it had done anything"}
	case a.kind == messageBye:
		return errBye
	case a.kind == messageReady:
		return &failure{chunk.Nonsense, "it said ready twice"}
	case a.id != g.id:
		return &failure{chunk.Nonsense, fmt.Sprintf("it answered batch %d instead of batch %d", a.id, g.id)}
	}
	switch {
	case g.probe:
		w.answered(a.at)
		w.probeAnswered()
		return nil
	case a.kind == messageOOM:
		return w.outOfMemory(a.text, a.at)
	case a.kind == messageError:
		w.answered(a.at)
		w.giveBack(g, chunk.Refused, a.text)
		return nil
	}
	outcomes, faults, err := a.split(len(g.records))
	if err != nil {
		return &failure{chunk.Nonsense, "it answered " + err.Error()}
	}
	w.answered(a.at)
	w.ooms = 0
	w.cap = w.cap.Held(len(g.records), w.run.opt.Batch)
	w.run.settle(w, g, outcomes, faults, w.took)
	return nil
}

// answered removes the oldest batch from those in flight.
func (w *worker) answered(at time.Time) {
	w.took = at.Sub(w.since)
	w.since = at
	w.flight = append(w.flight[:0], w.flight[1:]...)
}

// outOfMemory makes the batches of this worker smaller. After a single record, which
// cannot be made smaller, the next batch is delayed: others may use the memory.
func (w *worker) outOfMemory(text string, at time.Time) error {
	g := w.flight[0]
	w.answered(at)
	w.cap = w.cap.Exceeded(len(g.records))
	if len(g.records) == 1 {
		w.ooms++
		w.run.notify(EventMemory, w.card.gpu, w.name, "a single record was too large (%s)", text)
	} else {
		w.run.notify(EventMemory, w.card.gpu, w.name, "a batch of %d records was too large (%s): at most %d from now on", len(g.records), text, w.cap.Records())
	}
	w.giveBack(g, chunk.OutOfMemory, text)
	return nil
}
