package programs

import (
	"context"
	"errors"
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

// Ended returns the summary of a batch in the form of a report to the daemon. The rates
// are those of the whole run.
func Ended(s batch.Summary) api.Batch {
	b := api.Batch{
		Stage: s.Stage, Done: s.Records, Before: s.Before, Failed: s.Failed, Marked: s.Marked,
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
