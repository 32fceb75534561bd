package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
)

func registerOperations(s *server) {
	huma.Register(s.api, huma.Operation{
		OperationID: "report-operations", Method: http.MethodPost, Path: "/api/services/{name}/operations", Tags: []string{"services"}, MaxBodyBytes: maxBody,
		Errors:  []int{http.StatusNotFound},
		Summary: "For a service: report the work that it has done",
		Description: "The daemon adds it to the metrics gpu_throughput_ops_total and gpu_operation_latency_seconds, under the name of the service. " +
			"Report what was done since the last report. Whoever may lease in the name of the service may report for it. " +
			"A user can report 10 million operations a second, and 100 million after a silence; the daemon refuses a report beyond that as a whole.",
	}, s.operations)
}

type operationsReport struct {
	Name string `path:"name" maxLength:"128" doc:"Name of the service."`
	Body api.Operations
}

func (s *server) operations(ctx context.Context, in *operationsReport) (*answer[api.Counted], error) {
	return answered(s.Desk.CountOperations(askerOf(ctx), in.Name, in.Body))
}
