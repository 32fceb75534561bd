package httpapi

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
)

// ForTCP is the door as it stands on a TCP port: with a token, callers must show
// it; without one, only this machine may call, and no web page may make a
// browser call on its behalf.
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

// ForSocket is the door as it stands on the Unix socket, where the kernel says
// who calls. A caller may show the token there too: from a container it is the
// only way to be more than a guest.
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

// requireToken asks for the token everywhere but where a probe asks whether the
// daemon lives.
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
	writeProblem(w, problem(http.StatusUnauthorized, "unauthorized", "This daemon asks for its token: send Authorization: Bearer TOKEN (the command line takes it from BERTH_TOKEN)."))
}

// localOnly refuses requests for another host's name: a page that made its own
// name point here would otherwise pass as this machine.
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

// mayUse refuses a caller whose role does not reach for a route. A route that is
// not listed is nobody's.
func mayUse(pattern string, role access.Role) *api.Problem {
	least, listed := leastRole[pattern]
	switch {
	case listed && role >= least:
		return nil
	case !listed:
		return problem(http.StatusForbidden, "not_allowed", "Nobody may do this: the daemon has no rule for %s.", pattern)
	case role == access.Stranger:
		return problem(http.StatusForbidden, "not_allowed",
			"This daemon is private to the user who runs it, and it cannot see that you are that user. Run a daemon of your own, or ask for the token.")
	case least == access.Admin:
		return problem(http.StatusForbidden, "not_allowed",
			"Only root, or the user that the daemon runs as, may change this for everybody: over the Unix socket, or with the token. Nothing was changed.")
	}
	return problem(http.StatusForbidden, "not_allowed",
		"The daemon cannot tell who you are, so you may only look. Call over its Unix socket from outside of a container, or with the token. Nothing was changed.")
}

// leastRole is the least role that may use a route. Reading is for everybody
// who is let in at all; what a caller sees of others is decided where it is
// shown.
var leastRole = map[string]access.Role{
	"GET /healthz":      access.Stranger, // probes ask without saying who they are
	"GET /readyz":       access.Stranger,
	"GET /metrics":      access.Viewer,
	"GET /openapi.json": access.Viewer,
	"GET /docs":         access.Viewer,

	"GET /api/gpu/status":            access.Viewer,
	"GET /api/gpu/status/all":        access.Viewer,
	"GET /api/gpu/metrics":           access.Viewer,
	"GET /api/gpu/metrics/history":   access.Viewer,
	"GET /api/gpu/temperature/trend": access.Viewer,
	"GET /api/gpu/memory/available":  access.Viewer,
	"GET /api/gpu/throttle/status":   access.Viewer,
	"GET /api/gpu/config":            access.Viewer,
	"GET /api/gpu/config/sources":    access.Viewer,
	"GET /api/leases":                access.Viewer,
	"GET /api/leases/{id}":           access.Viewer,
	"GET /api/leases/{id}/explain":   access.Viewer,
	"GET /api/batches":               access.Viewer,
	"GET /api/measurements":          access.Viewer,
	"GET /api/orphans":               access.Viewer,
	"GET /api/events":                access.Viewer,

	"POST /api/gpu/memory/allocate":   access.User,
	"POST /api/gpu/memory/deallocate": access.User,
	"POST /api/leases":                access.User,
	"POST /api/leases/stream":         access.User,
	"POST /api/leases/explain":        access.User,
	"POST /api/leases/adopt":          access.User,
	"POST /api/leases/{id}/renew":     access.User,
	"POST /api/leases/{id}/bind":      access.User,
	"POST /api/leases/{id}/trim":      access.User,
	"DELETE /api/leases/{id}":         access.User,
	"POST /api/exec":                  access.User,
	"POST /api/plans":                 access.User,
	"POST /api/plans/run":             access.User,
	"PUT /api/batches/{id}":           access.User,
	"POST /api/measurements":          access.User,

	"PUT /api/gpu/config":            access.Admin,
	"POST /api/gpu/monitoring/start": access.Admin,
	"POST /api/gpu/monitoring/stop":  access.Admin,
}
