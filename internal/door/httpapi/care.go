package httpapi

import (
	"context"
	"net/http"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/desk"
)

func registerCare(s *server) {
	const missing, conflict, down = http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable
	serve(s, on("POST /api/gpu/drain", "devices", "drain", "Take a device out of use",
		"Leases on the device go on, and the daemon grants no new ones there, until undrain or the given time, also after a restart. The answer lists the leases that go on. Draining a drained device again replaces the drain.",
		missing, down), drains(s, s.Desk.Drain))
	serve(s, on("POST /api/gpu/undrain", "devices", "undrain", "Let a drained device be used again", "", conflict, missing, down), drains(s, s.Desk.Undrain))
	request(s, on("POST /api/gpu/check", "devices", "check", "Test whether a device works",
		"The answer comes when the check is done: after some seconds, or after minutes for kind long. Events with the code device_check say meanwhile how far it is. While it runs, the daemon grants nothing on the device; it takes only memory that is free and not leased. "+
			"A device that fails goes into quarantine; one in quarantine that passes is on probation. A caller who disconnects gives the check up.", conflict, missing, down), s.Desk.Check)
}

// drains returns an operation that drains a device or ends its drain.
func drains[B any](s *server, do func(desk.Caller, B) (api.Drained, error)) func(context.Context, *body[B]) (*answer[api.Drained], error) {
	return func(ctx context.Context, in *body[B]) (*answer[api.Drained], error) {
		done, err := do(askerOf(ctx), in.Body)
		done.Leases = s.leasesOn(done.GPU, sightOf(ctx))
		return &answer[api.Drained]{done}, err
	}
}
