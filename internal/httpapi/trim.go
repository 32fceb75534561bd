package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
)

func (s *server) registerTrim() {
	huma.Register(s.api, huma.Operation{
		OperationID: "trim", Method: http.MethodPost, Path: "/api/leases/{id}/trim", Summary: "Ask the holder of a lease to give back what its libraries keep for later",
		Description: "The holder is told by an event with the code reclaim. Programs that use the Python package with trim_on_request free the caches of " +
			"PyTorch and CuPy then; others do as they like. The measured memory of the lease shows what came of it.",
		Tags: []string{"leases"},
	}, s.trim)
}

func (s *server) trim(ctx context.Context, in *named) (*answer[api.Lease], error) {
	return answered(s.Desk.Trim(askerOf(ctx), in.ID))
}
