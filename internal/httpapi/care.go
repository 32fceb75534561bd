package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
)

func registerCare(s *server) {
	op := func(id, path, summary, description string, errors ...int) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: http.MethodPost, Path: "/api/gpu/" + path, Summary: summary, Description: description,
			Tags: []string{"devices"}, MaxBodyBytes: maxBody, Errors: append(errors, http.StatusNotFound, http.StatusServiceUnavailable),
		}
	}
	huma.Register(s.api, op("drain", "drain", "Take a device out of use",
		"Leases on the device go on, and the daemon grants no new ones there, until undrain or the given time, also after a restart. The answer lists the leases that go on. Draining a drained device again replaces the drain."), s.drain)
	huma.Register(s.api, op("undrain", "undrain", "Let a drained device be used again", "", http.StatusConflict), s.undrain)
}

func (s *server) drain(ctx context.Context, in *body[api.DrainRequest]) (*answer[api.Drained], error) {
	done, err := s.Desk.Drain(askerOf(ctx), in.Body)
	done.Leases = s.leasesOn(done.GPU, sightOf(ctx))
	return answered(done, err)
}

func (s *server) undrain(ctx context.Context, in *body[api.UndrainRequest]) (*answer[api.Drained], error) {
	done, err := s.Desk.Undrain(askerOf(ctx), in.Body)
	done.Leases = s.leasesOn(done.GPU, sightOf(ctx))
	return answered(done, err)
}
