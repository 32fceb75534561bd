package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
)

func (s *server) registerMeasurements() {
	op := func(id, method, summary string) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: "/api/measurements", Summary: summary, Tags: []string{"history"}, MaxBodyBytes: maxBody}
	}
	huma.Register(s.api, op("measurements", http.MethodGet, "What earlier runs used"), s.measurements)
	post := op("measure", http.MethodPost, "Report what a run used")
	post.DefaultStatus = http.StatusNoContent
	huma.Register(s.api, post, s.measure)
}

type measurementQuery struct {
	Name string `query:"name" maxLength:"128" doc:"Only measurements with this name."`
	User string `query:"user" maxLength:"128" doc:"Only measurements of this user."`
}

// measurements lists what the runs of the caller used, or, for an administrator,
// the runs of all users.
func (s *server) measurements(ctx context.Context, in *measurementQuery) (*answer[api.Measurements], error) {
	all, sight := api.Measurements{Measurements: []api.Measured{}}, sightOf(ctx)
	for _, m := range s.Desk.Measured() {
		if sight.named(access.Measured, m.User) && (in.Name == "" || m.Name == in.Name) && (in.User == "" || m.User == in.User) {
			all.Measurements = append(all.Measurements, m)
		}
	}
	return ok(all)
}

func (s *server) measure(ctx context.Context, in *body[api.Measurement]) (*struct{}, error) {
	if err := s.Desk.Measure(askerOf(ctx), in.Body); err != nil {
		return nil, problemOf(err)
	}
	return nil, nil
}
