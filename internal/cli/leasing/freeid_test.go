package leasing

import (
	"testing"

	"github.com/berth-gpu/berth/api"
)

func TestFreeID(t *testing.T) {
	taken := api.Leases{Leases: []api.Lease{{ID: "a"}, {ID: "b"}, {ID: "b-2"}}, Waiting: []api.Waiting{{ID: "b-3"}}}
	for service, want := range map[string]string{"a": "a-2", "b": "b-4", "c": "c"} {
		if got := freeID(service, taken); got != want {
			t.Errorf("%s: %s, want %s", service, got, want)
		}
	}
}
