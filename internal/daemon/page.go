package daemon

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"github.com/berth-gpu/berth/docs"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/httpapi"
	"github.com/berth-gpu/berth/internal/door/webui"
	"github.com/berth-gpu/berth/internal/door/webui/help"
)

// pageGuests returns the routes of the page for people, and of the manual.
func pageGuests() (guests []httpapi.Guest) {
	manual := sync.OnceValues(func() (*help.Help, error) { return help.New(docs.Pages()) })
	routes := append(webui.New().Routes(), help.Routes(manual)...)
	for _, route := range routes {
		guests = append(guests, httpapi.Guest{
			Operation: route.Operation, MediaType: route.MediaType,
			Serve: func(w http.ResponseWriter, r *http.Request, _ access.Actor) { route.Serve(w, r) },
		})
	}
	return guests
}

// pageURL returns the URL of the page for a browser on this machine, or "" if the daemon
// listens on no TCP address.
func (d *Daemon) pageURL() string {
	at := d.listening.Load()
	if at == nil {
		return ""
	}
	host, port, err := net.SplitHostPort(*at)
	if err != nil {
		return ""
	}
	shown := d.shown.current.Load()
	if address, err := netip.ParseAddr(host); err == nil && address.IsUnspecified() {
		if host = "127.0.0.1"; shown != nil {
			host = shown.host(host)
		}
	}
	switch {
	case shown == nil:
		return "http://" + net.JoinHostPort(host, port)
	case loopback(host) && shown.names("localhost") && !shown.names(host):
		host = "localhost"
	}
	return "https://" + net.JoinHostPort(host, port)
}

// names reports whether a certificate is valid for a host.
func (s *shownCertificate) names(host string) bool {
	return s.tls.Certificates[0].Leaf.VerifyHostname(strings.Trim(host, "[]")) == nil
}

// host returns the first name of a certificate, under which a browser accepts it, or
// otherwise if it has no name.
func (s *shownCertificate) host(otherwise string) string {
	leaf := s.tls.Certificates[0].Leaf
	for _, name := range leaf.DNSNames {
		if !strings.Contains(name, "*") {
			return name
		}
	}
	for _, address := range leaf.IPAddresses {
		return address.String()
	}
	return otherwise
}

// named reports whether the daemon has a certificate that is valid for a host.
func (c *certificate) named(host string) bool {
	now := c.current.Load()
	return now != nil && now.names(host)
}
