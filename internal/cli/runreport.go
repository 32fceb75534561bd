package cli

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/batch"
	"github.com/berth-gpu/berth/internal/words"
)

const (
	reportEvery = time.Second
	// reportPatience is how long a report may take. The run does not wait for
	// it, but its end does.
	reportPatience = 2 * time.Second
)

// reporter tells the daemon how a batch goes. A daemon that is away misses it.
type reporter struct {
	client  *client.Client
	run     *batch.Run
	id      string
	command string
}

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

func (r *reporter) send(ctx context.Context, failure error) {
	ctx, cancel := context.WithTimeout(ctx, reportPatience)
	defer cancel()
	b := batchOf(r.run.Progress())
	b.ID, b.Command = r.id, clip(r.command)
	if failure != nil && !errors.Is(failure, batch.ErrStopped) {
		b.Error = clip(failure.Error())
	}
	_, _ = r.client.ReportBatch(ctx, b)
}

// clip keeps a text to what the daemon takes.
func clip(text string) string { return words.Cut(text, 1000) }

// batchOf is the progress of a run in the words of the API.
func batchOf(p batch.Progress) api.Batch {
	b := api.Batch{
		Output: p.Output, Stage: string(p.Stage), Started: p.Started,
		Total: p.Total, Exact: p.Exact, Done: p.Done, Before: p.Before, Failed: p.Failed, Marked: p.Marked,
		Retries: p.Retries, Restarts: p.Restarts, Rate: p.Rate, Left: p.Left,
		Workers: p.Workers, GPUs: []api.BatchGPU{},
	}
	if path, err := filepath.Abs(p.Output); err == nil {
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
