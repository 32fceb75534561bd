package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
)

func registerReclaim(s *server) {
	op := func(id, path, summary, description string) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: http.MethodPost, Path: path, Summary: summary, Description: description,
			Tags: []string{"leases"}, MaxBodyBytes: maxBody, Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable},
		}
	}
	huma.Register(s.api, op("park", "/api/leases/{id}/park", "Move the memory of a lease to the memory of the machine",
		"The driver moves the memory of all processes of the lease, without their help; they wait in their next call to it. The answer comes when the memory has moved: after seconds, or a minute for a full card. "+
			"All processes of the lease are parked, or none. A parked lease holds neither memory nor slots on its device, and stays parked until it is resumed. A caller who disconnects does not stop it."), s.park)
	huma.Register(s.api, op("resume", "/api/leases/{id}/resume", "Move the memory of a parked lease back to its device",
		"The lease waits for room like any request, as long as timeout_seconds says. The answer comes when the memory has moved and its programs run. A caller who disconnects while it waits leaves it parked."), s.resume)
	huma.Register(s.api, op("wake", "/api/leases/{id}/wake", "Resume a lease because its program needs it",
		"For the program that holds the lease: a parked lease is resumed at its turn, however long that takes, and nothing happens to one that is not parked. The answer comes when the lease is active."), s.wake)
	huma.Register(s.api, op("optimize", "/api/optimize", "Get memory back",
		"Tries one way after the other on the leases that the caller may change: ends what the dead hold, names orphans, asks programs to free caches, shrinks leases that use less than they asked for, parks idle ones, and proposes moves. "+
			"Every amount is measured. The answer comes when that is done; events with the code optimized say meanwhile how far it is."), s.optimize)
}

type parkQuery struct {
	ID   string `path:"id" doc:"Id of the lease." maxLength:"512"`
	User string `query:"user" doc:"Whose lease it is. Default: the caller's own, else the only one with this id." maxLength:"256"`
	Body *api.Park
}

func (s *server) park(ctx context.Context, in *parkQuery) (*answer[api.Lease], error) {
	return answered(s.Desk.Park(ctx, askerOf(ctx), lease.Name{User: in.User, ID: in.ID}, given(in.Body)))
}

func (s *server) wake(ctx context.Context, in *parkQuery) (*answer[api.Lease], error) {
	return answered(s.Desk.Wake(ctx, askerOf(ctx), lease.Name{User: in.User, ID: in.ID}, given(in.Body)))
}

type resumeQuery struct {
	ID   string `path:"id" doc:"Id of the lease." maxLength:"512"`
	User string `query:"user" doc:"Whose lease it is. Default: the caller's own, else the only one with this id." maxLength:"256"`
	Body *api.Resume
}

func (s *server) resume(ctx context.Context, in *resumeQuery) (*answer[api.Lease], error) {
	return answered(s.Desk.Resume(ctx, askerOf(ctx), lease.Name{User: in.User, ID: in.ID}, given(in.Body)))
}

type optimizeQuery struct{ Body *api.Optimize }

func (s *server) optimize(ctx context.Context, in *optimizeQuery) (*answer[api.Optimization], error) {
	found, err := s.Desk.Optimize(ctx, askerOf(ctx), given(in.Body))
	sight := sightOf(ctx)
	for i := range found.Rungs {
		sight.steps(found.Rungs[i].Done)
		sight.steps(found.Rungs[i].Left)
	}
	return answered(found, err)
}

// given returns the body of a request, or an empty one if the request has none.
func given[T any](body *T) (empty T) {
	if body == nil {
		return empty
	}
	return *body
}

// steps hides the parts of other users' leases and processes that a caller may not see.
func (s sight) steps(all []api.RungStep) {
	for i := range all {
		if step := &all[i]; (step.User != "" || step.PID != 0) && !s.named(access.Held, step.User) {
			step.User, step.PID, step.Text = s.user(step.User), 0, "it belongs to another user"
		}
	}
}
