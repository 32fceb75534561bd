package leasing

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
)

// The id of a lease that has ended may be that of a lease of somebody else, which the name
// of the one that has ended does not mean.
func TestANameOfWhatHasEndedReachesNobodyElse(t *testing.T) {
	leases := []api.Lease{{ID: "llm", Holder: api.Holder{User: "carol", Name: "vllm"}}, {ID: "eval-2", Holder: api.Holder{User: "ada", Name: "eval"}}}
	say := func(w http.ResponseWriter, status int, answer any) {
		w.Header().Set("Content-Type", map[bool]string{true: "application/problem+json", false: "application/json"}[status >= 400])
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch id, one := strings.CutPrefix(r.URL.Path, "/api/leases/"); {
		case r.URL.Path == "/api/whoami":
			say(w, http.StatusOK, api.Whoami{User: "ada"})
		case r.URL.Path == "/api/past/leases":
			say(w, http.StatusOK, api.PastLeases{Leases: []api.PastLease{{ID: "llm", Holder: api.Holder{User: "ada", Name: "python"}}, {ID: "eval-2", Holder: api.Holder{User: "ada", Name: "eval"}}}})
		case !one:
			say(w, http.StatusOK, api.Leases{Leases: leases})
		default:
			for _, l := range leases {
				if user := r.URL.Query().Get("user"); l.ID == id && (user == "" || user == l.Holder.User) {
					say(w, http.StatusOK, l)
					return
				}
			}
			say(w, http.StatusNotFound, api.Problem{Status: http.StatusNotFound, Code: "unknown_allocation"})
		}
	}))
	defer server.Close()
	c, err := client.New(client.Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"python": "", "pyth": "", "llm": "carol", "vllm": "carol", "carol/llm": "carol", "eval": "ada"} {
		found, err := byName(t.Context(), c, text, func(c *client.Client, id string) (api.Lease, error) { return c.Lease(t.Context(), id) })
		if found.Holder.User != want || (err == nil) != (want != "") {
			t.Errorf("%s means the lease of %q, want %q: %v", text, found.Holder.User, want, err)
		}
	}
}
