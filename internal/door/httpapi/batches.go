package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/batch/runs"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/lease"
)

func registerBatches(s *server) {
	serve(s, on("GET /api/batches", "batches", "batches", "The batches that run, and how far each has got",
		"With ended, also those that have ended since the daemon began: the last 64 of each user."), s.batches)
	serve(s, on("PUT /api/batches/{id}", "batches", "report-batch", "For the runner of a batch: report how far it has got", ""), s.reportBatch)
}

type batchesQuery struct {
	Ended bool `query:"ended" doc:"Batches that have ended, too, as they were when they last reported."`
	Page
}

func (s *server) batches(ctx context.Context, in *batchesQuery) (*listed[api.Batches], error) {
	found := s.Batches.List()
	if in.Ended {
		found = withEnded(found, s.Batches.Past())
	}
	page, more, err := cut(&in.Page, s.thisRun(batchesList), in.most(), found, func(b runs.Listed) uint64 { return hide(s, keyOf(b)) }, cmp.Compare)
	if err != nil {
		return nil, err
	}
	all, sight := api.Batches{Batches: []api.Batch{}, More: more}, sightOf(ctx)
	for _, b := range page {
		all.Batches = append(all.Batches, sight.batch(b))
	}
	return answerPage(&in.Page, more, all)
}

func keyOf(b runs.Listed) lease.Key { return lease.Key{Owner: b.Owner, ID: b.ID} }

// withEnded puts ended batches before those that run. One that ended between the two
// lists is in both, and counts once.
func withEnded(running, ended []runs.Listed) []runs.Listed {
	known := map[lease.Key]bool{}
	for _, b := range running {
		known[keyOf(b)] = true
	}
	return append(slices.DeleteFunc(ended, func(b runs.Listed) bool { return known[keyOf(b)] }), running...)
}

type batchReport struct {
	ID   string `path:"id" maxLength:"128" doc:"Id of the batch, as its runner chose it."`
	Body api.Batch
}

// reportBatch takes the user and the process from the connection, not from the report.
func (s *server) reportBatch(ctx context.Context, in *batchReport) (*answer[api.Batch], error) {
	b := in.Body
	who := identityOf(ctx)
	if b.ID != in.ID {
		b.ID = ""
	}
	b.PID = who.Holder.PID
	taken, err := s.Batches.Report(b, who.Actor)
	switch {
	case errors.Is(err, runs.ErrID):
		return nil, problems.New(http.StatusUnprocessableEntity, "invalid_request", "The id in the body must be the id in the path, and have only printable characters.")
	case errors.Is(err, runs.ErrShare):
		return nil, problems.New(http.StatusTooManyRequests, "too_many_batches", "You have as many listed batches as one user may have. This batch runs, but the daemon does not list or count it until another one ends. You can ignore this.")
	case errors.Is(err, runs.ErrTooMany):
		return nil, problems.New(http.StatusServiceUnavailable, "too_many_batches", "Too many batches report at the same time. The batch itself is not affected.")
	case err != nil:
		return nil, err
	}
	return ok(taken)
}

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
	for _, m := range s.Desk.Memory.Measured() {
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
	return nil, s.Desk.Memory.Measure(askerOf(ctx), in.Body)
}

func registerOperations(s *server) {
	serve(s, on("POST /api/services/{name}/operations", "services", "report-operations", "For a service: report the work that it has done",
		"The daemon adds it to the metrics gpu_throughput_ops_total and gpu_operation_latency_seconds, under the name of the service. "+
			"Report what was done since the last report. Whoever may lease in the name of the service may report for it. "+
			"A user can report 10 million operations a second, and 100 million after a silence; the daemon refuses a report beyond that as a whole.",
		http.StatusNotFound), s.operations)
}

type operationsReport struct {
	Name string `path:"name" maxLength:"128" doc:"Name of the service."`
	Body api.Operations
}

func (s *server) operations(ctx context.Context, in *operationsReport) (*answer[api.Counted], error) {
	counted, err := s.Desk.Services.CountOperations(askerOf(ctx), in.Name, in.Body)
	return &answer[api.Counted]{counted}, err
}
