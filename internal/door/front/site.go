package front

import (
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/internal/door/front/route"
)

// sameOrigin tells requests that browsers make for pages of other sites. Programs that
// are no browsers do not say for whom they make a request, and it lets them in.
var sameOrigin = http.NewCrossOriginProtection()

// checkSite refuses a request that a page of another site makes a browser send. It is for
// callers who are known by their connection alone: such a page has no token.
func (f *Front) checkSite(r *http.Request) *route.Refusal {
	if !f.answersTo(r) {
		return refusal(http.StatusForbidden, "foreign_host", "Without a token of berth the front answers only to localhost, to addresses, to the name of this machine and to hosts of services, not to %q.", r.Host)
	}
	if r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "" {
		return nil // no browser
	}
	asked := r.WithContext(r.Context())
	asked.Method = http.MethodPost // a GET brings a service, too
	if sameOrigin.Check(asked) != nil {
		return refusal(http.StatusForbidden, "cross_origin", "A page of another site may not do this without a token of berth. Open the address itself, or call it from a program.")
	}
	return nil
}

// answersTo reports whether a request is for a host whose name no other site can have:
// otherwise a web page whose name resolves to this machine could pass as this machine.
// Over TLS the browser has checked the name.
func (f *Front) answersTo(r *http.Request) bool {
	if r.Host == "" || r.TLS != nil { // every browser names a host
		return true
	}
	host := strings.ToLower(hostOf(r.Host))
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	_, service := route.ByHost(f.table.known(), host)
	return service || slices.Contains(f.hosts, host) || host == "localhost" || strings.HasSuffix(host, ".localhost") ||
		strings.HasSuffix(host, ".internal") // by such names containers call their machine; nobody can own one
}

// hostsOf returns the names of this machine: its own, and the one in the address on which
// the front listens.
func hostsOf(listen string) (names []string) {
	if own, err := os.Hostname(); err == nil {
		names = append(names, strings.ToLower(own))
	}
	return append(names, strings.ToLower(hostOf(listen)))
}

// hostOf returns the host of hostport, which may lack the port.
func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return hostport
}
