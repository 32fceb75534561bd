// Package libprobe finds out which Python libraries an interpreter can import,
// and which physical GPUs they see.
//
// It imports every library in a child process of its own, with a time limit: a
// library that crashes, hangs or starts seventy threads does not affect the
// others.
//
// A probe runs code of the users who installed the libraries, as the user of
// this process. So it belongs in a process of the user who asks, such as the
// command line, and not in a daemon with more rights than that user.
package libprobe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
)

// DefaultLimit is how long a child may take. An import of the largest library
// takes a few seconds from a warm disk, and many times that from a cold network
// drive.
const DefaultLimit = 60 * time.Second

// DefaultMaxAge is how long an answer stays valid. Changes that the cache
// cannot notice, such as a new driver, are rare.
const DefaultMaxAge = time.Hour

// lanes is how many children run at the same time: an import mostly waits for
// the disk and takes up to a gigabyte of memory.
const lanes = 4

// Prober asks interpreters. The zero value is ready to use, and caches nothing.
type Prober struct {
	Limit  time.Duration // limit for every child process; 0 means DefaultLimit
	Cache  string        // folder for answers, made if needed; empty if none are cached
	MaxAge time.Duration // oldest answer in Cache that is used; 0 means DefaultMaxAge

	// expiry returns the channel that ends a child. Nil means a timer.
	expiry func(library string) <-chan time.Time
}

// Report says what an interpreter can import.
type Report struct {
	Interpreter string                 `json:"interpreter"` // the path that was started
	Version     string                 `json:"version"`     // version of Python
	Libraries   map[string]api.Library `json:"libraries"`   // by the name that follows import
	Cached      bool                   `json:"-"`           // whether the answer is from the cache

	// Failed has an *Error for every library whose child crashed, hung or gave
	// no answer. In Libraries those are broken, with the same reason.
	Failed map[string]error `json:"-"`
}

// Probe asks an interpreter, by path or by a name on the PATH of env, about libraries.
// Env is the environment that the interpreter will run with; nil means that of this
// process. The error, an *Error, is about the interpreter as a whole: problems of a
// library are in the report.
func (p Prober) Probe(ctx context.Context, interpreter string, env, libraries []string) (Report, error) {
	if env == nil {
		env = os.Environ()
	}
	path, err := find(interpreter, env)
	if err != nil {
		return Report{}, err
	}
	q := question{prober: p, interpreter: path, env: env}
	who, err := q.identify(ctx)
	if err != nil {
		return Report{}, err
	}
	libraries = slices.Compact(slices.Sorted(slices.Values(libraries)))
	store := p.open(q, who, libraries)
	if report, ok := store.load(); ok {
		return report, nil
	}
	report := Report{Interpreter: path, Version: who.Version}
	report.Libraries, report.Failed = q.each(ctx, libraries)
	if err := ctx.Err(); err != nil {
		return Report{}, &Error{Interpreter: path, Err: err}
	}
	store.save(report)
	return report, nil
}

// each asks about every library, a few at a time.
func (q question) each(ctx context.Context, libraries []string) (map[string]api.Library, map[string]error) {
	var mu sync.Mutex // guards answers and failed
	answers, failed := map[string]api.Library{}, map[string]error{}
	var all sync.WaitGroup
	lane := make(chan struct{}, lanes)
	for _, name := range libraries {
		lane <- struct{}{}
		all.Go(func() {
			defer func() { <-lane }()
			answer, err := q.library(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			answers[name] = answer
			if err != nil {
				failed[name] = err
			}
		})
	}
	all.Wait()
	return answers, failed
}

// library asks about one library. If a child fails while it lists its GPUs, it has
// imported the library before.
func (q question) library(ctx context.Context, name string) (api.Library, error) {
	var answer api.Library
	err := q.ask(ctx, name, &answer)
	e := (*Error)(nil)
	switch {
	case err == nil:
		err = plausible(&answer)
	case answer.Status == api.LibraryOK && errors.As(err, &e):
		answer.Devices, answer.DevicesUnknown = nil, "asked for its GPUs, "+e.Reason()
		return answer, err
	}
	if err == nil {
		return answer, nil
	}
	if !errors.As(err, &e) {
		e = &Error{Interpreter: q.interpreter, Library: name, Err: ErrNoAnswer, Detail: err.Error()}
	}
	return api.Library{Status: api.LibraryBroken, Reason: e.Reason()}, e
}

func plausible(answer *api.Library) error {
	switch answer.Status {
	case api.LibraryOK, api.LibraryMissing, api.LibraryBroken:
		return nil
	}
	return fmt.Errorf("%q is no status", answer.Status)
}

// identity holds everything that the answers of an interpreter depend on.
type identity struct {
	Version    string     `json:"version"`
	Executable string     `json:"executable"`
	Folders    [][]string `json:"folders"` // folders where it looks for libraries, with the time of the last change
}

// identify starts the interpreter without importing anything. That takes
// milliseconds, so every probe does it: it finds the interpreter behind a
// wrapper, and notices when something is installed.
func (q question) identify(ctx context.Context) (identity, error) {
	var who identity
	err := q.ask(ctx, "", &who)
	e := (*Error)(nil)
	if err == nil && !strings.HasPrefix(who.Version, "3.") {
		err = &Error{Interpreter: q.interpreter, Err: ErrNoAnswer, Detail: "it is Python " + cmp.Or(who.Version, "of no version")}
	}
	if errors.As(err, &e) && (errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrNoInterpreter)) {
		e.Hint = "name a Python 3 interpreter"
	}
	return who, err
}

// healthy reports whether nothing is wrong with any library: all can be
// imported, and none gives a reason.
func (r *Report) healthy() bool {
	for library := range maps.Values(r.Libraries) {
		if library.Status != api.LibraryOK || library.Reason != "" {
			return false
		}
	}
	return len(r.Failed) == 0
}

// Errors that callers decide on; *Error wraps them.
var (
	ErrNoInterpreter = errors.New("there is no such interpreter")
	ErrNoAnswer      = errors.New("it gave no answer")
	ErrTimeLimit     = errors.New("it did not end in time")
	ErrCrashed       = errors.New("it crashed")
)

// Error reports a child process that did not answer.
type Error struct {
	Interpreter string
	Library     string // library that the child was asked about; empty for the interpreter itself
	Err         error  // one of the above if one fits
	Detail      string // how it ended and what it said last; may be empty
	Hint        string // what to do, one sentence; may be empty
}

func (e *Error) Error() string {
	text := "probe " + e.Interpreter
	if e.Library != "" {
		text += " for " + e.Library
	}
	text += ": " + e.Reason()
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Reason returns the error without the name of the interpreter and the library.
func (e *Error) Reason() string {
	if e.Detail == "" {
		return e.Err.Error()
	}
	return e.Err.Error() + ": " + e.Detail
}
