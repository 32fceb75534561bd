package programs

import (
	"context"
	"sync"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch"
	"github.com/berth-gpu/berth/internal/batch/worker"
	"github.com/berth-gpu/berth/internal/process/child"
	"github.com/berth-gpu/berth/internal/process/launch"
)

// crew starts workers on this machine under leases of its daemon.
type crew struct {
	*places
	workers *worker.Starter
}

// newCrew asks the daemon for its devices. The caller must close the workers.
func newCrew(ctx context.Context, d Daemon, o BatchOptions) (*crew, error) {
	program, err := child.Program(o.Command[0], child.PathOf(o.Environ))
	if err != nil {
		return nil, err
	}
	c := &crew{}
	if c.places, err = newPlaces(ctx, d, o, child.Torch(program, o.Environ)); err != nil {
		return nil, err
	}
	if c.workers, err = worker.NewStarter(worker.Command{Args: o.Command, Env: []string{HeadStart}, Log: o.Log}); err != nil {
		return nil, err
	}
	c.begin = c.workers.Begin
	return c, nil
}

// Start starts a worker, with the environment of its grant.
func (c *crew) Start(_ *batch.Grant, prefix string, env []string) (batch.Process, error) {
	if launch.InCgroup(env) {
		return c.workers.StartHeld(prefix, env)
	}
	return c.workers.Start(prefix, env)
}

// Workshop is this machine as a runner on another one uses it (package remote).
type Workshop struct {
	*crew
	stop     context.CancelFunc
	watching sync.WaitGroup
}

// OpenWorkshop opens a workshop. The caller must close it.
func OpenWorkshop(ctx context.Context, d Daemon, o BatchOptions) (*Workshop, error) {
	c, err := newCrew(ctx, d, o)
	if err != nil {
		return nil, err
	}
	w := &Workshop{crew: c}
	ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	w.watching.Go(func() { c.look(ctx) })
	w.watching.Go(func() { c.listen(ctx) })
	return w, nil
}

// Report tells the daemon how far the batch is.
func (w *Workshop) Report(b api.Batch) {
	ctx, cancel := context.WithTimeout(context.Background(), reportPatience)
	defer cancel()
	_, _ = w.daemon.ReportBatch(ctx, b) // a daemon that is away misses it
}

// Close ends the workers, and returns the energy that they used.
func (w *Workshop) Close() gpu.Opt[gpu.Joules] {
	used := w.energy(context.Background())
	w.stop()
	w.watching.Wait()
	w.workers.Close()
	return used
}
