package httpapi

import (
	"context"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
)

func registerEnergy(s *server) {
	serve(s, on("GET /api/energy", "history", "energy", "How much energy devices used, and for whom",
		"For each device: what processes under leases used, what others used, and what the device draws by itself; they add up to the whole. "+
			"The daemon keeps it across restarts."), s.energy)
}

func (s *server) energy(ctx context.Context, _ *struct{}) (*answer[api.Energy], error) {
	return ok(s.Desk.Used(sightOf(ctx).energy))
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
