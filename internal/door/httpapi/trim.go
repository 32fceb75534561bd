package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
)

func registerTrim(s *server) {
	huma.Register(s.api, huma.Operation{
		OperationID: "trim", Method: http.MethodPost, Path: "/api/leases/{id}/trim", Summary: "Ask the holder of a lease to free the memory that its libraries cache",
		Description: "The daemon sends the holder an event with the code reclaim. Programs that use the Python package with trim_on_request then free the " +
			"caches of PyTorch and CuPy; other programs may ignore it. The measured memory of the lease shows the result.",
		Tags: []string{"leases"}, Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, s.trim)
}

func (s *server) trim(ctx context.Context, in *named) (*answer[api.Lease], error) {
	return answered(s.Desk.Trim(askerOf(ctx), in.name()))
}
