package programs

import (
	"errors"
	"net/http"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/batch"
	"github.com/berth-gpu/berth/internal/process/launch"
)

// A worker begins when it is in the control group of its lease, and not before:
// not while the daemon is away, and not if the daemon refuses. The process of the
// run is in none.
func TestWorkerBeginsIsolated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDaemon(2)
		p, _ := placesOf(t, d, BatchOptions{Request: api.LeaseRequest{Isolation: "cgroup"}})
		var begun []int
		p.begin = func(pid int) { begun = append(begun, pid) }
		acquire := func() batch.Grant {
			g, err := p.Acquire(t.Context(), batch.WorkerRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if !launch.InCgroup(g.Env) {
				t.Errorf("the environment of the worker is %q", g.Env)
			}
			return g
		}
		first := acquire()
		if s := p.slots["GPU-0"]; s == nil || s.Launch != nil {
			t.Errorf("the slot of the run asks for isolation: %+v", s)
		}
		d.binds(errors.New("the daemon is away"))
		go func() {
			time.Sleep(1500 * time.Millisecond)
			if len(begun) > 0 {
				t.Error("the worker has begun without a daemon")
			}
			d.binds(nil)
		}()
		if err := first.Started(os.Getpid()); err != nil {
			t.Error(err)
		}
		if !slices.Equal(begun, []int{os.Getpid()}) || !slices.Equal(d.isolated, []string{"cgroup", "cgroup", "cgroup"}) {
			t.Errorf("begun are %v, and Bind was asked for %q", begun, d.isolated)
		}
		refusal := &api.Problem{Status: http.StatusConflict}
		d.binds(refusal)
		second := acquire()
		if err := second.Started(os.Getpid()); !errors.Is(err, refusal) || len(begun) != 1 {
			t.Errorf("refused: %v, begun are %v", err, begun)
		}
		first.Release()
		second.Release()
	})
}
