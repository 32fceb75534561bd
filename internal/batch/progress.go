package batch

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// The stages of a run.
const (
	StageOpen      = "open"      // not begun
	StageRunning   = "running"   // records are worked on
	StageFinishing = "finishing" // all records have outcomes; the run orders and renames the output
	StageDone      = "done"
	StageStopped   = "stopped" // can be resumed
	StageFailed    = "failed"  // can be resumed when the reason is gone
)

// Progress returns the state of the run, as a runner reports it. Any goroutine may call it
// at any time.
func (r *Run) Progress() api.Batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := api.Batch{
		Output: r.opt.Output, Stage: r.tally.stage, Started: r.tally.started, Exact: r.input.eof,
		Done: r.before + r.tally.done, Before: r.before, Failed: r.tally.failed, Marked: r.tally.marked,
		Retries: r.tally.retries, Restarts: r.tally.restarts, Workers: r.staff.workers,
		Rate: r.tally.rates.of(func(s rateSample) int64 { return s.done }), GPUs: []api.BatchGPU{},
	}
	if path, err := filepath.Abs(p.Output); err == nil && r.opt.Pipe == nil {
		p.Output = path
	}
	if total, ok := r.input.records(r.source); ok {
		p.Total = gpu.Some(total)
	}
	if left := r.secondsLeft(); left > 0 && r.tally.stage == StageRunning {
		if workers := r.staff.fullSpeedWorkers(); workers > 0 {
			p.Left = gpu.Some(left / workers)
		}
	}
	for _, c := range r.staff.cards {
		p.GPUs = append(p.GPUs, c.progress(r.tally.rates.of(func(s rateSample) int64 { return s.gpus[c.gpu.ID()] })))
	}
	slices.SortFunc(p.GPUs, func(a, b api.BatchGPU) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Index, b.Index), cmp.Compare(a.GPU, b.GPU))
	})
	return p
}

func (c *card) progress(rate gpu.Opt[float64]) api.BatchGPU {
	p := api.BatchGPU{
		GPU: c.gpu.UUID, Index: c.gpu.Index, Name: c.gpu.Name, Host: c.gpu.Host, Workers: c.workers, Ready: c.ready, Speed: c.speed, Batch: c.batch,
		Done: c.done, Failed: c.failed, Retries: c.retries, Restarts: c.restarts, GivenUp: c.givenUp,
		Busy: c.busy.Seconds(), Rate: rate, Latency: c.latency,
	}
	p.Latency.Counts = slices.Clone(c.latency.Counts)
	return p
}

// tally holds the counts and the stage of a run. The run's lock guards it.
type tally struct {
	stage                     string
	started, ended            time.Time
	done, failed              int64 // outcomes of this run
	retries, restarts, marked int64
	rates                     rates
}

// rates keeps the counts of the last seconds.
type rates struct{ samples []rateSample }

type rateSample struct {
	at   time.Time
	done int64
	gpus map[string]int64
}

const rateWindow = 10 // samples, one a second

func (r *rates) add(s rateSample) {
	r.samples = append(r.samples, s)
	if n := len(r.samples); n > rateWindow+1 {
		r.samples = slices.Delete(r.samples, 0, n-rateWindow-1)
	}
}

// of returns how fast a count grows, per second.
func (r *rates) of(count func(rateSample) int64) gpu.Opt[float64] {
	if len(r.samples) < 2 {
		return gpu.Opt[float64]{}
	}
	first, last := r.samples[0], r.samples[len(r.samples)-1]
	return gpu.Some(float64(count(last)-count(first)) / last.at.Sub(first.at).Seconds())
}

// measure takes a sample every second.
func (r *Run) measure(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		r.mu.Lock()
		s := rateSample{at: time.Now(), done: r.tally.done, gpus: map[string]int64{}}
		for id, c := range r.staff.cards {
			s.gpus[id] = c.done
		}
		r.tally.rates.add(s)
		r.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (r *Run) begun() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.stage = StageRunning
	r.tally.started = time.Now()
}

func (r *Run) setStage(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.stage = s
	r.tally.ended = time.Now()
}

// Event is something that happened in a run.
type Event struct {
	Code   EventCode
	GPU    GPU    // zero if the event is about no GPU
	Worker string // empty if the event is about no worker
	Text   string // one sentence for people
}

// EventCode names a kind of event.
type EventCode string

// The codes.
const (
	EventKeeping   EventCode = "keeping"   // a stream is read to its end before the run begins
	EventResumed   EventCode = "resumed"   // a run goes on where it was stopped
	EventStarted   EventCode = "started"   // the process of a worker was started
	EventReady     EventCode = "ready"     // a worker takes records
	EventFailed    EventCode = "failed"    // a worker died, hung or answered nonsense
	EventMemory    EventCode = "memory"    // a worker ran out of memory; its batches get smaller
	EventLost      EventCode = "lost"      // a lease ended under a worker
	EventRecalled  EventCode = "recalled"  // somebody else wants a place
	EventGivenUp   EventCode = "given_up"  // workers kept failing on a GPU
	EventMarked    EventCode = "marked"    // a record was found to break workers
	EventWaiting   EventCode = "waiting"   // there is no place for a worker
	EventCommitted EventCode = "committed" // outcomes are on disk, or in the pipe
)
