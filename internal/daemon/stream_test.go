package daemon

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// The client speaks the lease stream, and the daemon knows who is at its other
// end without being told.
func TestLeasesOverTheStream(t *testing.T) {
	c, stop := newPlace(t, "sim:2").start(t)
	l, err := c.Acquire(t.Context(), api.LeaseRequest{ID: "a", Memory: 64, Binding: "process", Timeout: gpu.Some(0.0)})
	if err != nil {
		t.Fatal(err)
	}
	if uid, _ := l.Holder.UID.Get(); uid != os.Geteuid() || l.Holder.PID != os.Getpid() {
		t.Errorf("the holder is %+v", l.Holder)
	}
	if _, err := c.Renew(t.Context(), "a", api.Renew{Fence: l.Fence}); codeOf(err) != "no_time_to_live" {
		t.Errorf("renew: %v", err)
	}
	if _, err := c.Release(t.Context(), "a", l.Fence); err != nil {
		t.Error(err)
	}
	metrics, err := c.Prometheus(t.Context())
	if err != nil || !strings.Contains(string(metrics), `gpu_allocation_requests_total{status="granted"} 1`) {
		t.Errorf("the grant was not counted: %v", err)
	}
	c.Close()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A daemon that stops does not leave those hanging who wait on a stream, and
// waits for its streams itself.
func TestStopsWithAStreamThatWaits(t *testing.T) {
	c, stop := newPlace(t, "sim:1").start(t)
	if _, err := c.Acquire(t.Context(), api.LeaseRequest{ID: "all", Memory: 1, Slots: gpu.Some(0), GPU: "0"}); err != nil {
		t.Fatal(err)
	}
	available, err := c.Available(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	asks, leave := context.WithCancel(t.Context()) // the client asks again, until its caller leaves
	defer leave()
	go func() {
		_, err := c.Acquire(asks, api.LeaseRequest{ID: "more", Memory: available.GPUs[0].Available + 1, Slots: gpu.Some(0), Timeout: gpu.Some(3600.0)})
		waited <- err
	}()
	for all, err := c.Leases(t.Context()); len(all.Waiting) == 0; all, err = c.Leases(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	leave()
	if err := <-waited; err == nil {
		t.Error("what waited was granted")
	}
}

func codeOf(err error) string {
	problem := (*api.Problem)(nil)
	if !errors.As(err, &problem) || problem.Status < http.StatusBadRequest {
		return ""
	}
	return problem.Code
}
