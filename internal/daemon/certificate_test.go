package daemon

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/config"
)

// authority signs certificates for a test.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	last int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.sign(t, "ca", "authority", time.Now().Add(time.Hour))
	return a
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// sign writes NAME.pem and NAME.key.
func (a *authority) sign(t *testing.T, file, name string, until time.Time) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.last++
	plan := &x509.Certificate{
		SerialNumber: big.NewInt(a.last), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: until,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		plan.IsCA, plan.BasicConstraintsValid, plan.KeyUsage = true, true, x509.KeyUsageCertSign
		parent, signer = plan, key
	}
	raw, err := x509.CreateCertificate(rand.Reader, plan, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.path(file+".pem"), "CERTIFICATE", raw)
	writePEM(t, a.path(file+".key"), "PRIVATE KEY", secret)
	return cert, key
}

func writePEM(t *testing.T, path, kind string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// secured returns a place whose daemon serves TLS on a free port, and its address.
func secured(t *testing.T, a *authority) (*place, string) {
	address := freeAddress(t)
	p := newPlace(t, "sim:1")
	p.flags["daemon.listen"] = address
	p.edit(t, "daemon:\n  tls_cert: "+a.path("server.pem")+"\n  tls_key: "+a.path("server.key")+"\n  tls_client_ca: "+a.path("ca.pem")+"\nusers:\n  cert:node7: {role: operator}\n")
	return p, address
}

func TestTLS(t *testing.T) {
	a := newAuthority(t)
	a.sign(t, "server", "gpu-box", time.Now().Add(time.Hour))
	p, address := secured(t, a)
	local, _ := p.start(t)
	over := func(o client.Options) (*client.Client, error) {
		o.URL = "https://" + address
		c, err := client.New(o)
		if err != nil {
			return nil, err
		}
		t.Cleanup(c.Close)
		_, err = c.StatusAll(t.Context())
		return c, err
	}
	trusted, err := over(client.Options{CA: a.path("ca.pem")})
	if err != nil {
		t.Fatal(err)
	}
	a.sign(t, "node7", "node7", time.Now().Add(time.Hour))
	a.sign(t, "node8", "node8", time.Now().Add(time.Hour))
	a.sign(t, "old", "node7", time.Now().Add(-time.Hour))
	other := newAuthority(t)
	other.sign(t, "node7", "node7", time.Now().Add(time.Hour))
	for _, c := range []struct {
		by         *authority
		cert, want string
	}{{a, "node7", "cert:node7 operator"}, {a, "node8", "cert:node8 viewer"}, {a, "old", "refused"}, {other, "node7", "refused"}} {
		got := "refused"
		if shown, err := over(client.Options{CA: a.path("ca.pem"), Cert: c.by.path(c.cert + ".pem"), Key: c.by.path(c.cert + ".key")}); err == nil {
			who, err := shown.Whoami(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got = who.User + " " + who.Role
		}
		if got != c.want {
			t.Errorf("the certificate %s is answered with %s, want %s", c.by.path(c.cert), got, c.want)
		}
	}
	hint := func(err error) string {
		var insecure *client.InsecureError
		if !errors.As(err, &insecure) {
			return "none"
		}
		return insecure.Hint()
	}
	if _, err := over(client.Options{}); !strings.Contains(hint(err), "BERTH_CA") {
		t.Errorf("an unknown authority is answered with %v, hint %s", err, hint(err))
	}
	plain, err := client.New(client.Options{URL: "http://" + address})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.StatusAll(t.Context()); !strings.Contains(hint(err), "https://") {
		t.Errorf("HTTP on the port of TLS is answered with %v, hint %s", err, hint(err))
	}

	// A new certificate holds for new connections, and old ones go on.
	a.sign(t, "server", "gpu-box", time.Now().Add(48*time.Hour))
	done, err := local.ReloadConfig(t.Context())
	if err != nil || len(done.Changed) != 1 || !strings.Contains(done.Changed[0], "tls_cert was read again") {
		t.Errorf("a new certificate is reloaded as %q, %v", done.Changed, err)
	}
	if _, err := trusted.StatusAll(t.Context()); err != nil {
		t.Errorf("an open connection ended with the old certificate: %v", err)
	}
	shown := func() time.Time {
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].NotAfter
	}
	if until := shown(); time.Until(until) < 24*time.Hour {
		t.Errorf("the old certificate is still shown, valid until %v", until)
	}

	// A pair that does not fit changes nothing.
	keep, err := os.ReadFile(a.path("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	a.sign(t, "other", "other", time.Now().Add(time.Hour))
	unfit, _ := os.ReadFile(a.path("other.key"))
	for name, spoil := range map[string]func(){
		"do not work together": func() { _ = os.WriteFile(a.path("server.key"), unfit, 0o600) },
		"no such file":         func() { _ = os.Remove(a.path("server.key")) },
		"chmod 600":            func() { _ = os.WriteFile(a.path("server.key"), keep, 0o600); _ = os.Chmod(a.path("server.key"), 0o644) },
	} {
		spoil()
		if _, err := local.ReloadConfig(t.Context()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a key of which is said %q: %v", name, err)
		}
		if until := shown(); time.Until(until) < 24*time.Hour {
			t.Errorf("a refused reload changed the certificate")
		}
		_ = os.WriteFile(a.path("server.key"), keep, 0o600)
		_ = os.Chmod(a.path("server.key"), 0o600)
	}
}

// Whom an authority has signed loses what is open when the authority is taken away, and
// keeps it when another one comes.
func TestAnAuthorityIsTakenAway(t *testing.T) {
	a, next := newAuthority(t), newAuthority(t)
	a.sign(t, "server", "gpu-box", time.Now().Add(time.Hour))
	a.sign(t, "node7", "node7", time.Now().Add(time.Hour))
	p, address := secured(t, a)
	local, _ := p.start(t)
	server, err := os.ReadFile(a.path("ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(next.path("ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := tls.LoadX509KeyPair(a.path("node7.pem"), a.path("node7.key"))
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(server)
	node7 := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{own}}}}
	t.Cleanup(node7.CloseIdleConnections)
	get := func(path string) *http.Response {
		t.Helper()
		resp, err := node7.Get("https://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	status := func() int {
		t.Helper()
		resp := get("/api/whoami")
		_, _ = io.Copy(io.Discard, resp.Body) // the connection stays open
		return resp.StatusCode
	}
	events := get("/api/events?follow=true")
	for _, c := range []struct {
		authorities []byte
		want        int
	}{{append(slices.Clone(other), server...), http.StatusOK}, {other, http.StatusUnauthorized}} {
		if before := status(); before != http.StatusOK {
			t.Fatalf("before a reload: %d", before)
		}
		if err := os.WriteFile(a.path("ca.pem"), c.authorities, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := local.ReloadConfig(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := status(); got != c.want {
			t.Fatalf("answered with %d, want %d", got, c.want)
		}
	}
	if _, err := io.Copy(io.Discard, events.Body); err != nil { // until it ends
		t.Error(err)
	}
}

// One more authority ends nothing that is open.
func TestAnAuthorityIsAdded(t *testing.T) {
	a, next := newAuthority(t), newAuthority(t)
	a.sign(t, "server", "gpu-box", time.Now().Add(time.Hour))
	with := func(authorities ...*authority) *shownCertificate {
		t.Helper()
		var text []byte
		for _, each := range authorities {
			text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: each.cert.Raw})...)
		}
		if err := os.WriteFile(a.path("all.pem"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := readCertificate(config.Daemon{TLSCert: a.path("server.pem"), TLSKey: a.path("server.key"), TLSClientCA: a.path("all.pem")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := with(a)
	var c certificate
	c.current.Store(first)
	if c.exchange(with(next, a)); first.trusted.Err() != nil {
		t.Error("it ended when an authority was added")
	}
	if c.exchange(with(next)); first.trusted.Err() == nil {
		t.Error("it stands after its authority was taken away")
	}
}

// An expired certificate is served: leases go on whatever clients on TCP say.
func TestExpiredCertificateIsTold(t *testing.T) {
	a := newAuthority(t)
	for left, want := range map[time.Duration]gpu.Severity{
		-time.Hour: gpu.Serious, 13 * 24 * time.Hour: gpu.Warning, 15 * 24 * time.Hour: "",
	} {
		a.sign(t, "server", "gpu-box", time.Now().Add(left))
		now, err := readCertificate(config.Daemon{TLSCert: a.path("server.pem"), TLSKey: a.path("server.key")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var c certificate
		c.current.Store(now)
		e, soon := c.warning(time.Now())
		if soon != (want != "") || e.Severity != want {
			t.Errorf("a certificate with %v left is told of as %q: %s", left, e.Severity, e.Text)
		}
	}
	p, address := secured(t, a)
	a.sign(t, "server", "gpu-box", time.Now().Add(-time.Hour))
	p.start(t)
	c, err := client.New(client.Options{URL: "https://" + address, CA: a.path("ca.pem")})
	if err != nil {
		t.Fatal(err)
	}
	var insecure *client.InsecureError
	if _, err := c.StatusAll(t.Context()); !errors.As(err, &insecure) || !strings.Contains(insecure.Hint(), "has ended") {
		t.Errorf("an expired certificate is answered with %v", err)
	}
}

// A token in a file can be exchanged while the daemon runs.
func TestTokenFileIsReadAgain(t *testing.T) {
	p := newPlace(t, "sim:1")
	path := filepath.Join(t.TempDir(), "token")
	write := func(secret string) {
		if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second := strings.Repeat("a", 40), strings.Repeat("b", 40)
	write(first)
	p.edit(t, "daemon:\n  token_file: "+path+"\n")
	local, _ := p.start(t)
	settings, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	role := func(secret string) string {
		c, err := client.New(client.Options{Socket: settings.Config.Daemon.Socket, Token: secret})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		who, err := c.Whoami(t.Context())
		if err != nil {
			return "refused"
		}
		return who.User + " " + who.Role
	}
	if role(first) != "token admin" || role(second) != "refused" {
		t.Errorf("the tokens are %s, %s", role(first), role(second))
	}
	write(second)
	if done, err := local.ReloadConfig(t.Context()); err != nil || len(done.Changed) != 1 {
		t.Errorf("%v, %v", done.Changed, err)
	}
	if role(first) != "refused" || role(second) != "token admin" {
		t.Errorf("after a reload the tokens are %s, %s", role(first), role(second))
	}
	write("two words")
	if _, err := local.ReloadConfig(t.Context()); err == nil || role(second) != "token admin" {
		t.Errorf("a bad file: %v, and the token is %s", err, role(second))
	}
}

func TestBadCertificatesAreRefused(t *testing.T) {
	a := newAuthority(t)
	a.sign(t, "server", "gpu-box", time.Now().Add(time.Hour))
	bad := a.path("bad.pem")
	if err := os.WriteFile(bad, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key := a.path("server.pem"), a.path("server.key")
	for want, c := range map[string]config.Daemon{
		"daemon.tls_cert":             {TLSCert: "/nowhere.pem", TLSKey: key},
		"do not work together":        {TLSCert: bad, TLSKey: key},
		"daemon.tls_key":              {TLSCert: cert, TLSKey: "/nowhere.key"},
		"it is not a regular file":    {TLSCert: cert, TLSKey: a.dir},
		"holds no certificate in PEM": {TLSCert: cert, TLSKey: key, TLSClientCA: bad},
		"part 1 is not a certificate": {TLSCert: cert, TLSKey: key, TLSClientCA: key},
		"daemon.token_file":           {TokenFile: "/nowhere"},
	} {
		_, err := readCertificate(c, nil)
		if err == nil {
			_, err = readToken(c, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", c, err, want)
		}
	}
}

func TestSecretsThatOthersCanReadAreRefused(t *testing.T) {
	p := newPlace(t, "sim:1")
	p.edit(t, "daemon:\n  token: 0123456789abcdef0123456789abcdef\nhooks:\n  pager: {url: 'https://example.com/key'}\n")
	for mode, want := range map[os.FileMode]bool{0o600: true, 0o640: true, 0o644: false, 0o620: false, 0o604: false} {
		if err := os.Chmod(p.file, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := p.load(); (err == nil) != want || err != nil && !(strings.Contains(err.Error(), "chmod 600 "+p.file) && strings.Contains(err.Error(), "daemon.token, hooks.pager.url")) {
			t.Errorf("with mode %o: %v", mode, err)
		}
	}
	if err := os.Chmod(p.file, 0o644); err != nil {
		t.Fatal(err)
	}
	p.edit(t, "hooks:\n  pager: {command: [/bin/page, 0123456789]}\n") // which keeps the mode
	if _, err := p.load(); err == nil || !strings.Contains(err.Error(), "hooks.pager.command: ") {
		t.Errorf("a file with a command: %v", err)
	}
	p.edit(t, "gpu:\n  temp_optimal: 60\n")
	if _, err := p.load(); err != nil {
		t.Errorf("a file without secrets: %v", err)
	}
}

// Every user can enter the folders that a daemon makes for its socket, whatever the
// mask of the process is.
func TestFolderOfTheSocket(t *testing.T) {
	around := t.TempDir()
	before := syscall.Umask(0o077)
	err := makePassable(filepath.Join(around, "run", "berth"))
	syscall.Umask(before)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"run", "run/berth"} {
		if info, err := os.Stat(filepath.Join(around, folder)); err != nil || info.Mode() != os.ModeDir|0o755 {
			t.Errorf("%s has mode %v: %v", folder, info.Mode(), err)
		}
	}
	if err := os.Chmod(filepath.Join(around, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := makePassable(filepath.Join(around, "run")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(around, "run")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("a folder that was there has mode %v: %v", info.Mode(), err)
	}
	file := filepath.Join(around, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := makePassable(file); err == nil {
		t.Error("a file was taken for a folder")
	}
}

func TestModeAndGroupOfTheSocket(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a file to any group")
	}
	known, err := user.LookupGroup("daemon")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"daemon": known.Gid, "no-such-group": strconv.Itoa(os.Getegid())} {
		p := newPlace(t, "sim:1")
		p.edit(t, "daemon:\n  socket_group: "+name+"\n  socket_mode: 0660\n")
		p.start(t)
		settings, err := p.load()
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(settings.Config.Daemon.Socket)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o660 || groupOf(info) != want {
			t.Errorf("%s: the socket has mode %o and group %s, want %s", name, got, groupOf(info), want)
		}
	}
}

// The socket has the group that the user database names now: also if it names it late, if
// another group has the id by now, and if a try fails.
func TestGroupOfTheSocketFollowsTheDatabase(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a file to any group")
	}
	p := newPlace(t, "sim:1")
	p.edit(t, "daemon:\n  socket_group: ml\n  socket_mode: 0660\n")
	d := p.open(t, t.Context())
	d.numbers.Limit = time.Minute
	c := d.settings.load().Config.Daemon
	socket, err := listenSocket(c, -1, nil) // nobody knows the group
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	d.socket = socket
	for _, step := range []struct {
		what string
		gid  int // none if it is 0
		path string
		want string
	}{
		{"it comes late", 4711, c.Socket, "4711"},
		{"it cannot be given", 4712, "/nonexistent/berth.sock", "4711"},
		{"it is tried again", 4712, c.Socket, "4712"},
		{"there is no such group any more", 0, c.Socket, strconv.Itoa(os.Getegid())},
		{"it is made anew", 4713, c.Socket, "4713"},
	} {
		d.numbers.Ask(&users.Database{Group: func(name string) (int, error) {
			if step.gid == 0 {
				return 0, user.UnknownGroupError(name)
			}
			return step.gid, nil
		}})
		socket.path = step.path
		d.governAgain(true)
		info, err := os.Stat(c.Socket)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o660 || groupOf(info) != step.want {
			t.Errorf("%s: the socket has mode %o and group %s, want %s", step.what, got, groupOf(info), step.want)
		}
	}
	socket.path = c.Socket
}

func groupOf(info os.FileInfo) string {
	return strconv.Itoa(int(info.Sys().(*syscall.Stat_t).Gid))
}
