package daemon

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
)

// held lists the ids of what is held.
func held(t *testing.T, c *client.Client) map[string]api.Lease {
	t.Helper()
	all, err := c.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]api.Lease{}
	for _, l := range all.Leases {
		byID[l.ID] = l
	}
	return byID
}

// A lease that a program holds is bound to it over the socket, where the daemon
// knows who it is, and renewed by it over anything else.
func TestHold(t *testing.T) {
	p := newPlace(t, "sim:2")
	local, _ := p.start(t)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", p.flags["daemon.socket"])
	}}
	remote, err := client.New(client.Options{Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	defer remote.Close()
	for binding, c := range map[string]*client.Client{"process": local, "ttl": remote} {
		l, err := c.Hold(t.Context(), api.LeaseRequest{Memory: 1024, GPUs: 2, Slots: gpu.Some(0)})
		if err != nil {
			t.Fatalf("%s: %v", binding, err)
		}
		standing, found := held(t, local)[l.ID]
		if !found || standing.Binding != binding || len(standing.Parts) != 2 || standing.Fence != l.Fence {
			t.Errorf("%s: held %+v, standing %+v", binding, l.Lease, standing)
		}
		if binding == "process" && standing.Holder.PID != os.Getpid() {
			t.Errorf("held by process %d, and this is %d", standing.Holder.PID, os.Getpid())
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if left := held(t, local); len(left) != 0 {
			t.Errorf("%s: left behind: %v", binding, left)
		}
	}
}

// Ids are the caller's choice: whatever they look like, every call about them
// finds the lease.
func TestOddIDs(t *testing.T) {
	c, _ := newPlace(t, "sim:1").start(t)
	for _, id := range []string{".", "..", "a/b", "a b", "ü%2F?#&=", "adopt", "explain", "模擬", "a+b", "%"} {
		granted, err := c.Allocate(t.Context(), api.Allocate{ID: id, Memory: 1, TTL: gpu.Some(60.0)})
		if err != nil {
			t.Errorf("%q: %v", id, err)
			continue
		}
		if found, err := c.Lease(t.Context(), id); err != nil || found.ID != id {
			t.Errorf("find %q: %q, %v", id, found.ID, err)
		}
		if e, err := c.ExplainWaiting(t.Context(), id); err != nil || !e.Fits {
			t.Errorf("explain %q: %+v, %v", id, e, err)
		}
		if renewed, err := c.Renew(t.Context(), id, api.Renew{Fence: granted.Fence}); err != nil || renewed.ID != id {
			t.Errorf("renew %q: %+v, %v", id, renewed, err)
		}
		if ended, err := c.Release(t.Context(), id, granted.Fence); err != nil || ended.Lease == nil || ended.ID != id {
			t.Errorf("release %q: %+v, %v", id, ended, err)
		}
	}
	for _, id := range []string{"", " ", "a\nb"} {
		_, err := c.Allocate(t.Context(), api.Allocate{ID: id, Memory: 1})
		if problem := (*api.Problem)(nil); !errors.As(err, &problem) || problem.Status >= 500 {
			t.Errorf("%q: error %v", id, err)
		}
	}
	if left := held(t, c); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
