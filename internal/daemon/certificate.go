package daemon

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/text/words"
)

// certificate is the certificate that the daemon shows on TCP. It can be exchanged while
// connections are open: new connections get the new one.
type certificate struct {
	current atomic.Pointer[shownCertificate]
}

// shownCertificate is a certificate with its key, and the authorities whose certificates
// the daemon accepts.
type shownCertificate struct {
	tls     *tls.Config
	expires time.Time
	name    string // file, for people

	authorities []byte // of client certificates, in PEM form
	// trusted ends when one of the authorities is taken away, and distrust ends it.
	trusted  context.Context
	distrust context.CancelFunc
}

// readCertificate reads the files that the configuration names, or returns nil if it
// names none. It refuses a pair that cannot work. It accepts an expired certificate:
// leases go on whatever the clients on TCP say.
func readCertificate(c config.Daemon, warn func(string)) (*shownCertificate, error) {
	if c.TLSCert == "" {
		return nil, nil
	}
	chain, err := file.ReadTrusted(c.TLSCert, warn)
	if err != nil {
		return nil, fmt.Errorf("read the certificate (daemon.tls_cert): %w", err)
	}
	key, err := file.ReadSecret(c.TLSKey, warn)
	if err != nil {
		return nil, fmt.Errorf("read the key (daemon.tls_key): %w", err)
	}
	pair, err := tls.X509KeyPair(chain.Text, key)
	if err != nil { // err names neither the key nor its content
		return nil, fmt.Errorf("the certificate %s and the key %s do not work together: %w. Give the key that the certificate was made for, both in PEM form", c.TLSCert, c.TLSKey, err)
	}
	s := &shownCertificate{expires: pair.Leaf.NotAfter, name: c.TLSCert, tls: &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"}, // a lease stream is an upgrade of HTTP/1.1
		ClientCAs:  x509.NewCertPool(),   // without one, those of the system would count
	}}
	s.trusted, s.distrust = context.WithCancel(context.Background())
	if c.TLSClientCA == "" {
		return s, nil
	}
	if s.tls.ClientCAs, s.authorities, err = readAuthorities(c.TLSClientCA, warn); err != nil {
		return nil, fmt.Errorf("read the authorities of client certificates (daemon.tls_client_ca): %w", err)
	}
	s.tls.ClientAuth = tls.VerifyClientCertIfGiven
	return s, nil
}

// readAuthorities reads certificates in PEM form. It refuses a file with anything else in
// it: a certificate that was left out by mistake would lock its holders out.
func readAuthorities(path string, warn func(string)) (*x509.CertPool, []byte, error) {
	read, err := file.ReadTrusted(path, warn)
	if err != nil {
		return nil, nil, err
	}
	text := read.Text
	pool, found := x509.NewCertPool(), 0
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: part %d is not a certificate: %w", path, found+1, err)
		}
		pool.AddCert(one)
		found++
	}
	if found == 0 {
		return nil, nil, fmt.Errorf("%s holds no certificate in PEM form", path)
	}
	return pool, read.Text, nil
}

// config returns the configuration of a listener that always shows the newest
// certificate.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load().tls, nil },
	}
}

// expires returns when the certificate ends, or the zero time if there is none.
func (c *certificate) expires() time.Time {
	if now := c.current.Load(); now != nil {
		return now.expires
	}
	return time.Time{}
}

// renew reads the certificate, the token and the keys of the cluster again, for a reload of the configuration.
func (d *Daemon) renew(c config.Daemon) (commit func() []string, err error) {
	next, err := readCertificate(c, d.warn)
	if err != nil {
		return nil, err
	}
	secret, err := readToken(c, d.warn)
	if err != nil {
		return nil, err
	}
	cluster, err := readIssued(c, d.host, d.warn)
	if err != nil {
		return nil, err
	}
	return func() (changed []string) {
		d.issued.Store(cluster)
		if d.trustToken(secret) {
			changed = append(changed, "daemon.token_file was read again, and holds another token")
		}
		if d.shown.exchange(next) {
			changed = append(changed, "daemon.tls_cert was read again, and is valid until "+next.expires.Format(time.DateOnly))
		}
		return changed
	}, nil
}

// exchange replaces the certificate, and reports whether the new one differs. Whether
// there is TLS at all is decided at the start. If an authority was taken away, the requests
// of those who showed a certificate end, and trusts decides about them anew.
func (c *certificate) exchange(next *shownCertificate) bool {
	before := c.current.Load()
	if before == nil || next == nil {
		return false
	}
	both := next.tls.ClientCAs.Clone()
	both.AppendCertsFromPEM(before.authorities)
	kept := both.Equal(next.tls.ClientCAs)
	if kept {
		next.trusted, next.distrust = before.trusted, before.distrust
	}
	c.current.Store(next)
	if !kept {
		before.distrust()
	}
	return !bytes.Equal(before.tls.Certificates[0].Certificate[0], next.tls.Certificates[0].Certificate[0])
}

// trusts returns a context that lasts until an authority is taken away, if one of those in
// force has signed the client certificate of a connection, and else nil.
func (c *certificate) trusts(shown *tls.ConnectionState) context.Context {
	now, between := c.current.Load(), x509.NewCertPool()
	for _, one := range shown.PeerCertificates[1:] {
		between.AddCert(one)
	}
	_, err := shown.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: now.tls.ClientCAs, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return nil
	}
	return now.trusted
}

// expiresSoon is how long before the certificate ends the daemon begins to warn, once a
// day.
const expiresSoon = 14 * 24 * time.Hour

// watchCertificate warns once a day that the certificate ends soon, or has ended.
func (d *Daemon) watchCertificate(ctx context.Context) {
	tick := time.NewTicker(24 * time.Hour)
	defer tick.Stop()
	for {
		if e, soon := d.shown.warning(time.Now()); soon {
			d.publish(e)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// warning returns the event about a certificate that ends soon.
func (c *certificate) warning(now time.Time) (e gpu.Event, soon bool) {
	shown := c.current.Load()
	if shown == nil || shown.expires.Sub(now) > expiresSoon {
		return gpu.Event{}, false
	}
	const next = ". Put a new one in its place, and run berth config reload"
	e = gpu.Event{Time: now, Code: gpu.EventConfig, Severity: gpu.Warning, Public: "The certificate of the daemon ends soon, or has ended"}
	if left := shown.expires.Sub(now); left > 0 {
		e.Text = fmt.Sprintf("The certificate %s ends in %s%s", shown.name, words.Duration(left), next)
	} else {
		e.Severity, e.Text = gpu.Serious, fmt.Sprintf("The certificate %s has ended, and clients on TCP refuse it%s", shown.name, next)
	}
	return e, true
}

// trustToken puts the token of the configuration into force, and reports whether it has
// changed.
func (d *Daemon) trustToken(secret string) (changed bool) {
	changed, short := d.tokens.SetDaemon(secret)
	if short {
		d.log.Warn("daemon.token has fewer than 32 characters, so it could be guessed: the next release refuses it. Set one that openssl rand -base64 32 makes, or use named tokens: berth token create")
	}
	return changed
}

// readToken returns the token of the daemon, which may be in a file of its own, or "" if
// there is none.
func readToken(c config.Daemon, warn func(string)) (string, error) {
	if c.TokenFile == "" {
		return c.Token, nil
	}
	text, err := file.ReadSecret(c.TokenFile, warn)
	if err != nil {
		return "", fmt.Errorf("read the token (daemon.token_file): %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("read the token (daemon.token_file): %s must hold one line of printable ASCII without spaces", c.TokenFile)
	}
	return token, nil
}
