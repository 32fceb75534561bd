package programs

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
)

// planShow notes what is waited for and what is said.
type planShow struct {
	stage
	said
	waits string
}

// Waits notes the run, its lease, and the end of the wait.
func (s *planShow) Waits(_ context.Context, run, id string) func() {
	s.waits += run + " " + id
	return func() { s.waits += " done" }
}

// Say notes a line.
func (s *planShow) Say(format string, args ...any) { s.say(format, args...) }

func TestLeaseOfARun(t *testing.T) {
	asked, gives := api.PlanRun{}, api.PlanRunning{Runs: []api.RunningRun{{Name: "well[1]", Lease: &api.Lease{Launch: &api.Launch{}}}}}
	told := &planShow{}
	s := &planStarter{daemon: answering(t, &asked, &gives), PlanOptions: PlanOptions{Show: told}}
	p := &api.PlannedPipeline{Name: "well", Memory: 1, Steps: []api.PlannedStep{{}}, Runs: []api.PlannedRun{{Name: "well[0]"}, {Name: "well[1]"}}}
	placed, err := s.lease(t.Context(), p, p.Runs[1], 42)
	if err != nil || placed.Name != "well[1]" {
		t.Fatalf("%+v, %v", placed, err)
	}
	if only := asked.Plan.Pipelines[0]; len(only.Runs) != 1 || only.Runs[0].Name != "well[1]" || only.Steps != nil || asked.PID != 42 {
		t.Errorf("it asked for %+v", asked)
	}
	if asked.Timeout.Or(0) != longestWait.Seconds() || !strings.HasPrefix(asked.ID, "well[1]-") || told.waits != "well[1] "+asked.ID+" done" {
		t.Errorf("it asked for %+v, and told %q", asked, told.waits)
	}
	gives.Runs[0].Lease.Launch = nil
	if _, err := s.lease(t.Context(), p, p.Runs[1], 42); err == nil || s.again(t.Context(), 1, err) {
		t.Errorf("a daemon of another version: %v", err)
	}
}

// A daemon that does not answer is asked again for a minute; a refusal counts at
// once.
func TestAgainWaitsForTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &planShow{}
		s := &planStarter{PlanOptions: PlanOptions{Show: told}}
		away := errors.New("connection refused")
		begun, tries := time.Now(), 1
		for ; s.again(t.Context(), tries, away); tries++ {
		}
		if tries != daemonTries+1 || time.Since(begun) != daemonTries*time.Second || len(told.lines) != 1 {
			t.Errorf("%d tries in %s, said %q", tries, time.Since(begun), told.lines)
		}
		if s.again(t.Context(), 1, &api.Problem{Status: http.StatusConflict, Code: "insufficient_memory"}) {
			t.Error("a refusal was not believed")
		}
		for status, code := range map[int]string{http.StatusServiceUnavailable: "stopping", http.StatusTooManyRequests: "no_turn", http.StatusInsufficientStorage: "disk_full"} {
			if !s.again(t.Context(), 1, &api.Problem{Status: status, Code: code}) {
				t.Errorf("%s was taken for the last word", code)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if s.again(ctx, 1, away) {
			t.Error("it asks again after the end")
		}
	})
}
