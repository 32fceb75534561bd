package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/crew"
	"github.com/berth-gpu/berth/internal/pipeline"
	"github.com/berth-gpu/berth/internal/term"
)

// probe asks the interpreter which libraries it can import.
func (o *planOptions) probe(ctx context.Context, file *pipeline.File, request *api.PlanRequest) error {
	libraries := file.Libraries()
	defer o.slowly(fmt.Sprintf("asking %s for %s", term.Clean(o.python), strings.Join(libraries, ", ")))()
	return crew.Probe(ctx, o.python, o.Environ(), o.cacheFolder(), libraries, request)
}

// cacheFolder returns the folder for answers; empty if the user has none.
func (a *app) cacheFolder() string {
	base := a.Getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(base) {
		base = filepath.Join(a.Getenv("HOME"), ".cache")
	}
	if !filepath.IsAbs(base) {
		return ""
	}
	return filepath.Join(base, "berth")
}
