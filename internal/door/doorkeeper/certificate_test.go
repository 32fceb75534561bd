package doorkeeper

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/internal/access"
)

// What a certificate opened ends with it, as what a token opened does.
func TestRequestsEndWithTheirCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper := Doorkeeper{Rules: func() *access.Rules { return &access.Rules{} }}
		h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		leaf := &x509.Certificate{Subject: pkix.Name{CommonName: "node7"}, NotAfter: time.Now().Add(time.Hour)}
		r := httptest.NewRequest("GET", "/api/events?follow=true", nil)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}
		keeper.withCertificate(httptest.NewRecorder(), r, &Caller{door: access.TCP}, h, refuser(h))
		if now := time.Now(); !now.Equal(leaf.NotAfter) {
			t.Errorf("it ended %v after the certificate", now.Sub(leaf.NotAfter))
		}
	})
}

// A connection can outlive the certificate that was shown on it, and an authority
// may sign any name.
func TestCertificatesThatNameNobody(t *testing.T) {
	rules := &access.Rules{Certificates: map[string]access.Role{"node7": access.Operator}}
	keeper := Doorkeeper{Rules: func() *access.Rules { return rules }}
	var who access.Actor
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { who = Of(r.Context()).Standing() })
	ask := func(c *Caller, name string, until time.Time, verified bool) (int, string) {
		r := httptest.NewRequest("GET", "/api/whoami", nil)
		leaf := &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotAfter: until}
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
		if verified {
			r.TLS.VerifiedChains = [][]*x509.Certificate{{leaf}}
		}
		w := httptest.NewRecorder()
		if !keeper.withCertificate(w, r.WithContext(With(r.Context(), c)), c, h, refuser(h)) {
			return 0, ""
		}
		return w.Code, w.Body.String()
	}
	soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Second)
	for name, want := range map[string]string{
		"node7": "cert:node7", "jane doe": "cert:jane doe", "node7.example.com": "cert:node7.example.com",
		"": "", " node7": "", "node7\n": "", "a/b": "", "token:x": "", strings.Repeat("x", 65): "", "a\u202eb": "", "\xff": "",
	} {
		c := &Caller{door: access.TCP}
		who = access.Actor{}
		if status, text := ask(c, name, soon, true); who.User != want || want == "" && (status != http.StatusUnauthorized || !strings.Contains(text, "certificate_without_name")) {
			t.Errorf("%q is %q, answered with %d %s", name, who.User, status, text)
		}
		if status, text := ask(c, name, past, true); status != http.StatusUnauthorized || !strings.Contains(text, "certificate_expired") {
			t.Errorf("%q after its end is answered with %d %s", name, status, text)
		}
		if status, _ := ask(c, name, soon, false); status != 0 {
			t.Errorf("%q that nobody signed is taken for a certificate", name)
		}
	}
	c := &Caller{door: access.TCP}
	if ask(c, "node7", soon, true); who.Role != access.Operator {
		t.Errorf("node7 is %v", who.Role)
	}
	rules = &access.Rules{} // a reload takes the role away, also on an open connection
	if ask(c, "node7", soon, true); who.Role != access.Viewer {
		t.Errorf("node7 without a role is %v", who.Role)
	}
}
