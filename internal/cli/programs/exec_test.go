package programs

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process/child"
	"github.com/berth-gpu/berth/internal/process/launch"
)

// answering returns a client of a daemon that notes what it is asked, and gives the same
// answer every time.
func answering(t *testing.T, asked, answer any) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{Transport: client.Through(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(asked); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestExec(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	request := launch.Request{Compute: 30, LeaseRequest: api.LeaseRequest{ID: "exec-1", Memory: 100}}
	e, err := NewExec(request, []string{"sh", "-c", "true"}, []string{"PATH=/usr/bin:/bin", "HOME=/home"}, "berth.sock")
	if err != nil || !strings.HasSuffix(e.File, "/sh") {
		t.Fatalf("%+v, %v", e, err)
	}
	asked, gives := api.LeaseRequest{}, api.Lease{ID: "exec-1"}
	c := answering(t, &asked, &gives)
	if _, err := e.Acquire(t.Context(), c); err == nil || asked.ID != "exec-1" {
		t.Errorf("a daemon that is too old gave %+v, %v", asked, err)
	}
	gives.EnforcedBy, gives.Parts = launch.MPS, []api.LeasePart{{GPU: "GPU-0", Memory: 100}}
	gives.Launch = &api.Launch{MPS: "/run/mps", Devices: []gpu.Device{{UUID: "GPU-0"}}}
	granted, err := e.Acquire(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	environ := e.Environment(granted)
	for _, want := range []string{
		"HOME=/home", "CUDA_VISIBLE_DEVICES=GPU-0", "BERTH_LEASE=exec-1", "BERTH_SOCKET=" + folder + "/berth.sock",
		"CUDA_MPS_PIPE_DIRECTORY=/run/mps", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30",
	} {
		if !slices.Contains(environ, want) {
			t.Errorf("%s is not in %q", want, environ)
		}
	}
	changes, receipt := e.Preview(granted)
	if slices.Contains(changes, "HOME=/home") || !slices.Contains(changes, "CUDA_MPS_PIPE_DIRECTORY=(of the MPS daemon that would be started)") {
		t.Errorf("it would change %q", changes)
	}
	if receipt.EnforcedBy != launch.MPS || len(receipt.Held) == 0 {
		t.Errorf("%+v", receipt)
	}
}

func TestExecOfACommandThatIsNotThere(t *testing.T) {
	missing := (*child.ProgramError)(nil)
	if _, err := NewExec(launch.Request{}, []string{"no-such-command"}, nil, ""); !errors.As(err, &missing) || missing.Exit != child.ExitNotFound {
		t.Errorf("it was found: %v", err)
	}
}
