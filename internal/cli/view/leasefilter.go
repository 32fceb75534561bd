package view

import (
	"slices"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/words"
)

// LeaseFilter selects leases and requests. An empty field selects all.
type LeaseFilter struct {
	Service string
	User    string
	GPU     string // UUID
}

// Apply returns the leases and requests that match. A waiting request is on no device
// yet.
func (f LeaseFilter) Apply(all api.Leases) api.Leases {
	chosen := api.Leases{Leases: []api.Lease{}, Waiting: []api.Waiting{}}
	for _, l := range all.Leases {
		on := slices.ContainsFunc(l.Parts, func(p api.LeasePart) bool { return p.GPU == f.GPU })
		if f.holder(l.Holder) && (f.GPU == "" || on) {
			chosen.Leases = append(chosen.Leases, l)
		}
	}
	for _, w := range all.Waiting {
		if f.holder(w.Holder) && f.GPU == "" {
			chosen.Waiting = append(chosen.Waiting, w)
		}
	}
	return chosen
}

func (f LeaseFilter) holder(h api.Holder) bool {
	return (f.Service == "" || words.Service(h.Service) == words.Service(f.Service)) && (f.User == "" || h.User == f.User)
}
