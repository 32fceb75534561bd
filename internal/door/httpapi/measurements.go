package httpapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
)

func registerMeasurements(s *server) {
	serve(s, on("GET /api/measurements", "history", "measurements", "What earlier runs used", ""), s.measurements)
	report := on("POST /api/measurements", "history", "measure", "Report what a run used", "")
	report.DefaultStatus = http.StatusNoContent
	serve(s, report, s.measure)
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
	return nil, s.Desk.Measure(askerOf(ctx), in.Body)
}
