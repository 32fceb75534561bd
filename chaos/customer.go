package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// customer takes leases and gives them back, or dies with them.
type customer struct {
	*witness
	name   string
	random *rand.Rand
	turn   int
}

func (c *customer) work(ctx context.Context) {
	for ctx.Err() == nil {
		c.turn++
		if c.random.IntN(3) == 0 {
			c.holder(ctx)
		} else {
			c.named(ctx)
		}
	}
}

func (c *customer) request() api.LeaseRequest {
	return api.LeaseRequest{
		ID: fmt.Sprintf("%s-%d", c.name, c.turn), Slots: gpu.Some(0),
		Memory: gpu.MiB(200 + c.random.IntN(2800)), Timeout: gpu.Some(float64(c.random.IntN(3)) * 0.2),
	}
}

// named takes a lease that only a release ends.
func (c *customer) named(ctx context.Context) {
	if l, ok := c.acquire(c.request()); ok {
		c.rest(ctx)
		c.release(l)
	}
}

// holder takes a lease for a process of its own, which is then killed, or not.
func (c *customer) holder(ctx context.Context) {
	child := exec.Command("cat")
	stdin, err := child.StdinPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		c.mu.Lock()
		c.fault("start a holder: %v", err)
		c.mu.Unlock()
		return
	}
	defer func() { _, _ = stdin.Close(), child.Wait() }()
	r := c.request()
	r.Binding, r.PID = "process", child.Process.Pid
	l, ok := c.acquire(r)
	if !ok {
		return
	}
	c.rest(ctx)
	if c.random.IntN(2) == 0 {
		c.leaves(l, true)
		_ = child.Process.Kill()
		return
	}
	c.release(l)
}

func (c *customer) rest(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(c.random.IntN(400)) * time.Millisecond):
	}
}

// acquire asks once. If no answer comes, it finds out what became of it.
func (c *customer) acquire(r api.LeaseRequest) (api.Lease, bool) {
	after := c.before()
	l, err := c.client.Acquire(context.Background(), r)
	switch {
	case err == nil:
		c.took(l, after)
		return l, true
	case isRefusal(err):
		c.count(&c.refused)
		return l, false
	}
	c.count(&c.unknown)
	l, there := c.find(r.ID)
	if there {
		c.took(l, after)
	}
	return l, there
}

// release gives back until it is certain.
func (c *customer) release(l api.Lease) {
	c.leaves(l, false)
	for {
		_, err := c.client.Release(context.Background(), l.ID, l.Fence)
		if err == nil || isRefusal(err) { // refused: an earlier try had come through
			c.count(&c.released)
			return
		}
		c.count(&c.unknown)
		time.Sleep(5 * time.Millisecond)
	}
}

// find asks for a lease until there is an answer.
func (c *customer) find(id string) (api.Lease, bool) {
	for {
		l, err := c.client.Lease(context.Background(), id)
		if err == nil {
			return l, true
		}
		if isRefusal(err) {
			return l, false
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// isRefusal tells an answer of the daemon's from none.
func isRefusal(err error) bool {
	p := (*api.Problem)(nil)
	return errors.As(err, &p) && p.Status < http.StatusInternalServerError
}
