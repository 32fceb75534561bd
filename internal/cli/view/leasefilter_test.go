package view

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/cli/fleet"
)

func TestLeaseFilter(t *testing.T) {
	ann, bob := api.Holder{Service: "embedder", User: "ann"}, api.Holder{Service: "trainer", User: "bob"}
	all := api.Leases{
		Leases: []api.Lease{
			{ID: "a", Holder: ann, Parts: []api.LeasePart{{GPU: "GPU-0"}}},
			{ID: "b", Holder: bob, Parts: []api.LeasePart{{GPU: "GPU-0"}, {GPU: "GPU-1"}}},
		},
		Waiting: []api.Waiting{{ID: "w", Holder: ann}},
	}
	for _, c := range []struct {
		filter LeaseFilter
		want   []string
	}{
		{LeaseFilter{}, []string{"a", "b", "w"}},
		{LeaseFilter{Filter: fleet.Filter{Services: []string{"embedder"}}}, []string{"a", "w"}},
		{LeaseFilter{Filter: fleet.Filter{Users: []string{"bob"}}}, []string{"b"}},
		{LeaseFilter{GPUs: []string{"GPU-1"}}, []string{"b"}},
		{LeaseFilter{GPUs: []string{"GPU-0"}, Filter: fleet.Filter{Users: []string{"ann"}}}, []string{"a"}},
		{LeaseFilter{Filter: fleet.Filter{Services: []string{"embedder"}, Users: []string{"bob"}}}, nil},
		{LeaseFilter{Filter: fleet.Filter{Services: []string{"embedder", "trainer"}}}, []string{"a", "b", "w"}},
		{LeaseFilter{GPUs: []string{"GPU-1", "GPU-0"}}, []string{"a", "b"}},
	} {
		var got []string
		chosen := c.filter.Apply(all)
		for _, l := range chosen.Leases {
			got = append(got, l.ID)
		}
		for _, w := range chosen.Waiting {
			got = append(got, w.ID)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.filter, diff)
		}
	}
}
