package httpapi

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/words"
)

// ForTCP wraps the API for a TCP port. With a token, callers must send it. Without
// one, only this machine may call, and no web page may make a browser call for it.
func ForTCP(h http.Handler, token string) http.Handler {
	sameOrigin := http.NewCrossOriginProtection()
	sameOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, problem(http.StatusForbidden, "cross_origin", "A page of another site may not do this. Call the API directly."))
	}))
	h = sameOrigin.Handler(h)
	if token == "" {
		return localOnly(h)
	}
	return requireToken(h, token)
}

// ForSocket wraps the API for the Unix socket, where the kernel says who calls. A
// caller may send the token there too: in a container, that is the only way to be
// more than a guest.
func ForSocket(h http.Handler, token string) http.Handler {
	if token == "" {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch given := bearer(r); {
		case given == "":
			h.ServeHTTP(w, r)
		case matches(given, token):
			h.ServeHTTP(w, r.WithContext(withToken(r.Context())))
		default:
			unauthorized(w)
		}
	})
}

// requireToken requires the token on every path except /healthz and /readyz.
func requireToken(h http.Handler, token string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch open := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"; {
		case matches(bearer(r), token):
			h.ServeHTTP(w, r.WithContext(withToken(r.Context())))
		case open:
			h.ServeHTTP(w, r)
		default:
			unauthorized(w)
		}
	})
}

func bearer(r *http.Request) string {
	given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return given
}

func matches(given, token string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}

func unauthorized(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="berth"`)
	writeProblem(w, problem(http.StatusUnauthorized, "unauthorized", "This daemon requires its token: send Authorization: Bearer TOKEN (the command line takes it from BERTH_TOKEN)."))
}

// localOnly refuses requests for the name of another host: otherwise a web page
// whose name resolves to this machine could pass as this machine.
func localOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) {
			writeProblem(w, problem(http.StatusForbidden, "foreign_host", "Without a token this daemon answers only to localhost and 127.0.0.1, not to %q.", r.Host))
			return
		}
		h.ServeHTTP(w, r)
	})
}

func isLoopback(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.IsLoopback()
}

// mayUse refuses a caller who may not use a route. Nobody may use a route that
// verbs does not list.
func mayUse(pattern string, who access.Actor) *api.Problem {
	verb, listed := verbs[pattern]
	if !listed {
		return problem(http.StatusForbidden, "not_allowed", "Nobody may do this: the daemon has no rule for %s.", pattern)
	}
	if err := access.May(who, verb, access.Object{}); err != nil {
		return problem(http.StatusForbidden, "not_allowed", "%s.", words.UpperFirst(err.Error()))
	}
	return nil
}

// verbs has the verb of each route. The desk and the ledger check whether the
// caller may apply it to an object; sight decides what a caller sees of others.
var verbs = map[string]access.Verb{
	"GET /healthz":      access.Probe, // probes do not identify themselves
	"GET /readyz":       access.Probe,
	"GET /metrics":      access.Scrape,
	"GET /openapi.json": access.Look,
	"GET /docs":         access.Look,

	"GET /api/gpu/status":            access.Look,
	"GET /api/gpu/status/all":        access.Look,
	"GET /api/gpu/metrics":           access.Look,
	"GET /api/gpu/metrics/history":   access.Look,
	"GET /api/gpu/temperature/trend": access.Look,
	"GET /api/gpu/memory/available":  access.Look,
	"GET /api/gpu/throttle/status":   access.Look,
	"GET /api/gpu/config":            access.Look,
	"GET /api/gpu/config/sources":    access.Look,
	"GET /api/leases":                access.Look,
	"GET /api/leases/{id}":           access.Look,
	"GET /api/leases/{id}/explain":   access.Look,
	"GET /api/batches":               access.Look,
	"GET /api/measurements":          access.Look,
	"GET /api/orphans":               access.Look,
	"GET /api/past/leases":           access.Look,
	"GET /api/events":                access.Look,

	"POST /api/gpu/memory/allocate":   access.Lease,
	"POST /api/gpu/memory/deallocate": access.Release,
	"POST /api/leases":                access.Lease,
	"POST /api/leases/stream":         access.Lease,
	"POST /api/leases/explain":        access.Lease,
	"POST /api/leases/adopt":          access.Adopt,
	"POST /api/leases/{id}/renew":     access.Renew,
	"POST /api/leases/{id}/bind":      access.Bind,
	"POST /api/leases/{id}/resize":    access.Resize,
	"POST /api/leases/{id}/trim":      access.Trim,
	"POST /api/leases/{id}/scope":     access.Scope,
	"DELETE /api/leases/{id}":         access.Release,
	"POST /api/exec":                  access.Lease,
	"POST /api/plans":                 access.Lease,
	"POST /api/plans/run":             access.Lease,
	"PUT /api/batches/{id}":           access.Report,
	"POST /api/measurements":          access.Report,

	"POST /api/services/{name}/operations": access.Report,

	"PUT /api/gpu/config":            access.Configure,
	"POST /api/gpu/config/reload":    access.Govern,
	"POST /api/gpu/monitoring/start": access.Monitor,
	"POST /api/gpu/monitoring/stop":  access.Monitor,
}

// exceeds reports whether a caller may exceed the limits of a user.
func exceeds(who access.Actor) bool { return access.May(who, access.Exceed, access.Object{}) == nil }
