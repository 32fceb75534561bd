package batch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/internal/batch/chunk"
)

// worker is one process that works for a run. It belongs to one goroutine,
// except for the fields that say otherwise.
type worker struct {
	run   *Run
	name  string
	grant *Grant
	card  *card
	proc  *process

	flight  []*group  // groups that were sent and not answered, oldest first
	since   time.Time // since when the worker is at work on the oldest
	took    time.Duration
	batches int // batches that were answered
	cap     chunk.Cap
	ooms    int // single records in a row that ran out of memory
	isReady bool
	ahead   bool // whether it reads the next batch while it works on one
	buf     []byte

	leaving   bool          // takes no more groups; the run's lock guards it
	left      chan struct{} // closed when leaving
	leaveOnce sync.Once
	withdrawn atomic.Bool // whether the run killed the process for a reason of its own
}

// failure describes why a worker ended before it should.
type failure struct {
	cause chunk.Cause
	text  string
}

func (f *failure) Error() string { return fmt.Sprintf("%s: %s", f.cause, f.text) }

// exitGrace is how long a worker may take to end after it closed its pipe. Python closes
// its files before it exits, and the exit status is known only after that.
const exitGrace = 5 * time.Second

// errBye means that a worker wants to be replaced and has done some work
// before.
var errBye = errors.New("it said bye")

// runWorker starts a worker and lets it work until the run no longer needs it
// (nil), it says bye, or it fails. When runWorker returns, the process is gone
// and the worker holds no records.
func (r *Run) runWorker(ctx context.Context, name string, g *Grant, c *card) error {
	p, err := r.start(name, g)
	if err != nil && ctx.Err() != nil {
		return nil // it was not to start any more
	}
	if err != nil && g.isLost() {
		r.notify(EventLost, c.gpu, name, "the lease is lost: %v", err)
		return nil
	}
	if err != nil {
		return &failure{chunk.Died, err.Error()}
	}
	w := &worker{run: r, name: name, grant: g, card: c, proc: p, left: make(chan struct{})}
	r.notify(EventStarted, c.gpu, name, "started as process %d", p.PID())
	if g.Started != nil {
		if err := g.Started(p.PID()); err != nil && p.Alive() {
			p.destroy()
			return &failure{chunk.Died, fmt.Sprintf("its lease does not accept the process: %v", err)}
		}
	}
	stop := w.watch(ctx)
	err = w.work()
	var f *failure
	switch {
	case err == nil:
		p.end(r.opt.StopGrace)
	case errors.As(err, &f) && f.cause == chunk.Died && !p.isGone(exitGrace):
		f.text += "it closed its pipe and kept running; "
		p.destroy()
	default:
		p.destroy()
	}
	stop()
	return w.conclude(err)
}

// conclude gives back what the worker did not finish. Workers answer batches in order, so
// only the oldest can be to blame, or the one after it if the worker died: one that reads
// ahead may have begun that while it wrote what came of the oldest.
func (w *worker) conclude(err error) error {
	if w.isReady {
		w.run.mu.Lock()
		w.card.ready--
		w.run.mu.Unlock()
	}
	cause, text := chunk.Withdrawn, ""
	var f *failure
	if errors.As(err, &f) && !w.withdrawn.Load() {
		if f.cause == chunk.Died {
			end := w.proc.exitText(w.grant.Why)
			if f.text += end; !w.isReady && strings.HasPrefix(end, "exit status 0") {
				f.text += "; a worker calls berth.worker, or speaks the protocol that berth help batch-protocol describes"
			}
		} else {
			f.text += w.proc.lastPrinted()
		}
		cause, text = f.cause, f.text
	}
	for i, g := range w.flight {
		if i > 1 || i == 1 && !(w.ahead && cause == chunk.Died) {
			cause = chunk.Withdrawn
		}
		w.giveBack(g, cause, text)
	}
	w.flight = nil
	if w.withdrawn.Load() {
		return nil
	}
	return err
}

func (w *worker) giveBack(g *group, cause chunk.Cause, text string) {
	if !g.probe {
		w.run.takeBack(g, cause, w.card, text)
	}
}

func (w *worker) work() error {
	if err := w.awaitReady(); err != nil {
		return err
	}
	for {
		if err := w.fill(); err != nil {
			return err
		}
		if len(w.flight) == 0 {
			return nil
		}
		if err := w.receive(); err != nil {
			return err
		}
		w.coolDown()
	}
}

func (w *worker) awaitReady() error {
	started := time.Now()
	limit := w.run.opt.ReadyTimeout
	for {
		select {
		case a, more := <-w.proc.messages:
			switch {
			case !more || a.err != nil && !isNonsense(a.err):
				return &failure{chunk.Died, "before it was ready: "}
			case a.err != nil:
				return &failure{chunk.Nonsense, a.err.Error()}
			case a.kind != messageReady:
				return &failure{chunk.Nonsense, fmt.Sprintf("it began with %s instead of ready", a.kind)}
			case a.protocol != ProtocolVersion:
				return &failure{chunk.Nonsense, fmt.Sprintf("it speaks version %d of the protocol, and this berth speaks version %d: install the berth package of the same version", a.protocol, ProtocolVersion)}
			}
			w.ahead = a.ahead
			w.ready()
			return nil
		case <-w.left:
			w.withdrawn.Store(true) // it has no records, and need not finish loading
			return &failure{chunk.Withdrawn, "not needed any more"}
		case <-time.After(w.remaining(started, limit)):
			if w.remaining(started, limit) <= 0 {
				return &failure{chunk.Hung, fmt.Sprintf("it did not say that it is ready within %s. A worker must call berth.worker(process), or speak the protocol on file descriptors %d and %d; do not use a wrapper that closes those, such as conda run", limit, workerIn, workerOut)}
			}
		}
	}
}

// remaining returns how much is left of a time limit. The limit restarts each time the
// worker reports progress, and pauses while the worker is stopped.
func (w *worker) remaining(since time.Time, limit time.Duration) time.Duration {
	if heard, _ := w.proc.heard.Load().(time.Time); heard.After(since) {
		since = heard
	}
	return limit - time.Since(since) + w.proc.Rested(since)
}

func (w *worker) ready() {
	r := w.run
	w.isReady = true
	r.mu.Lock()
	w.card.ready++
	w.sees(w.grant.SpeedNow())
	r.staff.everReady = true
	if w.card.speed == 0 { // otherwise it takes records now
		r.wakeSupervisor()
	}
	r.mu.Unlock()
	r.notify(EventReady, w.card.gpu, w.name, "ready")
	w.coolDown() // waits while the multiplier of the GPU is 0
}

// sees records the multiplier of the GPU. When the GPU comes to a standstill, others may try
// the suspects that waited for it. The caller holds the run's lock.
func (w *worker) sees(speed float64) {
	if speed == 0 && w.card.speed > 0 {
		w.run.changed.Broadcast()
	}
	w.card.speed = speed
}

// coolDown lets a GPU cool down if it should not work at full speed: after each second of
// work it waits until the share of work equals the multiplier of the GPU. It also waits
// after memory ran out for a single record.
func (w *worker) coolDown() {
	const pollInterval = 250 * time.Millisecond
	var waited time.Duration
	for {
		speed := w.grant.SpeedNow()
		w.run.mu.Lock()
		w.sees(speed)
		w.run.mu.Unlock()
		wait := pollInterval
		if speed > 0 {
			wait = min(w.rest(speed)-waited, pollInterval)
		}
		if wait <= 0 || len(w.flight) > 0 {
			return
		}
		select {
		case <-time.After(wait):
			waited += wait
		case <-w.left:
			return
		}
	}
}

// rest returns how long the worker rests before its next batch on a GPU with this
// multiplier.
func (w *worker) rest(speed float64) time.Duration {
	return time.Duration(float64(w.took)*(1/speed-1)) + chunk.Backoff(w.run.opt.Backoff, w.ooms)
}

// watch ends the worker when its lease is lost, when somebody else wants its place, or
// when the run stops. The returned function stops watching.
func (w *worker) watch(ctx context.Context) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		recall, stopping := w.grant.Recall, ctx.Done()
		var grace <-chan time.Time
		for {
			select {
			case <-done:
				return
			case <-recall:
				recall = nil
				if !w.proc.Alive() {
					continue // the lease ended with the process
				}
				w.ousted(EventRecalled, "the place is wanted back", "it leaves after its batch")
				w.leave()
				continue
			case <-stopping:
				stopping = nil
				grace = time.After(w.run.opt.StopGrace)
				w.leave()
				continue
			case <-w.grant.Lost:
				w.ousted(EventLost, "the lease is lost", "other workers take its records")
			case <-grace:
			}
			w.withdrawn.Store(true)
			w.leave()
			w.proc.Kill()
			return
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// ousted reports why the worker cannot keep its place, and what it does then. If something
// is wrong with the GPU, that is the reason, and the summary has it too.
func (w *worker) ousted(code EventCode, why, then string) {
	if trouble := w.grant.TroubleNow(); trouble != "" {
		why = w.card.gpu.String() + " " + trouble
		w.run.mu.Lock()
		w.card.trouble = trouble
		w.run.mu.Unlock()
	}
	w.run.notify(code, w.card.gpu, w.name, "%s: %s", why, then)
}

// leave keeps the worker from taking more records. Any goroutine may call it.
func (w *worker) leave() {
	w.leaveOnce.Do(func() {
		w.run.mu.Lock()
		w.leaving = true
		w.run.mu.Unlock()
		close(w.left)
		w.run.changed.Broadcast()
	})
}
