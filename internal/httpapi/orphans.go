package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
)

func (s *server) registerOrphans() {
	huma.Register(s.api, huma.Operation{
		OperationID: "orphans", Method: http.MethodGet, Path: "/api/orphans", Tags: []string{"leases"},
		Summary: "Processes that use devices under no lease",
		Description: "The daemon finds them in the process lists of the drivers and, if their lease has ended, by the device files that they have open. " +
			"A daemon that is not root sees only the open files of its own user.",
	}, s.orphans)
}

func (s *server) orphans(ctx context.Context, _ *struct{}) (*answer[api.Strays], error) {
	strays, sight := s.Desk.Orphans(), sightOf(ctx)
	for _, list := range [][]api.Stray{strays.Orphans, strays.Foreign} {
		for i, stray := range list {
			list[i] = sight.stray(stray)
		}
	}
	return ok(strays)
}
