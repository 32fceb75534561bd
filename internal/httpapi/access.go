package httpapi

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// ForTCP is the door as it stands on a TCP port, where nobody knows who is
// calling: with a token, callers must show it; without one, only this machine
// may call, and no web page may make a browser call on its behalf.
func ForTCP(h http.Handler, token string) http.Handler {
	sameOrigin := http.NewCrossOriginProtection()
	sameOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, problem(http.StatusForbidden, "cross_origin", "A page of another site may not do this. Call the API directly."))
	}))
	h = sameOrigin.Handler(h)
	if token == "" {
		return localOnly(h)
	}
	return withToken(h, token)
}

// withToken asks for the token everywhere but where a probe asks whether the
// daemon lives.
func withToken(h http.Handler, token string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		open := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"
		if !open && subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="berth"`)
			writeProblem(w, problem(http.StatusUnauthorized, "unauthorized", "This daemon asks for its token: send Authorization: Bearer TOKEN (the command line takes it from BERTH_TOKEN)."))
			return
		}
		h.ServeHTTP(w, r.WithContext(withAdministrator(r.Context())))
	})
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
