package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
)

func registerEnergy(s *server) {
	huma.Register(s.api, huma.Operation{
		OperationID: "energy", Method: http.MethodGet, Path: "/api/energy", Tags: []string{"history"},
		Summary: "How much energy devices used, and for whom",
		Description: "For each device: what processes under leases used, what others used, and what the device draws by itself; they add up to the whole. " +
			"The daemon keeps it across restarts.",
	}, s.energy)
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
