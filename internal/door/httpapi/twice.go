package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/text/words"
)

// lists has the parameters of each route after the question mark, and whether each takes
// several values. The framework takes several values with commas between them, and of a
// parameter that comes twice only the first.
type lists map[string]map[string]several

// several says how a parameter takes several values.
type several int

const (
	one    several = iota // it takes one value
	joined                // with commas between them
	again                 // by itself
)

// listsOf returns the parameters of all routes.
func listsOf(all *huma.OpenAPI) lists {
	found := lists{}
	for path, item := range all.Paths {
		for method, op := range map[string]*huma.Operation{
			http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put, http.MethodDelete: item.Delete,
		} {
			if op == nil || !strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/api/v1/") { // Prometheus decides there
				continue
			}
			names := map[string]several{}
			for _, p := range op.Parameters {
				switch {
				case p.In != "query":
				case p.Schema.Type != huma.TypeArray:
					names[p.Name] = one
				case p.Explode != nil && *p.Explode:
					names[p.Name] = again
				default:
					names[p.Name] = joined
				}
			}
			found[method+" "+path] = names
		}
	}
	return found
}

// unfold returns a request in which no parameter comes twice: those that take several
// values have them with commas between them. It refuses a second value for any other, and
// a parameter that the route does not take.
func (s *server) unfold(r *http.Request, pattern string) (*http.Request, *api.Problem) {
	names := s.lists[pattern]
	if names == nil || r.URL.RawQuery == "" {
		return r, nil
	}
	query, changed := r.URL.Query(), false
	for name, values := range query {
		how, known := names[name]
		switch {
		case !known:
			p := problems.New(http.StatusUnprocessableEntity, "invalid_request", "Some fields are out of range or unknown, and nothing was changed.")
			p.Fields = []api.FieldProblem{{Field: words.Cut(name, mostGiven), Detail: "is not a parameter of this path: " + meant(name, slices.Collect(maps.Keys(names)))}}
			return nil, p
		case len(values) < 2 || how == again:
		case how == one:
			if slices.ContainsFunc(values, func(v string) bool { return v != values[0] }) {
				return nil, problems.New(http.StatusUnprocessableEntity, "invalid_request", "%s is given %d times, and this path takes one: leave the others out.", name, len(values))
			}
		default:
			query[name], changed = []string{strings.Join(values, ",")}, true
		}
	}
	if !changed {
		return r, nil
	}
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	return r, nil
}
