package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/history"
	"github.com/berth-gpu/berth/internal/lease"
)

func (s *server) registerMeasurements() {
	op := func(id, method, summary string) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: "/api/measurements", Summary: summary, Tags: []string{"history"}, MaxBodyBytes: maxBody}
	}
	huma.Register(s.api, op("measurements", http.MethodGet, "What earlier runs used"), s.measurements)
	post := op("measure", http.MethodPost, "Tell what a run used")
	post.DefaultStatus = http.StatusNoContent
	huma.Register(s.api, post, s.measure)
}

type measurementQuery struct {
	Name string `query:"name" maxLength:"128" doc:"Only those of this name."`
	User string `query:"user" maxLength:"128" doc:"Only those of this user."`
}

// measurements lists what the caller's own runs used; administrators see
// everybody's.
func (s *server) measurements(ctx context.Context, in *measurementQuery) (*answer[api.Measurements], error) {
	all := api.Measurements{Measurements: []api.Measured{}}
	most, sight := s.mostEver(), sightOf(ctx)
	for _, e := range s.History.All() {
		if !sight.named(e.User) || in.Name != "" && e.Name != in.Name || in.User != "" && e.User != in.User {
			continue
		}
		all.Measurements = append(all.Measurements, api.Measured{
			User: e.User, Name: e.Name, Step: e.Step, Runs: e.Count, Last: e.Last,
			Asked: e.Asked(), Peak: e.Peak(), Next: min(e.Need(s.Enforcement().Context), most), Seconds: e.Seconds(),
		})
	}
	return ok(all)
}

// measure remembers what somebody measured, under the name of who says so.
func (s *server) measure(ctx context.Context, in *body[api.Measurement]) (*struct{}, error) {
	b := in.Body
	var most gpu.MiB // that a device has
	for _, sum := range s.Ledger.Sums() {
		most = max(most, sum.Device.MemoryTotal)
	}
	if most > 0 && b.Memory > most {
		return nil, wrongFields(lease.FieldErrors{{Field: "memory_mb", Detail: fmt.Sprintf("is more than any device of this machine has, which is %d", most)}})
	}
	s.History.Add(history.Key{User: callerOf(ctx).User, Name: gpu.Printable(b.Name, gpu.Whole), Step: gpu.Printable(b.Step, gpu.Whole)},
		history.Run{Peak: b.Memory, Seconds: b.Seconds}, time.Now())
	return nil, nil
}
