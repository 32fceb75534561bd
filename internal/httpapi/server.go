// Package httpapi is the REST door. It finds out who calls, translates between
// HTTP and the desk, and shows each caller what they may see. It decides
// nothing about leases: the desk does.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"runtime/debug"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/events"
	"github.com/berth-gpu/berth/internal/ledger"
	"github.com/berth-gpu/berth/internal/monitor"
	"github.com/berth-gpu/berth/internal/progress"
)

// Keepers are the parts of the daemon that the door opens on.
type Keepers struct {
	Monitor  *monitor.Monitor
	Events   *events.Log
	Settings Settings
	Ledger   *ledger.Ledger // to look at
	Desk     *desk.Desk     // to ask

	// Streams counts the lease streams that are open. They are no concern of
	// an http.Server any more: whoever shuts one down waits for them itself.
	// They end when the context of their requests does.
	Streams *sync.WaitGroup

	Batches *progress.Keeper // what runners report

	Log     *slog.Logger
	Metrics http.Handler // the Prometheus page
	Host    string
	Version string
	// Note is said with the list of devices when there is something to say
	// about the whole, such as why there are none.
	Note func() string
	// Ready is nil when the daemon can do its work, and says why when not.
	Ready func() error
	// Contained says what a daemon in a container cannot see; empty: it is in
	// none.
	Contained string
}

// Settings is the configuration as it is in force.
type Settings interface {
	GPU() api.GPUConfig
	Fields() []api.ConfigField
	// Change applies a JSON object with any part of the gpu section for
	// somebody, wholly or not at all.
	Change(ctx context.Context, by access.Actor, body []byte) error
}

// server carries the keepers to the operations.
type server struct {
	Keepers
	mux    *http.ServeMux
	api    huma.API
	routes []string // "METHOD /path", every one that is served
	bodies bodies   // of the lease stream
	turns  turns    // of those who are not administrators
}

// New serves every path of the API.
func New(k Keepers) http.Handler { return build(k) }

func build(k Keepers) *server {
	if k.Batches == nil {
		k.Batches = progress.New(func(gpu.Event) {}, func(string) bool { return false }, func(string, string) bool { return false })
	}
	s := &server{Keepers: k, mux: http.NewServeMux()}
	config := huma.DefaultConfig("berth", k.Version)
	config.Info.Description = "GPU resource manager: devices, samples, states, leases. " +
		"Memory is in MB meaning MiB (2^20 bytes). Errors are RFC 9457 problem documents with a stable code."
	config.DocsPath, config.SchemasPath, config.OpenAPIPath, config.CreateHooks = "", "", "", nil
	config.Transformers = []huma.Transformer{asProblem}
	config.RejectUnknownQueryParameters = true
	nameOptionals(config.Components.Schemas)
	s.api = humago.New(recorder{s}, config)

	s.registerDevices()
	s.registerLeases()
	s.registerTrim()
	s.registerStream()
	s.registerPlans()
	s.registerExec()
	s.registerBatches()
	s.registerMeasurements()
	s.registerOrphans()
	s.registerSettings()
	s.registerEvents()
	s.registerDaemon()
	s.describeProblems()
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer s.recover(w, r)
	answer, pattern := s.mux.Handler(r)
	if pattern == "" {
		notServed(s.mux, w, r, answer)
		return
	}
	who := standingOf(r.Context())
	if refusal := mayUse(pattern, who); refusal != nil {
		writeProblem(w, refusal)
		return
	}
	s.inTurn(w, r, pattern, who)
}

// recover keeps a mistake of ours to the one request that met it.
func (s *server) recover(w http.ResponseWriter, r *http.Request) {
	switch cause := recover(); cause {
	case nil:
	case http.ErrAbortHandler:
		panic(cause)
	default:
		writeProblem(w, s.mistake(cause, "method", r.Method, "path", r.URL.Path))
	}
}

// mistake logs a mistake of ours and says so to whoever met it.
func (s *server) mistake(cause any, where ...any) *api.Problem {
	s.Log.Error("a request failed inside the daemon", append(where, "cause", cause, "stack", string(debug.Stack()))...)
	return problem(http.StatusInternalServerError, "internal", "This is a mistake in berth, not in the request; the log of the daemon has it. Please report it.")
}

// recorder writes down every route on its way to the multiplexer, so that a
// test can hold the OpenAPI text against them.
type recorder struct{ *server }

func (r recorder) HandleFunc(pattern string, f func(http.ResponseWriter, *http.Request)) {
	r.routes = append(r.routes, pattern)
	r.mux.HandleFunc(pattern, f)
}

// raw serves a path whose answer is not one JSON object, and describes it.
func (s *server) raw(op *huma.Operation, mediaType string, f http.HandlerFunc) {
	op.Responses = map[string]*huma.Response{
		"200":     {Description: "OK", Content: map[string]*huma.MediaType{mediaType: {}}},
		"default": s.problemResponse(),
	}
	s.api.OpenAPI().AddOperation(op)
	recorder{s}.HandleFunc(op.Method+" "+op.Path, f)
}

// nameOptionals lets the schema generator see through optional values.
func nameOptionals(r huma.Registry) {
	see[gpu.Celsius, float64](r)
	see[gpu.Percent, float64](r)
	see[gpu.Watts, float64](r)
	see[gpu.MHz, float64](r)
	see[float64, float64](r)
	see[gpu.MiB, int64](r)
	see[int64, int64](r)
	see[int, int](r)
}

func see[T, Plain any](r huma.Registry) {
	r.RegisterTypeAlias(reflect.TypeFor[gpu.Opt[T]](), reflect.TypeFor[Plain]())
}

// problemResponse is what every operation answers when it refuses.
func (s *server) problemResponse() *huma.Response {
	schema := s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.Problem](), true, "")
	return &huma.Response{Description: "Refused", Content: map[string]*huma.MediaType{problemType: {Schema: schema}}}
}

// describeProblems puts our problem where the framework described its own.
func (s *server) describeProblems() {
	for _, path := range s.api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{path.Get, path.Put, path.Post, path.Delete} {
			if op == nil {
				continue
			}
			for status, response := range op.Responses {
				if _, theirs := response.Content[problemType]; theirs {
					delete(op.Responses, status)
				}
			}
			op.Responses["default"] = s.problemResponse()
		}
	}
	schemas := s.api.OpenAPI().Components.Schemas.Map()
	delete(schemas, "ErrorModel")
	delete(schemas, "ErrorDetail")
}
