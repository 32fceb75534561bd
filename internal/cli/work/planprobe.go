package work

import (
	"context"
	"fmt"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/batch/pipeline"
	"github.com/berth-gpu/berth/internal/cli/programs"
	"github.com/berth-gpu/berth/internal/text/term"
)

// probe asks the interpreter which libraries it can import.
func (o *planOptions) probe(ctx context.Context, file *pipeline.File, request *api.PlanRequest) error {
	libraries := file.Libraries()
	defer o.Slowly(fmt.Sprintf("asking %s for %s", term.Clean(o.python), strings.Join(libraries, ", ")))()
	return programs.Probe(ctx, o.python, o.Environ(), libraries, request)
}
