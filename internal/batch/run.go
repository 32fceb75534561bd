// Package batch pushes records through worker processes, several per GPU if asked, so
// that every record has exactly one outcome, whatever dies.
//
// A Run reads records (package record) into a bounded pool, hands them out in chunks as
// workers ask for them (package chunk decides how many and which first), and commits the
// outcomes in groups (package outcome keeps them through kill -9). Workers are processes
// of their own, each under a lease that a Leaser grants; docs/reference/batch-protocol.md
// specifies the protocol on their pipes.
//
// A record belongs to exactly one holder at any time: the pool, the list of suspects, one
// worker, or the sink on its way to the disk. The records of a worker go back when its
// process is gone, never before.
package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/berth-gpu/berth/internal/batch/outcome"
	"github.com/berth-gpu/berth/internal/batch/record"
	"github.com/berth-gpu/berth/internal/text/outlet"
)

// Run is an opened run of a batch.
type Run struct {
	opt    Options
	source *record.Source
	stream bool // the input cannot be read again
	output output
	pipe   *outlet.Writer // behind output, if outcomes are handed on; nil if not
	before int64          // outcomes that existed when the run was opened
	sink   *sink
	hosts  sync.WaitGroup
	cancel context.CancelFunc

	mu      sync.Mutex // guards what follows; nothing that may wait is called under it
	changed sync.Cond  // something happened that a worker or the supervisor may wait for
	room    sync.Cond  // the pool has room

	input intake
	stock stock
	staff staff
	tally tally

	sated    bool // whether the supervisor waits until the run wants one more worker
	stopping bool
	err      error // why the run fails
}

// output takes the outcomes of a run: an outcome.Log, which keeps them, or an
// outcome.Pipe, which hands them on.
type output interface {
	Commit(group []outcome.Outcome) error
	Done(index int64) bool // may be called by any goroutine
	Counts() (done, failed int64)
	Complete() bool
	Finish(total int64) error
	Close() error
}

// Open checks the options, finds the input, and claims the output, for a new
// run or for one that was stopped. The caller has to end the run with Run or
// Close. If Open spools a stream, it reads the whole stream first; ctx ends
// that.
func Open(ctx context.Context, o Options) (*Run, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	r := &Run{opt: o, input: intake{expect: o.Expect}, stock: newStock(o), staff: newStaff(), tally: tally{stage: StageOpen}}
	r.changed.L, r.room.L = &r.mu, &r.mu
	r.staff.ahead = o.HeadStart > 0
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Run) open(ctx context.Context) error {
	spec := r.opt.Input
	if r.opt.Pipe != nil {
		return r.openPipe(spec)
	}
	spec.Done = func(index int64) bool { return r.before > 0 && r.output.Done(index) }
	spec.Skip = outcome.Dir(r.opt.Output)
	source, err := record.Open(spec)
	if err != nil {
		return err
	}
	if source.Reads(r.opt.Output) {
		return fmt.Errorf("%w: %s", ErrOwnInput, r.opt.Output)
	}
	place, err := outcome.Claim(r.opt.Output, r.opt.Shape, r.opt.Force)
	if err != nil {
		return err
	}
	if spec.Stream != nil && r.opt.Spool {
		spec.Format = source.Format()
		source, err = r.spool(ctx, place, spec)
	}
	if err == nil {
		r.source, r.stream = source, source.IsStream()
		err = r.begin(place)
	}
	if err != nil {
		return errors.Join(err, place.Close())
	}
	return nil
}

// openPipe opens a run that hands its outcomes on.
func (r *Run) openPipe(spec record.Spec) error {
	r.pipe = outlet.New(r.opt.Pipe, r.opt.StopGrace)
	pipe, err := outcome.NewPipe(r.pipe, r.opt.Shape)
	if err != nil {
		return err
	}
	// A program that numbers outcomes knows its own records: they reach the worker unchanged.
	spec.KeepError = r.opt.Shape.Format == outcome.Numbered
	source, err := record.Open(spec)
	if err != nil {
		return err
	}
	r.source, r.stream, r.output = source, source.IsStream(), pipe
	return nil
}

// spool copies a stream to a file and opens the file in its place.
func (r *Run) spool(ctx context.Context, place *outcome.Place, spec record.Spec) (*record.Source, error) {
	if !place.Resuming() {
		r.notify(EventKeeping, GPU{}, "", "keeping standard input until its end; then the work begins")
	}
	path, err := place.Spool(ctx, spec.Stream)
	switch {
	case err != nil && ctx.Err() != nil && path != "":
		return nil, fmt.Errorf("%w: standard input was not read to its end; the part that was read is in %s", ErrStopped, path)
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("%w: nothing was read from standard input", ErrStopped)
	case err != nil:
		return nil, err
	}
	spec.Stream, spec.Paths = nil, []string{path}
	return record.Open(spec)
}

// begin starts the output, or continues the unfinished output of the same
// input.
func (r *Run) begin(place *outcome.Place) error {
	print, err := r.source.Fingerprint()
	if err != nil {
		return err
	}
	text, err := json.Marshal(print)
	if err != nil {
		return err
	}
	r.output, err = place.Begin(r.opt.Command, text, func(before json.RawMessage) error {
		var old record.Fingerprint
		if err := json.Unmarshal(before, &old); err != nil {
			return err
		}
		if old.Stream && print.Stream {
			return fmt.Errorf("%w: it read a stream, which cannot be read again; its outcomes are in %s", outcome.ErrGone, outcome.Dir(r.opt.Output))
		}
		if d := print.Difference(old); d != "" {
			return errors.New(d)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.before, r.tally.failed = r.output.Counts()
	return nil
}

// Close ends a run that was opened and is not going to run.
func (r *Run) Close() error { return r.output.Close() }

// Errors that callers decide on.
var (
	// ErrStopped means that the run was stopped before its end.
	ErrStopped = errors.New("stopped before the end")
	// ErrOwnInput means that the output would replace, or become, a part of the
	// input.
	ErrOwnInput = errors.New("the output is among the inputs: give it another name, or put it into another folder")
)

// Run does the work. It returns when every record has an outcome and the output
// has its name, when ctx ends (ErrStopped), or when something fails for good.
// After a stop or a failure, a run with the same options continues where this
// one stopped, unless the input was a stream or the outcomes went to a pipe.
//
// When ctx ends, workers get the stop grace to finish their batches.
func (r *Run) Run(ctx context.Context) (Summary, error) {
	defer context.AfterFunc(ctx, r.hurry)()
	ctx, r.cancel = context.WithCancel(ctx)
	defer r.cancel()
	r.begun()
	if r.before > 0 {
		r.notify(EventResumed, GPU{}, "", "going on: the outcomes of %d of the records are there already", r.before)
	}
	err := r.work(ctx)
	if err == nil {
		r.setStage(StageFinishing)
		err = r.output.Finish(r.input.total)
	}
	r.countCommitted()
	err = errors.Join(r.advise(err), r.output.Close())
	switch {
	case err == nil:
		r.setStage(StageDone)
	case errors.Is(err, ErrStopped):
		r.setStage(StageStopped)
	default:
		r.setStage(StageFailed)
	}
	return r.summary(err), err
}

// countCommitted sets the counts to the outcomes that are on disk: the next run
// does again what a full disk did not take.
func (r *Run) countCommitted() {
	done, failed := r.output.Counts()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.done, r.tally.failed = done-r.before, failed
}

// advise adds the next step to an error of the disk, if err is one.
func (r *Run) advise(err error) error {
	switch {
	case r.stream, r.opt.Pipe != nil:
		return err
	case errors.Is(err, outcome.ErrFull):
		return fmt.Errorf("%w: make room and run %s; it continues where it stopped", err, r.again())
	case errors.As(err, new(*outcome.WriteError)):
		return fmt.Errorf("%w: no finished work is lost; repair the disk and run %s", err, r.again())
	}
	return err
}

// again returns how to continue the run.
func (r *Run) again() string {
	if r.opt.Force { // with --force, berth would discard the outcomes
		return "the same command again, without --force"
	}
	return "the same command again"
}

// work runs until every record has an outcome on disk.
func (r *Run) work(ctx context.Context) error {
	if r.output.Complete() {
		r.input.total = r.before
		return nil
	}
	defer context.AfterFunc(ctx, r.stop)()
	r.sink = newSink(r.opt.CommitEvery, r.opt.CommitBytes, r.commit)
	// If the order cannot change, or the rest may take long to come, workers do
	// not wait for a full pool.
	r.stock.primed = r.stream || r.opt.Input.Cost.By == record.ByNothing
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		r.read()
	}()
	var helpers sync.WaitGroup
	helpers.Go(func() { r.supervise(ctx) })
	helpers.Go(func() { r.measure(ctx) })

	complete := r.awaitEnd()
	r.stop()
	r.cancel()
	helpers.Wait()
	r.hosts.Wait()
	err := r.sink.close()
	if !r.stream || complete {
		<-reading // a stream may not end for a long time, so its reader stays behind
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		return r.err
	case err != nil && !errors.Is(err, outlet.ErrUnread):
		return err
	case err == nil && complete:
		return nil
	case r.opt.Pipe != nil:
		return fmt.Errorf("%w: berth keeps no outcomes that it writes to standard output, so this run cannot be resumed", ErrStopped)
	case r.stream:
		return fmt.Errorf("%w: the input is a stream, which cannot be read again, so this run cannot be resumed; next time, use --spool", ErrStopped)
	}
	return fmt.Errorf("%w: run %s to go on", ErrStopped, r.again())
}

// awaitEnd waits until the work is done or the run stops. It reports whether
// the work is done.
func (r *Run) awaitEnd() (complete bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.finished() && !r.stopping {
		r.changed.Wait()
	}
	return r.finished() && r.err == nil
}

// stop keeps all workers from taking more records.
func (r *Run) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopping = true
	r.changed.Broadcast()
	r.room.Broadcast()
}

// fail ends the run. The first reason counts.
func (r *Run) fail(err error) {
	r.mu.Lock()
	if r.err == nil {
		r.err = err
	}
	r.mu.Unlock()
	r.stop()
	r.hurry()
	r.cancel()
}

// hurry keeps a reader who does not read from holding up a run that is to end. What the
// reader did not take is lost, as all that it would have got.
func (r *Run) hurry() {
	if r.pipe != nil {
		r.pipe.Hurry()
	}
}

// commit writes a group of outcomes to the disk.
func (r *Run) commit(group []outcome.Outcome) error {
	if err := r.output.Commit(group); err != nil {
		if !errors.Is(err, outlet.ErrUnread) { // then the run is ending anyway
			r.fail(err)
		}
		return err
	}
	if len(group) > 0 {
		r.notify(EventCommitted, GPU{}, "", "%d outcomes are written", len(group))
	}
	return nil
}

func (r *Run) notify(code EventCode, g GPU, worker, format string, args ...any) {
	r.opt.Notify(Event{Code: code, GPU: g, Worker: worker, Text: fmt.Sprintf(format, args...)})
}
