package batch

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Stage is the stage of a run.
type Stage string

// The stages.
const (
	StageOpen      Stage = "open"      // not begun
	StageRunning   Stage = "running"   // records are worked on
	StageFinishing Stage = "finishing" // all records have outcomes; the run orders and renames the output
	StageDone      Stage = "done"
	StageStopped   Stage = "stopped" // can be resumed
	StageFailed    Stage = "failed"  // can be resumed when the reason is gone
)

// Progress describes the state of a run.
type Progress struct {
	Output  string    `json:"output"`
	Piped   bool      `json:"piped,omitempty" doc:"Output is a name, and no file: the outcomes go to a pipe."`
	Stage   Stage     `json:"stage"`
	Started time.Time `json:"started,omitzero"`

	Total    gpu.Opt[int64] `json:"total,omitzero" doc:"Records of the input; an estimate until it is read to its end."`
	Exact    bool           `json:"total_exact"`
	Done     int64          `json:"done" doc:"Records with an outcome, with those of earlier runs."`
	Before   int64          `json:"done_before" doc:"Of which earlier runs did so many."`
	Failed   int64          `json:"failed" doc:"Records whose outcome is an error, with those of earlier runs."`
	Marked   int64          `json:"marked" doc:"Of which so many broke workers."`
	Retries  int64          `json:"retries" doc:"Records that had to be given out again."`
	Restarts int64          `json:"restarts" doc:"Workers that were started again."`

	Rate gpu.Opt[float64] `json:"records_per_second,omitzero" doc:"Over the last ten seconds."`
	Left gpu.Opt[float64] `json:"seconds_left,omitzero" doc:"As far as can be told from what was seen."`

	Workers int           `json:"workers"`
	GPUs    []GPUProgress `json:"gpus"`
}

// GPUProgress is the part of one GPU in a run.
type GPUProgress struct {
	GPU
	Workers  int              `json:"workers" doc:"That have a place there."`
	Ready    int              `json:"ready" doc:"Of which take records."`
	Speed    float64          `json:"multiplier"`
	Batch    int              `json:"batch" doc:"Records in the last batch."`
	Done     int64            `json:"done"`
	Failed   int64            `json:"failed"`
	Retries  int64            `json:"retries"`
	Restarts int64            `json:"restarts"`
	GivenUp  bool             `json:"given_up"`
	Busy     float64          `json:"busy_seconds" doc:"Time that its workers were at work, added up."`
	Rate     gpu.Opt[float64] `json:"records_per_second,omitzero"`
	Latency  Histogram        `json:"latency" doc:"How long the batch took that a record was in."`
}

// Progress returns the state of the run. Any goroutine may call it at any time.
func (r *Run) Progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := Progress{
		Output: r.opt.Output, Piped: r.opt.Pipe != nil, Stage: r.tally.stage, Started: r.tally.started, Exact: r.input.eof,
		Done: r.before + r.tally.done, Before: r.before, Failed: r.tally.failed, Marked: r.tally.marked,
		Retries: r.tally.retries, Restarts: r.tally.restarts, Workers: r.staff.workers,
		Rate: r.tally.rates.of(func(s rateSample) int64 { return s.done }),
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
		p.GPUs = append(p.GPUs, c.progress(r.tally.rates.of(func(s rateSample) int64 { return s.gpus[c.gpu.UUID] })))
	}
	slices.SortFunc(p.GPUs, func(a, b GPUProgress) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID))
	})
	return p
}

func (c *card) progress(rate gpu.Opt[float64]) GPUProgress {
	return GPUProgress{
		GPU: c.gpu, Workers: c.workers, Ready: c.ready, Speed: c.speed, Batch: c.batch,
		Done: c.done, Failed: c.failed, Retries: c.retries, Restarts: c.restarts, GivenUp: c.givenUp,
		Busy: c.busy.Seconds(), Rate: rate, Latency: c.latency.clone(),
	}
}

// tally holds the counts and the stage of a run. The run's lock guards it.
type tally struct {
	stage                     Stage
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
		for uuid, c := range r.staff.cards {
			s.gpus[uuid] = c.done
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

func (r *Run) setStage(s Stage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.stage = s
	r.tally.ended = time.Now()
}
