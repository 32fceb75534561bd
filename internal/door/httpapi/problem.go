package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/text/words"
)

// statuses has the HTTP status of each kind of refusal.
var statuses = map[desk.Kind]int{
	desk.Failed:      http.StatusInternalServerError,
	desk.Invalid:     http.StatusUnprocessableEntity,
	desk.Unknown:     http.StatusNotFound,
	desk.Forbidden:   http.StatusForbidden,
	desk.Conflict:    http.StatusConflict,
	desk.Crowded:     http.StatusTooManyRequests,
	desk.DiskFull:    http.StatusInsufficientStorage,
	desk.Unavailable: http.StatusServiceUnavailable,
	desk.Withdrawn:   http.StatusRequestTimeout,
}

// problemOf returns the problem document of an error.
func problemOf(err error) *api.Problem {
	if p := (*api.Problem)(nil); errors.As(err, &p) {
		return p
	}
	r := desk.Refused(err)
	p := problems.New(statuses[r.Kind], r.Code, "%s", r.Detail)
	p.Fields, p.Extra = r.Fields, r.Extra
	return p
}

// asID renames the field allocation_id of a refusal to id, for paths that use that
// name.
func asID(err error) error {
	if r := (*desk.Refusal)(nil); errors.As(err, &r) {
		for i, f := range r.Fields {
			if f.Field == "allocation_id" {
				r.Fields[i].Field = "id"
			}
		}
	}
	return err
}

// asProblem converts an error of the framework to a problem. It is a response
// transformer, because the only other way is a process-wide variable.
func (s *server) asProblem(c huma.Context, _ string, v any) (any, error) {
	model, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	return frameworkProblem(model, takenBy(c.Operation(), s.api.OpenAPI().Components.Schemas)), nil
}

// frameworkProblem returns the problem for an error of the framework about a request to a
// route that takes this.
func frameworkProblem(model *huma.ErrorModel, takes taken) *api.Problem {
	code, sentence, fields := inWords(model, takes)
	p := problems.New(model.Status, code, "%s", sentence)
	p.Fields = fields
	return p
}

// notServed answers a request that no route matches with a problem. It asks the
// multiplexer whether the path or only the method is wrong.
func (s *server) notServed(w http.ResponseWriter, r *http.Request, answer http.Handler) {
	if r.Method == http.MethodPost && r.URL.Path == "/api/exec" {
		// berth 0.1.0 asks here first, and takes a conflict for the word that nothing changed.
		problems.Write(w, problems.New(http.StatusConflict, "not_plain", "Launches in one request are gone. Ask for the lease with POST /api/leases."))
		return
	}
	seen := &statusOnly{header: http.Header{}}
	answer.ServeHTTP(seen, r)
	switch seen.status {
	case http.StatusMethodNotAllowed:
		allow := seen.header.Get("Allow")
		w.Header().Set("Allow", allow)
		problems.Write(w, problems.New(seen.status, "method_not_allowed", "%s does not take %s; it takes %s.%s", r.URL.Path, r.Method, allow, s.otherMethod(r)))
	case http.StatusNotFound:
		problems.Write(w, problems.New(seen.status, "unknown_path", "There is nothing at %s.%s%s /openapi.json lists every path, /docs describes them, and /help is the manual.", r.URL.Path, ofModels(r.URL.Path), s.nearPath(r.URL.Path)))
	default:
		s.mux.ServeHTTP(w, r)
	}
}

// otherMethod names the route that does what somebody meant who sent DELETE.
func (s *server) otherMethod(r *http.Request) string {
	if r.Method != http.MethodDelete {
		return ""
	}
	for _, way := range []struct{ verb, does string }{{"cancel", "cancel it"}, {"stop", "stop it"}} {
		path := r.URL.Path + "/" + way.verb
		there := &http.Request{Method: http.MethodPost, Host: r.Host, URL: &url.URL{Path: path}}
		if _, pattern := s.route(there); pattern != "" && strings.HasSuffix(pattern, "/"+way.verb) {
			return " To " + way.does + ", send POST " + path + "."
		}
	}
	return ""
}

// ofModels says where requests for models go. They come here if somebody takes the daemon
// for the front.
func ofModels(path string) string {
	if !strings.HasPrefix(path, "/v1/") {
		return ""
	}
	return " Requests for models go to the front, which listens where front.listen of the configuration says (GET /api/services lists the services behind it)."
}

// nearPath asks whether the caller meant the path that is nearest to one that is not
// served. Where a path has a name in braces, and all before it is right, what the caller
// wrote stands for it.
func (s *server) nearPath(wrong string) string {
	if ofModels(wrong) != "" {
		return ""
	}
	parts := strings.Split(strings.TrimSuffix(words.Cut(wrong, mostPath), "/"), "/")
	var known []string
	for path := range s.api.OpenAPI().Paths {
		names := strings.Split(path, "/")
		for i, name := range names {
			if strings.HasPrefix(name, "{") && len(names) == len(parts) && slices.Equal(names[:i], parts[:i]) {
				names[i] = parts[i]
			}
		}
		known = append(known, strings.Join(names, "/"))
	}
	slices.Sort(known)
	if at := slices.IndexFunc(known, func(path string) bool { return len(wrong) > 1 && strings.HasSuffix(path, wrong) }); at >= 0 {
		return " Did you mean " + known[at] + "?"
	}
	if near, ok := words.Nearest(strings.Join(parts, "/"), known); ok {
		return " Did you mean " + near + "?"
	}
	above, last := strings.Join(parts[:len(parts)-1], "/")+"/", "/"+parts[len(parts)-1]
	if at := slices.IndexFunc(known, func(path string) bool { // a step is left out
		return len(parts) > 2 && len(last) > 1 && strings.HasPrefix(path, above) && strings.HasSuffix(path, last)
	}); at >= 0 {
		return " Did you mean " + known[at] + "?"
	}
	return ""
}

// mostPath is how much of an unknown path is compared with others.
const mostPath = 200

// statusOnly discards an answer and keeps its status and header.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }
func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
