package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/lease"
)

func registerPace(s *server) {
	huma.Register(s.api, huma.Operation{
		OperationID: "pace", Method: http.MethodPost, Path: "/api/leases/{id}/pace", Summary: "Hold a lease to a share of its devices",
		Description: "berth stops and continues the processes of the lease in short turns, so that it gets this share of what it would get otherwise. The share survives " +
			"a restart of the daemon. 1 ends it. An owner cannot undo what an operator set; the least share counts.",
		Tags: []string{"leases"}, Errors: []int{http.StatusNotFound, http.StatusConflict}, MaxBodyBytes: maxBody,
	}, s.pace)
}

type paceQuery struct {
	ID   string `path:"id" doc:"Id of the lease." maxLength:"512"`
	User string `query:"user" doc:"Whose lease it is. Default: the caller's own, else the only one with this id." maxLength:"256"`
	Body api.Pace
}

func (s *server) pace(ctx context.Context, in *paceQuery) (*answer[api.Lease], error) {
	return answered(s.Desk.Pace(askerOf(ctx), lease.Name{User: in.User, ID: in.ID}, in.Body))
}
