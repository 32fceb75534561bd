// Package httpapi is the REST door.
//
// It finds out who calls, translates between HTTP and the desk, and shows each
// caller what they may see. It decides nothing about leases: the desk does.
package httpapi

import (
	"context"
	"hash/maphash"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/batch/runs"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/door/sessions"
	"github.com/berth-gpu/berth/internal/file/fault"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/history/alert"
	"github.com/berth-gpu/berth/internal/history/events"
	"github.com/berth-gpu/berth/internal/history/hooks"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/archive"
	"github.com/berth-gpu/berth/internal/lease/audit"
	"github.com/berth-gpu/berth/internal/lease/fair"
	"github.com/berth-gpu/berth/internal/lease/ledger"
)

// Parts are the parts of the daemon that the API uses.
type Parts struct {
	Monitor  *monitor.Monitor
	Events   *events.Log
	Settings Settings
	Ledger   *ledger.Ledger // for reading
	Desk     *desk.Desk     // for requests

	// Streams counts the open lease streams. http.Server.Shutdown does not wait for
	// them, so the daemon waits for Streams. A stream ends when the context of its
	// request ends.
	Streams *sync.WaitGroup

	Batches *runs.Runs       // what runners report
	Past    *archive.Archive // ended leases; nil if none are kept
	Audit   *audit.Log       // acts of authority and refusals; nil if none are recorded
	Alerts  *alert.Alerts    // nil if no rules are evaluated
	// NoAlerts says why no rules are evaluated, or returns "" if they are.
	NoAlerts func() string
	Hooks    *hooks.Hooks // nil if there are none

	Log     *slog.Logger
	Metrics http.Handler // the Prometheus page
	// Called counts a call by its route and its user, who may be nobody known (""). It
	// may be nil, and must not block.
	Called func(route, user string)
	// Nameless is the Prometheus page for callers who may not see the names of users.
	// It is nil if Metrics has no names.
	Nameless http.Handler
	Host     string
	Machine  func() *api.Machine // processors and memory; nil, or a nil answer, if not known
	Version  string
	// Note returns a remark about all devices, such as why there are none, or "".
	Note func() string
	// Ready returns why the daemon cannot do its work, or nil if it can.
	Ready func() error
	// Damaged lists the damaged state files that are kept. It may be nil.
	Damaged func() []string
	// Faults tells requests that failed because of a bug. Nil means that only Log gets them.
	Faults *fault.Faults
	// Unheard returns why the daemon does not listen on TCP although it should, or nil.
	// It may be nil.
	Unheard func() *string
	// Remembered says how much room the past takes. It may be nil or return "".
	Remembered func() string
	// Contained says what a daemon in a container cannot see. It is empty outside a
	// container.
	Contained string

	Guests []Guest // the routes of other doors

	Door    doorkeeper.Doorkeeper // knows who is signed in
	PageURL func() string         // the address of the page for a browser of this machine; nil or returning "" if there is none
}

// Guest is a route of another door. This door checks who may use it.
type Guest struct {
	Operation *huma.Operation
	MediaType string // of the answer; several are separated by commas
	Serve     func(w http.ResponseWriter, r *http.Request, who access.Actor)
}

func registerGuests(s *server) {
	for _, g := range s.Guests {
		s.raw(*g.Operation, g.MediaType, func(w http.ResponseWriter, r *http.Request) { g.Serve(w, r, identityOf(r.Context()).Actor) })
	}
}

// Settings is the configuration in force.
type Settings interface {
	GPU() api.GPUConfig
	Fields() []api.ConfigField
	// Change applies a JSON object with settings that can change at run time, all of
	// them or none.
	Change(ctx context.Context, by access.Actor, body []byte) error
	// Reload reads the sources again, and applies all of them or none.
	Reload(by access.Actor) (api.ConfigReload, error)
}

// server serves the API. Its methods are the operations.
type server struct {
	Parts
	lists  lists // the parameters that take several values
	mux    *http.ServeMux
	api    huma.API
	routes []string     // "METHOD /path" of every route
	bodies bodies       // decodes the frames of lease streams
	queues fair.Queues  // of users who are not administrators
	seed   maphash.Seed // for hide
}

// New returns a handler that serves every path of the API.
func New(p Parts) http.Handler { return build(p) }

func build(p Parts) *server {
	if p.Batches == nil {
		p.Batches = runs.New(func(gpu.Event) {}, func(string) bool { return false }, func(lease.Owner, string) bool { return false })
	}
	if p.Past == nil {
		p.Past = archive.New()
	}
	if p.Faults == nil {
		p.Faults = &fault.Faults{Log: p.Log, Publish: func(gpu.Event) {}}
	}
	if p.Door.Sessions == nil {
		p.Door.Sessions = sessions.New()
	}
	s := &server{Parts: p, mux: http.NewServeMux(), seed: maphash.MakeSeed()}
	config := huma.DefaultConfig("berth", p.Version)
	config.DocsPath, config.SchemasPath, config.OpenAPIPath, config.CreateHooks = "", "", "", nil
	config.Formats = formats()
	config.Transformers = []huma.Transformer{s.asProblem, s.noteRefusal}
	nameOptionals(config.Components.Schemas)
	s.api = humago.New(s, config)

	registerDevices(s)
	registerLeases(s)
	registerStream(s)
	registerPlans(s)
	registerBatches(s)
	registerMeasurements(s)
	registerEnergy(s)
	registerOperations(s)
	registerPast(s)
	registerReport(s)
	registerUsers(s)
	registerOrphans(s)
	registerJobs(s)
	registerServices(s)
	registerFront(s)
	registerCare(s)
	registerSettings(s)
	registerAudit(s)
	registerBackup(s)
	registerAlerts(s)
	registerHooks(s)
	registerEvents(s)
	registerDaemon(s)
	registerAccess(s)
	registerSessions(s)
	registerGuests(s)
	s.lists = listsOf(s.api.OpenAPI())
	describe(s.api.OpenAPI(), verbs, schemaOf[api.Problem](s.api))
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer s.recover(w, r)
	answer, pattern := s.route(r)
	who := standingOf(r.Context())
	if pattern == "" {
		if s.paced(w, r, who) {
			s.notServed(w, r, answer)
		}
		return
	}
	s.called(r.Context(), pattern, who)
	if refusal := mayUse(pattern, who); refusal != nil {
		if who.Role == access.Stranger && doorkeeper.Of(r.Context()).NeedsToken() {
			refusal = doorkeeper.Unauthorized(w, "unauthorized", "Callers from containers need a token here")
		}
		s.Refuse(w, r, refusal)
		return
	}
	r, refusal := s.unfold(r, pattern)
	if refusal != nil {
		if s.paced(w, r, who) {
			problems.Write(w, refusal)
		}
		return
	}
	s.inPlace(w, r, pattern, who)
}

// called counts a call.
func (s *server) called(ctx context.Context, route string, by access.Actor) {
	switch {
	case s.Called == nil:
	case by.User != "" || by.UID == access.NoUID:
		s.Called(route, by.User)
	default: // its name has not been looked up yet
		s.Called(route, identityOf(ctx).User)
	}
}

// recover confines a panic to the request that caused it.
func (s *server) recover(w http.ResponseWriter, r *http.Request) {
	switch cause := recover(); cause {
	case nil:
	case http.ErrAbortHandler:
		panic(cause)
	default:
		problems.Write(w, s.mistake(cause, r.Context(), r.Method+" "+r.URL.Path))
	}
}

// mistake tells a panic and returns the problem for the caller.
func (s *server) mistake(cause any, ctx context.Context, request string) *api.Problem {
	s.Faults.Tell(cause, identityOf(ctx).User, request)
	return problems.New(http.StatusInternalServerError, "internal", "This is a bug in berth, not a mistake in the request. The log of the daemon has the details; please report it.")
}

// HandleFunc records a route before it adds it to the multiplexer, so that a test can
// compare the routes with the OpenAPI text. It panics if verbs does not list the route:
// nobody has decided who may use it.
func (s *server) HandleFunc(pattern string, f func(http.ResponseWriter, *http.Request)) {
	if _, listed := verbs[pattern]; !listed {
		panic("httpapi: the route " + pattern + " has no verb: enter it in verbs and in docs/reference/access.md")
	}
	s.routes = append(s.routes, pattern)
	if strings.HasSuffix(pattern, " /") { // the multiplexer would match it with every path
		pattern += onlyThis
	}
	s.mux.HandleFunc(pattern, f)
}

// onlyThis ends a pattern of the multiplexer that matches one path ending in a slash.
const onlyThis = "{$}"

// route returns the handler of a request and its route as verbs lists it, or "" if
// there is none.
func (s *server) route(r *http.Request) (http.Handler, string) {
	answer, pattern := s.mux.Handler(r)
	return answer, strings.TrimSuffix(pattern, onlyThis)
}

// raw serves a path whose answer is not one JSON object, and describes it. Media types of the
// answer are separated by commas.
func (s *server) raw(op huma.Operation, mediaType string, f http.HandlerFunc) {
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	content := map[string]*huma.MediaType{}
	for each := range strings.SplitSeq(mediaType, ",") {
		content[each] = &huma.MediaType{}
	}
	op.Responses["200"] = &huma.Response{Description: "OK", Content: content}
	s.api.OpenAPI().AddOperation(&op)
	s.HandleFunc(op.Method+" "+op.Path, f)
}
