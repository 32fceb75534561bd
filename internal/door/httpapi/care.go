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
	huma.Register(s.api, op("check", "check", "Test whether a device works",
		"The answer comes when the check is done: after some seconds, or after minutes for kind long. Events with the code device_check say meanwhile how far it is. While it runs, the daemon grants nothing on the device; it takes only memory that is free and not leased. "+
			"A device that fails goes into quarantine; one in quarantine that passes is on probation. A caller who disconnects gives the check up.", http.StatusConflict), s.check)
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

func (s *server) check(ctx context.Context, in *body[api.CheckRequest]) (*answer[api.Check], error) {
	return answered(s.Desk.Check(ctx, askerOf(ctx), in.Body))
}
