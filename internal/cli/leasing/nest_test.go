package leasing

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
)

// A plain request is for a child of the lease that the environment names. Where the id means
// another one, the fence says which, and the daemon whether that stands.
func TestNest(t *testing.T) {
	for name, c := range map[string]struct {
		lease  api.Lease // with the id; without one if the fence is 0
		stands uint64    // the fence of the lease around the command
		older  bool      // the daemon, which knows no fences of parents
		status int       // of a refusal of every question
		want   string
		fails  bool
	}{
		"it stands":                {lease: api.Lease{Fence: 7, State: "active"}, stands: 7, want: "job-1"},
		"it is parked":             {lease: api.Lease{Fence: 7, State: "parked"}, stands: 7},
		"it has ended":             {},
		"its id means another one": {lease: api.Lease{Fence: 9, State: "parked"}, stands: 7, want: "job-1 of 7"},
		"its id is another's now":  {lease: api.Lease{Fence: 9, State: "active"}},
		"the daemon is older":      {lease: api.Lease{Fence: 9, State: "active"}, stands: 7, older: true},
		"it may not ask":           {status: http.StatusForbidden},
		"too much is under way":    {status: http.StatusTooManyRequests, fails: true},
		"the daemon stops":         {status: http.StatusServiceUnavailable, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			refuse := func(w http.ResponseWriter, p api.Problem) {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(p.Status)
				_ = json.NewEncoder(w).Encode(p)
			}
			daemon := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var asked api.LeaseRequest
				_ = json.NewDecoder(r.Body).Decode(&asked)
				switch {
				case c.status != 0:
					refuse(w, api.Problem{Status: c.status, Code: "refused"})
				case r.URL.Path == "/api/leases/job-1" && c.lease.Fence == 0:
					refuse(w, api.Problem{Status: http.StatusNotFound, Code: "unknown_allocation"})
				case r.URL.Path == "/api/leases/job-1":
					answer(w, c.lease)
				case c.older && asked.ParentFence != 0:
					refuse(w, api.Problem{Status: http.StatusUnprocessableEntity, Code: "invalid_request"})
				case asked.Parent != "job-1" || asked.ParentFence != c.stands:
					refuse(w, api.Problem{Status: http.StatusConflict, Code: "no_parent"})
				default:
					answer(w, api.Explanation{})
				}
			})
			asks, err := client.New(client.Options{Transport: client.Through(daemon)})
			if err != nil {
				t.Fatal(err)
			}
			o := execOptions{Console: &console.Console{Env: console.Env{Environ: []string{"BERTH_LEASE=job-1", "BERTH_FENCE=7"}}}}
			if err := o.nest(t.Context(), asks); (err != nil) != c.fails {
				t.Error(err)
			}
			got := o.request.Parent
			if o.request.ParentFence != 0 {
				got += fmt.Sprint(" of ", o.request.ParentFence)
			}
			if got != c.want || o.request.Slots.Known() != (c.want != "") {
				t.Errorf("it is a child of %q, want %q: %+v", got, c.want, o.request)
			}
		})
	}
}
