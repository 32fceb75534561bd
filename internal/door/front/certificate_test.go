package front

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
)

// A certificate that was renewed and cannot be read is told once, and the old one shown.
func TestARenewedCertificateThatCannotBeRead(t *testing.T) {
	s := api.FrontSettings{TLSCert: filepath.Join(t.TempDir(), "cert.pem"), TLSKey: filepath.Join(t.TempDir(), "key.pem")}
	renew := func(serial int64, mode os.FileMode) {
		t.Helper()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		plan := &x509.Certificate{SerialNumber: big.NewInt(serial)}
		cert, err := x509.CreateCertificate(rand.Reader, plan, plan, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		secret, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		for path, block := range map[string]*pem.Block{s.TLSCert: {Type: "CERTIFICATE", Bytes: cert}, s.TLSKey: {Type: "PRIVATE KEY", Bytes: secret}} {
			if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		changed := time.Unix(serial, 0) // two renewals may come within one tick of the clock of files
		if err := os.Chtimes(s.TLSCert, changed, changed); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(s.TLSKey, mode); err != nil { // a mode that is refused, whoever reads it
			t.Fatal(err)
		}
	}
	var log strings.Builder
	renew(1, 0o600)
	c, err := newCertificate(s, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	look := func(serial int64, told int) {
		t.Helper()
		c.looked = time.Time{}
		pair, err := c.current(nil)
		if err != nil || pair.Leaf.SerialNumber.Int64() != serial {
			t.Errorf("it shows %v, %v", pair.Leaf.SerialNumber, err)
		}
		if n := strings.Count(log.String(), "front.tls_key"); n != told {
			t.Errorf("told %d times: %s", n, &log)
		}
	}
	look(1, 0)
	renew(2, 0o644)
	look(1, 1)
	look(1, 1)
	renew(3, 0o644)
	look(1, 2)
	renew(4, 0o600)
	look(4, 2)
}
