package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/batch/runs"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/lease"
)

func registerBatches(s *server) {
	serve(s, on("GET /api/batches", "batches", "batches", "The batches that run, and how far each has got", ""), s.batches)
	serve(s, on("PUT /api/batches/{id}", "batches", "report-batch", "For the runner of a batch: report how far it has got", ""), s.reportBatch)
}

type batchesQuery struct{ Page }

func (s *server) batches(ctx context.Context, in *batchesQuery) (*listed[api.Batches], error) {
	page, more, err := cut(&in.Page, s.thisRun(batchesList), in.most(), s.Batches.List(),
		func(b runs.Listed) uint64 { return hide(s, lease.Key{Owner: b.Owner, ID: b.ID}) }, cmp.Compare)
	if err != nil {
		return nil, err
	}
	all, sight := api.Batches{Batches: []api.Batch{}, More: more}, sightOf(ctx)
	for _, b := range page {
		all.Batches = append(all.Batches, sight.batch(b))
	}
	return answerPage(&in.Page, more, all)
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
