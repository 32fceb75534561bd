package leasing

import (
	"slices"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
)

// byName calls do for the lease or the request with a name: ID, which means the user's
// own or else the only one there is, or USER/ID. An id may also contain a slash: if
// USER has no such lease, byName tries the whole text as an id.
func byName[T any](c *client.Client, name string, do func(c *client.Client, id string) (T, error)) (T, error) {
	user, id, found := strings.Cut(name, "/")
	if !found || user == "" || id == "" {
		return do(c, name)
	}
	answer, err := do(c.Of(user), id)
	if !isProblem(err, "unknown_allocation") && !isProblem(err, "not_yours") {
		return answer, err
	}
	if whole, refused := do(c, name); refused == nil {
		return whole, nil
	}
	return answer, err
}

// named returns the leases that match a name: ID or USER/ID.
func named(leases []api.Lease, name string) []api.Lease {
	return slices.DeleteFunc(leases, func(l api.Lease) bool { return l.ID != name && l.Holder.User+"/"+l.ID != name })
}
