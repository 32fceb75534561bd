package httpapi

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/archive"
	"github.com/berth-gpu/berth/internal/text/words"
)

func registerPast(s *server) {
	serve(s, on("GET /api/past/leases", "history", "past-leases", "Leases that have ended",
		"Who had how much, how long, how much of it was used, and how it ended. The daemon keeps it across restarts. Without a limit, an answer has the 100 newest."), s.pastLeases)
}

type pastQuery struct {
	Service []string `query:"service" maxItems:"64" maxLength:"128" doc:"Only leases of one of these services. May be repeated."`
	User    []string `query:"user" maxItems:"64" maxLength:"128" doc:"Only leases of one of these users. May be repeated."`
	GPU     []string `query:"gpu" maxItems:"64" maxLength:"128" doc:"Only leases on one of these devices: index, or UUID, also of a device that is gone. May be repeated."`
	Since   string   `query:"since" maxLength:"64" doc:"Only leases that ended after this: a time as in RFC 3339, or how long ago, as in 90s or 5m."`
	Page
}

// pastShown is how many leases an answer has if the request gives no limit.
const pastShown = 100

// pastKey orders ended leases by their end, the newest first.
type pastKey struct {
	Ended time.Time `json:"ended"`
	Fence uint64    `json:"fence"`
}

func comparePast(a, b pastKey) int {
	return cmp.Or(b.Ended.Compare(a.Ended), cmp.Compare(b.Fence, a.Fence))
}

func (s *server) pastLeases(ctx context.Context, in *pastQuery) (*listed[api.PastLeases], error) {
	since, err := moment(in.Since, time.Now())
	if err != nil {
		return nil, err
	}
	for i, name := range in.GPU {
		if r, found := s.Monitor.Find(name); found {
			in.GPU[i] = r.Device.UUID
		}
	}
	for i, service := range in.Service {
		in.Service[i] = words.Service(service)
	}
	chosen, sight := []api.PastLease{}, sightOf(ctx)
	for _, past := range s.Past.All() {
		if past.Ended.Before(since) {
			break
		}
		seen := sight.past(past)
		on := slices.ContainsFunc(past.Parts, func(p archive.Part) bool { return slices.Contains(in.GPU, p.GPU) })
		if among(in.Service, seen.Holder.Service) && among(in.User, seen.Holder.User) && (len(in.GPU) == 0 || on) {
			chosen = append(chosen, seen)
		}
	}
	page, more, err := cut(&in.Page, pastList, cmp.Or(in.Limit, pastShown), chosen,
		func(p api.PastLease) pastKey { return pastKey{p.Ended.Round(0), p.Fence} }, comparePast)
	if err != nil {
		return nil, err
	}
	return answerPage(&in.Page, more, api.PastLeases{Leases: page, More: more})
}

// among reports whether a value is one of those that are asked for. None asks for all.
func among(asked []string, value string) bool {
	return len(asked) == 0 || slices.Contains(asked, value)
}

// endings has the API's word for each way a lease ends.
var endings = map[lease.Kind]string{lease.Released: "released", lease.Expired: "expired", lease.Revoked: "revoked"}

// past returns an ended lease as this caller sees it.
func (s sight) past(p archive.Past) api.PastLease {
	holder := lease.Holder{User: p.User, UID: p.UID, Service: p.Service, Name: p.Name}
	out := api.PastLease{
		ID: p.ID, Fence: p.Fence, Holder: s.holder(holder), Binding: string(p.Binding), Granted: p.Granted, Ended: p.Ended, How: endings[p.How],
		Peak: p.Peak, Energy: p.Energy, FromPool: p.Pool, Parts: make([]api.LeasePart, len(p.Parts)),
	}
	for i, part := range p.Parts {
		out.Parts[i] = api.LeasePart{GPU: part.GPU, Memory: part.Memory, Slots: part.Slots}
	}
	if s.owns(holder) {
		out.Why, out.By = p.Why, p.By
	}
	return out
}

func registerEnergy(s *server) {
	serve(s, on("GET /api/energy", "history", "energy", "How much energy devices used, and for whom",
		"For each device: what processes under leases used, what others used, and what the device draws by itself; they add up to the whole. "+
			"The daemon keeps it across restarts."), s.energy)
}

func (s *server) energy(ctx context.Context, _ *struct{}) (*answer[api.Energy], error) {
	return ok(s.Desk.Devices.EnergyUsed(sightOf(ctx).energy))
}

// energy returns the use of energy as this caller sees it.
func (s sight) energy(u api.EnergyUse) api.EnergyUse {
	if s.named(access.Measured, u.User) {
		return u
	}
	if !s.names() {
		return api.EnergyUse{User: anotherUser}
	}
	return api.EnergyUse{User: u.User, Service: u.Service}
}
