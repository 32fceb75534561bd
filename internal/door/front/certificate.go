package front

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/file"
)

// lookAgain is how often the files of a certificate are looked at, at most.
const lookAgain = 10 * time.Second

// certificate is the certificate that the front shows. It reads the files again after
// they changed.
type certificate struct {
	cert, key string // files
	log       *slog.Logger

	mu      sync.Mutex // guards what follows
	pair    *tls.Certificate
	changed time.Time // of the certificate's file
	looked  time.Time
	told    time.Time // the change that could not be read, of which the log has been told
}

// newCertificate reads a certificate. It returns nil if the settings name none.
func newCertificate(s api.FrontSettings, log *slog.Logger) (*certificate, error) {
	if s.TLSCert == "" && s.TLSKey == "" {
		return nil, nil
	}
	if s.TLSCert == "" || s.TLSKey == "" {
		return nil, errors.New("TLS needs a certificate and its key: set front.tls_cert and front.tls_key")
	}
	c := &certificate{cert: s.TLSCert, key: s.TLSKey, log: log}
	return c, c.read()
}

// read reads the files.
func (c *certificate) read() error {
	info, err := os.Stat(c.cert)
	if err != nil {
		return fmt.Errorf("read the certificate (front.tls_cert): %w", err)
	}
	chain, err := file.ReadTrusted(c.cert, func(string) {})
	if err != nil {
		return fmt.Errorf("read the certificate (front.tls_cert): %w", err)
	}
	key, err := file.ReadSecret(c.key, func(string) {})
	if err != nil {
		return fmt.Errorf("read the key (front.tls_key): %w", err)
	}
	pair, err := tls.X509KeyPair(chain.Text, key)
	if err != nil {
		return fmt.Errorf("the certificate %s and the key %s do not work together: %w", c.cert, c.key, err)
	}
	c.pair, c.changed = &pair, info.ModTime()
	return nil
}

// current returns the certificate to show. Files that cannot be read change nothing, and
// the log is told once for each change.
func (c *certificate) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= lookAgain {
		c.looked = now
		if info, err := os.Stat(c.cert); err == nil && !info.ModTime().Equal(c.changed) {
			if err := c.read(); err != nil && !info.ModTime().Equal(c.told) {
				c.told = info.ModTime()
				c.log.Error("the front goes on with the certificate that it has, until that ends", "error", err)
			}
		}
	}
	return c.pair, nil
}

// listener adds TLS to a door. It offers HTTP/1.1 alone: WebSockets need it.
func (c *certificate) listener(door net.Listener) net.Listener {
	return tls.NewListener(door, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.current, NextProtos: []string{"http/1.1"}})
}
