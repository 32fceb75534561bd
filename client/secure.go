package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
)

// secure returns the TLS configuration for a daemon: the certificates to trust, and the
// certificate to show.
func (o Options) secure() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		text, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("read the certificates to trust (BERTH_CA): %w", err)
		}
		if c.RootCAs, err = x509.SystemCertPool(); err != nil {
			c.RootCAs = x509.NewCertPool() // the machine has none
		}
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("read the certificates to trust (BERTH_CA): %s holds none in PEM form", o.CA)
		}
	}
	if o.Cert == "" && o.Key == "" {
		return c, nil
	}
	if o.Cert == "" || o.Key == "" {
		return nil, errors.New("a client certificate needs its key: set both BERTH_CERT and BERTH_KEY")
	}
	pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
	if err != nil {
		return nil, fmt.Errorf("read the client certificate (BERTH_CERT, BERTH_KEY): %w", err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

// ReadToken reads a token from a file with one line.
func ReadToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("read the token: %s must hold one line of printable ASCII without spaces", path)
	}
	return token, nil
}

// InsecureError reports that the client and the daemon do not agree on TLS.
type InsecureError struct {
	Err  error
	hint string
}

func (e *InsecureError) Error() string { return e.Err.Error() }

func (e *InsecureError) Unwrap() error { return e.Err }

// Hint returns the next step, in one sentence.
func (e *InsecureError) Hint() string { return e.hint }

// insecure adds the next step to an error of TLS. It returns other errors unchanged.
func insecure(err error) error {
	invalid, name, record := x509.CertificateInvalidError{}, x509.HostnameError{}, tls.RecordHeaderError{}
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return &InsecureError{err, "name the certificate that signed the daemon's with BERTH_CA=FILE"}
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return &InsecureError{err, "the certificate of the daemon has ended, or the clock of this machine is wrong: ask its administrator for a new one"}
	case errors.As(err, &name):
		return &InsecureError{err, "use the name that the certificate is for"}
	case errors.As(err, &record):
		return &InsecureError{errors.New("the daemon does not speak TLS there"), "use http:// in the address, if its administrator meant that"}
	case strings.Contains(err.Error(), "tls: "): // an alert from the daemon
		return &InsecureError{err, "check the client certificate: BERTH_CERT and BERTH_KEY"}
	}
	return err
}
