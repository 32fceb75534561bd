package crew

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/libprobe"
)

// Probe asks a Python interpreter which libraries it can import, and puts the
// answer into the request for a plan. If the interpreter does not answer, that
// is a problem of the plan, and not an error. cache is the folder where answers
// are kept; "" keeps none.
//
// The interpreter runs code of the user who installed the libraries. So this
// process asks, as the user who plans, and not the daemon.
func Probe(ctx context.Context, python string, environ []string, cache string, libraries []string, request *api.PlanRequest) error {
	report, err := libprobe.Prober{Cache: cache}.Probe(ctx, python, environ, libraries)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("ask %s for its libraries: %w", python, context.Cause(ctx))
	case err != nil:
		request.ProbeError = err.Error()
		if e := (*libprobe.Error)(nil); errors.As(err, &e) {
			request.ProbeError = e.Reason() // the plan says who was asked
		}
		return nil
	}
	request.Libraries = report.Libraries
	return nil
}
