package httpapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
)

func registerMeasurements(s *server) {
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
	Page
}

// measurements lists the measurements of the caller's runs or, for an administrator, of
// all users' runs.
func (s *server) measurements(ctx context.Context, in *measurementQuery) (*listed[api.Measurements], error) {
	chosen, sight := []api.Measured{}, sightOf(ctx)
	for _, m := range s.Desk.Measured() {
		if sight.named(access.Measured, m.User) && (in.Name == "" || m.Name == in.Name) && (in.User == "" || m.User == in.User) {
			chosen = append(chosen, m)
		}
	}
	page, more, err := cut(&in.Page, measurementsList, in.most(), chosen,
		func(m api.Measured) [3]string { return [3]string{m.User, m.Name, m.Step} },
		func(a, b [3]string) int { return slices.Compare(a[:], b[:]) })
	if err != nil {
		return nil, err
	}
	return answerPage(&in.Page, more, api.Measurements{Measurements: page, More: more})
}

func (s *server) measure(ctx context.Context, in *body[api.Measurement]) (*struct{}, error) {
	if err := s.Desk.Measure(askerOf(ctx), in.Body); err != nil {
		return nil, problemOf(err)
	}
	return nil, nil
}
