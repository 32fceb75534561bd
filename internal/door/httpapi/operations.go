package httpapi

import (
	"context"
	"net/http"

	"github.com/berth-gpu/berth/api"
)

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
	counted, err := s.Desk.CountOperations(askerOf(ctx), in.Name, in.Body)
	return &answer[api.Counted]{counted}, err
}
