package programs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch"
	"github.com/berth-gpu/berth/internal/text/words"
)

// longestWait is the longest time that the daemon lets a request wait.
const longestWait = 30 * 24 * time.Hour

// Daemon reports the devices to a batch, and hands its leases to its workers. A client
// is a Daemon.
type Daemon interface {
	StatusAll(ctx context.Context) (api.StatusAll, error)
	Explain(ctx context.Context, r api.LeaseRequest) (api.Explanation, error)
	Events(ctx context.Context, after uint64, follow bool) iter.Seq2[gpu.Event, error]
	Bind(ctx context.Context, id string, b api.Bind) (api.Lease, error)
	ReportBatch(ctx context.Context, b api.Batch) (api.Batch, error)
	PastLeases(ctx context.Context, q client.PastQuery) (api.PastLeases, error)
}

// Held is a lease that this process holds.
type Held struct {
	api.Lease
	Lost  <-chan struct{} // closed when the lease is gone
	Close func() error    // releases the lease
}

// HoldOver returns a function that takes leases over a client.
func HoldOver(c *client.Client) func(context.Context, api.LeaseRequest) (Held, error) {
	return func(ctx context.Context, r api.LeaseRequest) (Held, error) {
		l, err := c.Hold(ctx, r)
		if err != nil {
			return Held{}, err
		}
		return Held{Lease: l.Lease, Lost: l.Lost(), Close: l.Close}, nil
	}
}

// HeadStart is the variable with the head start of a run. It is of that run: workers do not
// inherit it.
const HeadStart = "BERTH_HEAD_START"

// BatchOptions select what to run, with which workers, and where.
type BatchOptions struct {
	batch.Options // OpenBatch sets Start and Leases

	Command []string         // of a worker
	Environ []string         // of this process; workers inherit it, changed by their lease
	Log     io.Writer        // gets the output of workers
	Request api.LeaseRequest // service, memory and rule of each worker
	PerGPU  int              // largest number of workers on each GPU
	GPUs    int              // largest number of GPUs to use; 0 for all
	Socket  string           // of the daemon; empty for where workers look anyway
	Say     func(format string, args ...any)

	// Hold takes a lease for this process. HoldOver returns a Hold over a client.
	Hold func(ctx context.Context, r api.LeaseRequest) (Held, error)
}

// Batch is a run of a batch.
type Batch struct {
	Run    *batch.Run
	pipe   io.Writer               // gets the outcomes; nil if they go to a file
	beside []func(context.Context) // what happens beside the run, until their context ends
	bill   func(ctx context.Context, b api.Batch) gpu.Opt[gpu.Joules]
	close  func()
	report reporter
}

// OpenBatch opens a run whose workers hold leases of the daemon. The caller must end it
// with Work.
func OpenBatch(ctx context.Context, d Daemon, o BatchOptions) (*Batch, error) {
	c, err := newCrew(ctx, d, o)
	if err != nil {
		return nil, err
	}
	o.Options.Leases = c
	o.Options.Start = func(prefix string, env []string) (batch.Process, error) { return c.Start(nil, prefix, env) }
	b := &Batch{
		pipe: o.Pipe, beside: []func(context.Context){c.look, c.listen}, close: c.workers.Close,
		bill: func(ctx context.Context, _ api.Batch) gpu.Opt[gpu.Joules] { return c.energy(ctx) },
	}
	if b.Run, err = batch.Open(ctx, o.Options); err != nil {
		b.close()
		return nil, err
	}
	b.report = newReporter(d, b.Run, o.Command)
	return b, nil
}

// Close ends a batch that is not going to run.
func (b *Batch) Close() error {
	b.close()
	return b.Run.Close()
}

// Work runs the batch. Meanwhile it watches the devices and leases, and reports the
// progress of the batch to the daemon.
func (b *Batch) Work(ctx context.Context) (batch.Summary, error) {
	defer b.close()
	beside, stop := context.WithCancel(context.WithoutCancel(ctx))
	var watching sync.WaitGroup
	for _, do := range append(b.beside, b.report.follow) {
		watching.Go(func() { do(beside) })
	}
	running, cancel := context.WithCancelCause(ctx)
	unwatch := watchReader(b.pipe, cancel)
	summary, err := b.Run.Run(running)
	unwatch()
	if errors.Is(err, batch.ErrStopped) && errors.Is(context.Cause(running), ErrReaderLeft) {
		err = fmt.Errorf("%w (%w)", err, ErrReaderLeft)
	}
	cancel(nil)
	stop()
	watching.Wait()
	summary.Bill(b.bill(context.WithoutCancel(ctx), b.report.standingWith(err)))
	b.report.energy = summary.Energy
	b.report.send(context.WithoutCancel(ctx), err)
	return summary, err
}

// ErrReaderLeft means that nobody reads the outcomes any more.
var ErrReaderLeft = errors.New("the reader of standard output left")

// watchReader cancels a run when the reader of its pipe leaves, even if there is
// nothing to write at that moment: workers must not compute for nobody. Call stop when
// the run has ended.
func watchReader(pipe io.Writer, cancel context.CancelCauseFunc) (stop func()) {
	file, ok := pipe.(*os.File)
	if !ok {
		return func() {}
	}
	// The signal would end this process before its workers.
	came := make(chan os.Signal, 1)
	signal.Notify(came, unix.SIGPIPE)
	wake, stopped, err := os.Pipe()
	if err != nil {
		return func() { signal.Stop(came) }
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if awaitReader(int(file.Fd()), int(wake.Fd())) {
			cancel(ErrReaderLeft)
		}
	}()
	return func() {
		_ = stopped.Close()
		<-done
		_ = wake.Close()
		signal.Stop(came)
	}
}

// awaitReader waits until the reader of a pipe leaves or the other end of wake is
// closed. It reports whether the reader left.
func awaitReader(pipe, wake int) (left bool) {
	fds := []unix.PollFd{{Fd: int32(pipe)}, {Fd: int32(wake)}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil, fds[1].Revents != 0:
			return false
		case fds[0].Revents != 0:
			return true
		}
	}
}

const (
	reportEvery = time.Second
	// reportPatience is how long a report may take. The run does not wait for
	// it, but its end does.
	reportPatience = 2 * time.Second
)

// reporter reports the progress of a batch to the daemon. A daemon that is away misses
// reports.
type reporter struct {
	daemon   reportee
	standing func() api.Batch
	id       string
	command  string
	energy   gpu.Opt[gpu.Joules] // used by the workers, once known
}

func newReporter(d reportee, r *batch.Run, command []string) reporter {
	return reporter{daemon: d, standing: r.Progress, id: "batch-" + strings.ToLower(rand.Text()[:10]), command: strings.Join(command, " ")}
}

// reportee takes the reports of a batch.
type reportee interface {
	ReportBatch(ctx context.Context, b api.Batch) (api.Batch, error)
}

// follow reports every second until ctx ends.
func (r *reporter) follow(ctx context.Context) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		r.send(ctx, nil)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// send reports once, with the failure of the batch if there is one.
func (r *reporter) send(ctx context.Context, failure error) {
	ctx, cancel := context.WithTimeout(ctx, reportPatience)
	defer cancel()
	_, _ = r.daemon.ReportBatch(ctx, r.standingWith(failure))
}

// standingWith returns the report of the batch, with its failure if there is one.
func (r *reporter) standingWith(failure error) api.Batch {
	b := r.standing()
	b.ID, b.Command, b.Energy = r.id, clip(r.command), r.energy
	if failure != nil && !errors.Is(failure, batch.ErrStopped) {
		b.Error = clip(failure.Error())
	}
	return b
}

// clip cuts a text to the length that the daemon accepts.
func clip(text string) string { return words.Cut(text, 1000) }

// Ended returns the summary of a batch in the form of a report to the daemon. The rates
// are those of the whole run.
func Ended(s batch.Summary) api.Batch {
	b := api.Batch{
		Stage: s.Stage, Done: s.Records, Before: s.Before, Failed: s.Failed, Marked: s.Marked,
		Retries: s.Retries, Restarts: s.Restarts, Error: s.Error, Energy: s.Energy,
	}
	for _, g := range s.GPUs {
		b.GPUs = append(b.GPUs, api.BatchGPU{
			GPU: g.UUID, Index: g.Index, Name: g.Name, Host: g.Host, Done: g.Records, Failed: g.Failed, Restarts: g.Restarts,
			Rate: gpu.Some(g.Rate), Busy: g.Busy,
		})
	}
	return b
}
