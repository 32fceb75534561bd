package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/crew"
	"github.com/berth-gpu/berth/internal/pipeline"
)

// probe asks the interpreter which libraries it can import.
func (o *planOptions) probe(ctx context.Context, file *pipeline.File, request *api.PlanRequest) error {
	libraries := file.Libraries()
	defer o.slowly(fmt.Sprintf("asking %s for %s", clean(o.python), strings.Join(libraries, ", ")))()
	return crew.Probe(ctx, o.python, o.Environ(), o.cacheFolder(), libraries, request)
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
