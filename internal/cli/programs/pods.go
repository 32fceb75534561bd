package programs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch"
	"github.com/berth-gpu/berth/internal/batch/remote"
	"github.com/berth-gpu/berth/internal/batch/worker"
	"github.com/berth-gpu/berth/internal/process/child"
)

// PodShop is a pod as a runner uses it: Kubernetes has leased its GPU, so there are places
// without a daemon.
type PodShop struct {
	workers *worker.Starter
	free    chan int
	gpu     batch.GPU
	here    *os.File // locked as long as a runner is here
}

// OpenPodShop opens a pod with places for some workers. Lock is a file that AwaitRunners
// looks at.
func OpenPodShop(t remote.Task, getenv func(string) string, environ []string, log io.Writer, lock string) (*PodShop, error) {
	if _, err := child.Program(t.Command[0], child.PathOf(environ)); err != nil {
		return nil, err
	}
	here, err := os.OpenFile(lock, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(here.Fd()), unix.LOCK_SH); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", lock, err), here.Close())
	}
	s := &PodShop{here: here, free: make(chan int, max(t.PerGPU, 1)), gpu: batch.GPU{UUID: "gpu", Name: "the GPU of the pod"}}
	if id := getenv("BERTH_LEASE"); id != "" {
		s.gpu.UUID = id
	}
	for n := range cap(s.free) {
		s.free <- n
	}
	if s.workers, err = worker.NewStarter(worker.Command{Args: t.Command, Log: log}); err != nil {
		return nil, errors.Join(err, here.Close())
	}
	return s, nil
}

// Acquire returns a place, as soon as there is one.
func (s *PodShop) Acquire(ctx context.Context, req batch.WorkerRequest) (batch.Grant, error) {
	for _, avoid := range req.Avoid {
		if avoid == s.gpu.UUID {
			return batch.Grant{}, fmt.Errorf("%w: workers kept failing there", batch.ErrRefused)
		}
	}
	select {
	case n := <-s.free:
		return batch.Grant{GPU: s.gpu, Release: func() { s.free <- n }}, nil
	case <-ctx.Done():
		return batch.Grant{}, ctx.Err()
	}
}

// Start starts a worker.
func (s *PodShop) Start(_ *batch.Grant, prefix string, env []string) (batch.Process, error) {
	return s.workers.Start(prefix, env)
}

// Report does nothing: a pod has no daemon.
func (s *PodShop) Report(api.Batch) {}

// Close ends the workers.
func (s *PodShop) Close() gpu.Opt[gpu.Joules] {
	s.workers.Close()
	_ = s.here.Close() // which unlocks it
	return gpu.Opt[gpu.Joules]{}
}

// AwaitRunners waits until no runner was here for a while. If ctx ends first, it returns an
// error: a pod that is ended has not succeeded, and the Job makes another one.
func AwaitRunners(ctx context.Context, lock string, alone time.Duration) error {
	file, err := os.OpenFile(lock, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer file.Close()
	tick := time.NewTicker(min(alone/10, 5*time.Second))
	defer tick.Stop()
	last := time.Now()
	for time.Since(last) < alone {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			_ = unix.Flock(int(file.Fd()), unix.LOCK_UN)
		case errors.Is(err, unix.EWOULDBLOCK):
			last = time.Now()
		case !errors.Is(err, unix.EINTR):
			return fmt.Errorf("lock %s: %w", lock, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}

// Install copies this program to a path.
func Install(to string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	from, err := os.Open(self)
	if err != nil {
		return err
	}
	defer from.Close()
	part, err := os.CreateTemp(filepath.Dir(to), ".berth-")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name()) // it is gone if all went well
	if _, err = io.Copy(part, from); err == nil {
		err = part.Chmod(0o755)
	}
	if err = errors.Join(err, part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), to)
}
