package front

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
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
	if address, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return isOwnAddress(r, address)
	}
	_, service := route.ByHost(f.table.known(), host)
	return service || slices.Contains(f.hosts, host) || host == "localhost" || strings.HasSuffix(host, ".localhost") ||
		slices.Contains(fromContainers, host)
}

// fromContainers are the names by which containers call their machine. Other names that end
// so belong to somebody in some clouds.
var fromContainers = []string{"host.docker.internal", "gateway.docker.internal", "host.containers.internal", "host.lima.internal", "host.minikube.internal"}

// isOwnAddress reports whether an address is one of this machine, in a form for which
// browsers say of which site a page is: for 0.0.0.0 and addresses of IPv4 in the form of
// IPv6 they do not.
func isOwnAddress(r *http.Request, a netip.Addr) bool {
	if a.IsUnspecified() || a.Is4In6() {
		return false
	}
	if a.IsLoopback() {
		return true
	}
	is := func(own net.Addr) bool {
		ip := net.IP(nil)
		switch own := own.(type) {
		case *net.TCPAddr:
			ip = own.IP
		case *net.IPNet:
			ip = own.IP
		}
		known, ok := netip.AddrFromSlice(ip)
		return ok && known.Unmap() == a.WithZone("")
	}
	if here, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && is(here) {
		return true
	}
	own, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(own, is)
}

// checkPage refuses a request that a page of another service makes a browser send. To a
// browser, all services on a host are one site, but their servers are programs of different
// users. A page that hides or changes where it is passes; hosts keep services apart.
func (f *Front) checkPage(r *http.Request, service string) *route.Refusal {
	page, err := url.Parse(r.Referer())
	if err != nil || page.Host == "" || !strings.EqualFold(page.Host, r.Host) {
		return nil
	}
	from, refused := route.Of(route.Request{Path: page.EscapedPath(), Host: page.Host}, f.table.known())
	if refused != nil || from.Service == "" || from.Service == service {
		return nil
	}
	return refusal(http.StatusForbidden, "cross_service", "A page of the service %s may not call the service %s without a token of berth. Open the address itself.", from.Service, service)
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
