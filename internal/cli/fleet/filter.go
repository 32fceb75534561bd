package fleet

import (
	"slices"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Filter selects leases by their holder. An empty field selects all.
type Filter struct{ Service, User string }

// Apply returns the machines with the leases that match.
func (f Filter) Apply(all api.Nodes) api.Nodes {
	some := api.Nodes{Nodes: slices.Clone(all.Nodes)}
	for i, n := range some.Nodes {
		some.Nodes[i].Leases = []api.PodLease{}
		for _, l := range n.Leases {
			if (f.Service == "" || words.Service(l.Holder.Service) == words.Service(f.Service)) && (f.User == "" || l.Holder.User == f.User) {
				some.Nodes[i].Leases = append(some.Nodes[i].Leases, l)
			}
		}
	}
	return some
}
