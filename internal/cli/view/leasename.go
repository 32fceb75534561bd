package view

import "github.com/berth-gpu/berth/api"

// LeaseName returns the name of a holder's lease: the id, or USER/ID if several leases
// or requests in all have the id.
func LeaseName(id string, h api.Holder, all api.Leases) string {
	others := 0
	for _, l := range all.Leases {
		if l.ID == id {
			others++
		}
	}
	for _, w := range all.Waiting {
		if w.ID == id {
			others++
		}
	}
	if others > 1 && h.User != "" {
		return h.User + "/" + id
	}
	return id
}
