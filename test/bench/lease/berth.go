package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
)

// berth is a berth daemon with eight simulated devices.
type berth struct {
	*server
	socket string
}

func startBerth(ctx context.Context, program, dir string) (*berth, error) {
	b := &berth{socket: filepath.Join(dir, "s")}
	config := filepath.Join(dir, "berth.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "gpu:\n  max_pipelines: %d\n", slots), 0o600); err != nil {
		return nil, err
	}
	var err error
	b.server, err = launch(ctx, b.ready, program, "serve", "--devices", "sim:dgx-h200", "--config", config,
		"--state-dir", filepath.Join(dir, "state"), "--socket", b.socket, "--listen", "")
	return b, err
}

func (b *berth) ready(ctx context.Context) error {
	c, err := client.New(client.Options{Socket: b.socket})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Ready(ctx)
	return err
}

// connect returns a new client for each session. Sessions that share a client
// would be quicker, but usually different processes want leases.
func (b *berth) connect(context.Context) (session, error) {
	c, err := client.New(client.Options{Socket: b.socket})
	return &berthSession{client: c, ending: api.LeaseRequest{TTL: gpu.Some[float64](lifetime)}}, err
}

// berthProcess is the same daemon with leases that are bound to the process of
// the client. They end with the process, and so with the machine: berth writes
// them to the journal before it answers, and does not wait for the disk.
type berthProcess struct{ *berth }

func (b *berthProcess) stop() error { return nil } // startBerth's contender stops the daemon

func (b *berthProcess) connect(context.Context) (session, error) {
	c, err := client.New(client.Options{Socket: b.socket})
	return &berthSession{client: c, ending: api.LeaseRequest{Binding: "process"}}, err
}

// berthSession uses the Go client, which speaks the lease stream.
type berthSession struct {
	client *client.Client
	ending api.LeaseRequest // the request that releases a lease
	fence  uint64           // of the held lease
}

func (s *berthSession) close() error { s.client.Close(); return nil }

func (s *berthSession) acquire(ctx context.Context, id string) error {
	r := s.ending
	r.ID, r.Memory, r.Timeout = id, want, gpu.Some(0.0)
	l, err := s.client.Acquire(ctx, r)
	s.fence = l.Fence
	return err
}

func (s *berthSession) release(ctx context.Context, id string) error {
	_, err := s.client.Release(ctx, id, s.fence)
	return err
}
