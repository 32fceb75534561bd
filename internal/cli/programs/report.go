package programs

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch"
	"github.com/berth-gpu/berth/internal/text/words"
)

const (
	reportEvery = time.Second
	// reportPatience is how long a report may take. The run does not wait for
	// it, but its end does.
	reportPatience = 2 * time.Second
)

// reporter reports the progress of a batch to the daemon. A daemon that is away misses
// reports.
type reporter struct {
	daemon   Daemon
	standing func() api.Batch
	id       string
	command  string
	energy   gpu.Opt[gpu.Joules] // used by the workers, once known
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
	b := r.standing()
	b.ID, b.Command, b.Energy = r.id, clip(r.command), r.energy
	if failure != nil && !errors.Is(failure, batch.ErrStopped) {
		b.Error = clip(failure.Error())
	}
	_, _ = r.daemon.ReportBatch(ctx, b)
}

// clip cuts a text to the length that the daemon accepts.
func clip(text string) string { return words.Cut(text, 1000) }

// Standing returns the progress of the batch in the form of a report to the daemon.
func (b *Batch) Standing() api.Batch { return standing(b.Run.Progress()) }

func standing(p batch.Progress) api.Batch {
	b := api.Batch{
		Output: p.Output, Stage: string(p.Stage), Started: p.Started,
		Total: p.Total, Exact: p.Exact, Done: p.Done, Before: p.Before, Failed: p.Failed, Marked: p.Marked,
		Retries: p.Retries, Restarts: p.Restarts, Rate: p.Rate, Left: p.Left,
		Workers: p.Workers, GPUs: []api.BatchGPU{},
	}
	if path, err := filepath.Abs(p.Output); err == nil && !p.Piped {
		b.Output = path
	}
	for _, g := range p.GPUs {
		b.GPUs = append(b.GPUs, api.BatchGPU{
			GPU: g.UUID, Index: g.Index, Name: g.Name, Workers: g.Workers, Ready: g.Ready, Speed: g.Speed, Batch: g.Batch,
			Done: g.Done, Failed: g.Failed, Retries: g.Retries, Restarts: g.Restarts, GivenUp: g.GivenUp, Busy: g.Busy, Rate: g.Rate,
			Latency: api.Latency{Bounds: g.Latency.Bounds, Counts: g.Latency.Counts, Sum: g.Latency.Sum},
		})
	}
	return b
}

// Ended returns the summary of a batch in the form of a report to the daemon. The rates
// are those of the whole run.
func Ended(s batch.Summary) api.Batch {
	b := api.Batch{
		Stage: string(s.Stage), Done: s.Records, Before: s.Before, Failed: s.Failed, Marked: s.Marked,
		Retries: s.Retries, Restarts: s.Restarts, Error: s.Error, Energy: s.Energy,
	}
	for _, g := range s.GPUs {
		b.GPUs = append(b.GPUs, api.BatchGPU{
			GPU: g.UUID, Index: g.Index, Name: g.Name, Done: g.Records, Failed: g.Failed, Restarts: g.Restarts,
			Rate: gpu.Some(g.Rate), Busy: g.Busy,
		})
	}
	return b
}
