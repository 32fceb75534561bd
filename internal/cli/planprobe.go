package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/libprobe"
	"github.com/berth-gpu/berth/internal/pipeline"
)

// probe finds out what the interpreter can import. That runs code of whoever
// installed the libraries, so it is done here, as the user who asks, and not in
// the daemon. An interpreter that cannot be asked is a problem of the plan.
func (o *planOptions) probe(ctx context.Context, file *pipeline.File, request *api.PlanRequest) error {
	libraries := file.Libraries()
	done := o.slowly(fmt.Sprintf("asking %s for %s", clean(o.python), strings.Join(libraries, ", ")))
	report, err := libprobe.Prober{Cache: o.cacheFolder()}.Probe(ctx, o.python, o.Environ(), libraries)
	done()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("ask %s for its libraries: %w", o.python, context.Cause(ctx))
	case err != nil:
		request.ProbeError = err.Error()
		if e := (*libprobe.Error)(nil); errors.As(err, &e) {
			request.ProbeError = e.Reason() // the plan says who was asked
		}
		return nil
	}
	request.Libraries = make(map[string]api.Library, len(report.Libraries))
	for name, l := range report.Libraries {
		said := api.Library{Status: string(l.Status), Version: l.Version, Reason: l.Reason, DevicesUnknown: l.DevicesUnknown}
		for _, v := range l.Devices {
			said.Devices = append(said.Devices, api.VisibleGPU(v))
		}
		request.Libraries[name] = said
	}
	return nil
}

// cacheFolder is where answers are kept; empty if the user has no such place.
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

// slowly says on Err what is being done, once that takes longer than a second,
// and then every ten seconds that it still is. The function that it returns
// ends it.
func (a *app) slowly(what string) (done func()) {
	finished := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		begun := time.Now()
		next := time.NewTimer(time.Second)
		defer next.Stop()
		for said := false; ; said = true {
			select {
			case <-finished:
				a.wipe(said)
				return
			case <-next.C:
			}
			if width, ok := a.errTerminal(); ok {
				fmt.Fprint(a.Err, "\r"+cut(fmt.Sprintf("%s, %s …", what, span(time.Since(begun))), width-1)+"\x1b[K")
				next.Reset(time.Second)
				continue
			}
			if said {
				fmt.Fprintf(a.Err, "berth: still %s (%s)\n", what, span(time.Since(begun)))
			} else {
				fmt.Fprintf(a.Err, "berth: %s\n", what)
			}
			next.Reset(10 * time.Second)
		}
	})
	return func() { close(finished); telling.Wait() }
}

// wipe takes a line off the terminal that Err is, if there is one.
func (a *app) wipe(said bool) {
	if _, ok := a.errTerminal(); ok && said {
		fmt.Fprint(a.Err, "\r\x1b[K")
	}
}
