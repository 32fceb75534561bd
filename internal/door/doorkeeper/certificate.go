package doorkeeper

import (
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/problems"
)

// withCertificate serves or refuses a request over a connection on which the caller
// showed a client certificate. It returns false if the caller showed none. The server
// has checked who signed the certificate; a connection can outlive it.
func (d Doorkeeper) withCertificate(w http.ResponseWriter, r *http.Request, c *Caller, h http.Handler, refuse refusing) bool {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || c == nil {
		return false
	}
	shown := r.TLS.PeerCertificates[0]
	name := shown.Subject.CommonName
	switch {
	case time.Now().After(shown.NotAfter):
		refuse(w, r, problems.New(http.StatusUnauthorized, "certificate_expired", "The client certificate has ended: connect again with a new one. Nothing was changed."))
		return true
	case !isName(name):
		refuse(w, r, problems.New(http.StatusUnauthorized, "certificate_without_name",
			"The client certificate names nobody: its common name must have 1 to 64 printable characters. Nothing was changed."))
		return true
	}
	holder := c.certificate.Load()
	if holder == nil { // all requests of a connection show the same one
		holder = c.showing(access.Credential{Kind: access.Certificate, Name: name}, d.Rules)
		c.certificate.Store(holder)
	}
	h.ServeHTTP(w, r.WithContext(With(r.Context(), holder)))
	return true
}

// isName reports whether a common name can be the name of a caller.
func isName(name string) bool {
	return name != "" && utf8.RuneCountInString(name) <= 64 && gpu.Printable(name, gpu.Whole) == name && strings.TrimSpace(name) == name && !strings.ContainsAny(name, "/:")
}
