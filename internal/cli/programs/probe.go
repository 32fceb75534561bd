package programs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/batch/libprobe"
)

// Probe asks a Python interpreter which libraries it can import, and puts the answer
// into the request for a plan. If the interpreter does not answer, that is a problem of
// the plan, not an error. Probe keeps answers in the cache folder of the user, if
// environ names one.
//
// The interpreter runs code of the user who installed the libraries. So this process
// asks, as the user who plans, and not the daemon.
func Probe(ctx context.Context, python string, environ, libraries []string, request *api.PlanRequest) error {
	report, err := libprobe.Prober{Cache: cacheFolder(environ)}.Probe(ctx, python, environ, libraries)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("ask %s for its libraries: %w", python, context.Cause(ctx))
	case err != nil:
		request.ProbeError = err.Error()
		if e := (*libprobe.Error)(nil); errors.As(err, &e) {
			request.ProbeError = e.Reason() // the plan names the interpreter
		}
		return nil
	}
	request.Libraries = report.Libraries
	return nil
}

// cacheFolder returns the folder for answers, or "" if the user has none.
func cacheFolder(environ []string) string {
	set := map[string]string{}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		set[name] = value
	}
	base := set["XDG_CACHE_HOME"]
	if !filepath.IsAbs(base) {
		base = filepath.Join(set["HOME"], ".cache")
	}
	if !filepath.IsAbs(base) {
		return ""
	}
	return filepath.Join(base, "berth")
}
