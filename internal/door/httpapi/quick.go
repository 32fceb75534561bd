package httpapi

import (
	"net/http"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/door/packed"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/door/wire"
	"github.com/berth-gpu/berth/internal/lease"
)

// answer serves a request on a route. Acquire and release in their usual form go the way
// of the lease stream, without the framework, which takes as long for them as the rest of
// the daemon does.
func (s *server) answer(w http.ResponseWriter, r *http.Request, pattern string) {
	if r.URL.RawQuery == "" && wantsJSON(r.Header["Accept"]) {
		switch pattern {
		case "POST /api/leases":
			if asked, usual := asksUsually(r); usual {
				s.acquireQuickly(w, r, pattern, asked)
				return
			}
		case "DELETE /api/leases/{id}":
			if id, usual := idIn(r); usual {
				s.releaseQuickly(w, r, pattern, id)
				return
			}
		}
	}
	if pattern != "GET /api/gpu/status/all" && pattern != "GET /openapi.json" {
		s.mux.ServeHTTP(w, r)
		return
	}
	answer := packed.New(w, r) // the page asks for the one every second, and the other is large
	s.mux.ServeHTTP(answer, r)
	answer.Close()
}

// wantsJSON reports whether a caller takes an answer in JSON.
func wantsJSON(accept []string) bool {
	return len(accept) == 0 || len(accept) == 1 && (accept[0] == "*/*" || accept[0] == "application/json")
}

// asksUsually returns what a request for a lease asks for, and false if the framework has
// to look at its body: it has not arrived, is not in the usual form, or is wrong.
func asksUsually(r *http.Request) (asked *api.LeaseRequest, usual bool) {
	body, whole := r.Body.(*arrivedBody)
	if kind := r.Header["Content-Type"]; !whole || len(kind) != 1 || kind[0] != "application/json" || r.URL.Path != "/api/leases" {
		return nil, false
	}
	if body.asked != nil {
		return body.asked, true
	}
	asked = new(api.LeaseRequest)
	into := (*wire.RequestBody)(asked)
	return asked, into.Read(body.text) && knownPolicy(into)
}

func (s *server) acquireQuickly(w http.ResponseWriter, r *http.Request, pattern string, asked *api.LeaseRequest) {
	granted, err := s.Desk.Acquire(r.Context(), askerOf(r.Context()), *asked)
	if err != nil {
		s.refuseAs(w, r, pattern, asID(err))
		return
	}
	writeQuickly(w, allocatedOf(granted).Status, granted)
}

// idIn returns the id in the path of a request, and false if the framework has to find it.
func idIn(r *http.Request) (id string, usual bool) {
	id, usual = strings.CutPrefix(r.URL.Path, "/api/leases/")
	return id, usual && r.URL.RawPath == "" && id != "" && len(id) <= lease.MaxIDLength && !strings.Contains(id, "/") && r.ContentLength == 0
}

func (s *server) releaseQuickly(w http.ResponseWriter, r *http.Request, pattern, id string) {
	ended, err := s.Desk.Release(r.Context(), askerOf(r.Context()), lease.Name{ID: id}, 0, false)
	if err != nil {
		s.refuseAs(w, r, pattern, err)
		return
	}
	writeQuickly(w, http.StatusOK, ended)
}

// refuseAs answers a request with the problem that an error means.
func (s *server) refuseAs(w http.ResponseWriter, r *http.Request, pattern string, err error) {
	p := problemOf(err)
	s.refused(r.Context(), r.Method, r.URL.Path, pattern, p)
	problems.Write(w, p)
}

func writeQuickly(w http.ResponseWriter, status int, v any) {
	w.Header()["Content-Type"] = []string{"application/json"}
	w.WriteHeader(status)
	_, _ = w.Write(append(quickly(v), '\n')) // fails only if the client is gone
}
