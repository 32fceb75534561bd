package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/client"
)

// The link of berth open leads to where the daemon listens, under a name that its
// certificate has.
func TestPageURL(t *testing.T) {
	certificate := func(dns []string, ips ...net.IP) *shownCertificate {
		return &shownCertificate{tls: &tls.Config{Certificates: []tls.Certificate{{Leaf: &x509.Certificate{DNSNames: dns, IPAddresses: ips}}}}}
	}
	for _, c := range []struct {
		listen string
		shown  *shownCertificate
		want   string
	}{
		{"127.0.0.1:8000", nil, "http://127.0.0.1:8000"},
		{"[::1]:8000", nil, "http://[::1]:8000"},
		{"0.0.0.0:8000", nil, "http://127.0.0.1:8000"},
		{"[::]:8000", nil, "http://127.0.0.1:8000"},
		{"10.0.0.5:80", nil, "http://10.0.0.5:80"},
		{"0.0.0.0:8000", certificate([]string{"*.lab", "gpu-box"}), "https://gpu-box:8000"},
		{"0.0.0.0:8000", certificate(nil, net.IPv4(10, 0, 0, 5)), "https://10.0.0.5:8000"},
		{"[::]:8000", certificate([]string{"*.lab"}), "https://127.0.0.1:8000"},
		{"10.0.0.5:8000", certificate([]string{"gpu-box"}), "https://10.0.0.5:8000"},
		{"127.0.0.1:8000", certificate([]string{"localhost"}), "https://localhost:8000"},
		{"127.0.0.1:8000", certificate([]string{"localhost"}, net.IPv4(127, 0, 0, 1)), "https://127.0.0.1:8000"},
		{"127.0.0.1:8000", certificate([]string{"gpu-box"}), "https://127.0.0.1:8000"},
	} {
		d := &Daemon{}
		if got := d.pageURL(); got != "" {
			t.Errorf("a daemon that listens nowhere has the page at %q", got)
		}
		d.listening.Store(&c.listen)
		d.shown.current.Store(c.shown)
		if got := d.pageURL(); got != c.want {
			t.Errorf("%s: %q, want %q", c.listen, got, c.want)
		}
	}
}

// browse signs in with a link as a browser does, and returns a client with the cookie.
func browse(t *testing.T, c *client.Client, secure *tls.Config) (*http.Client, string) {
	t.Helper()
	link, err := c.Sessions().Link(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	address, code, _ := strings.Cut(link.URL, "/#login=")
	jar, _ := cookiejar.New(nil) // without options it cannot fail
	browser := &http.Client{Jar: jar, Transport: &http.Transport{TLSClientConfig: secure}}
	t.Cleanup(browser.CloseIdleConnections)
	answer, err := browser.Post(address+"/api/session", "application/json", strings.NewReader(`{"code":"`+code+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		t.Fatal(answer.Status)
	}
	return browser, address
}

// act asks for what only an operator may, and returns the status.
func act(t *testing.T, browser *http.Client, address string) int {
	t.Helper()
	r, err := http.NewRequest("POST", address+"/api/gpu/monitoring/start", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", address)
	answer, err := browser.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

// A session survives a restart of the daemon, and one that was ended does not.
func TestSessionsSurviveARestart(t *testing.T) {
	p := newPlace(t, "sim:1")
	p.flags["daemon.listen"] = freeAddress(t) // to come back to
	c, end := p.start(t)
	browser, address := browse(t, c, nil)
	if got := act(t, browser, address); got != http.StatusOK {
		t.Errorf("signed in: %d", got)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	browser.CloseIdleConnections()
	c, end = p.start(t)
	if got := act(t, browser, address); got != http.StatusOK {
		t.Errorf("after a restart: %d", got)
	}
	all, err := c.Sessions().List(t.Context())
	if err != nil || len(all.Sessions) != 1 {
		t.Fatal(all, err)
	}
	if _, err := c.Sessions().End(t.Context(), all.Sessions[0].ID); err != nil {
		t.Fatal(err)
	}
	if got := act(t, browser, address); got != http.StatusForbidden {
		t.Errorf("ended: %d", got)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	browser.CloseIdleConnections()
	_, end = p.start(t)
	if got := act(t, browser, address); got != http.StatusForbidden {
		t.Errorf("ended, and after a restart: %d", got)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

// With TLS, the cookie is one that a page without TLS cannot set.
func TestSessionsWithTLS(t *testing.T) {
	a := newAuthority(t)
	a.sign(t, "server", "gpu-box", time.Now().Add(time.Hour))
	p, _ := secured(t, a)
	c, end := p.start(t)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	browser, address := browse(t, c, &tls.Config{RootCAs: pool})
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if kept := browser.Jar.Cookies(at); at.Scheme != "https" || len(kept) != 1 || kept[0].Name != "__Host-berth_session_"+at.Port() {
		t.Errorf("%s: %v", address, kept)
	}
	if got := act(t, browser, address); got != http.StatusOK {
		t.Errorf("signed in: %d", got)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
}
