package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
)

// accessPage has the table of routes and roles. The program runs in the root of
// the repository.
const accessPage = "docs/reference/access.md"

// right is one row of the table: who may use a route.
type right struct {
	method, path string
	own, others  access.Role
}

// caller is somebody who tries every route.
type caller struct {
	name  string
	uid   int
	door  door
	token string
	role  access.Role

	cookie string // of a session
	runs   string // the user as whom it runs programs; empty if it runs none
}

// boundTo is the user that tokens are bound to: one that every machine has, and that is
// nobody else who tries.
const boundTo = "daemon"

// The users of the table. A process of a user has the group with the same number.
const (
	viewerUID   = 60001
	userUID     = 60002
	operatorUID = 60003
	adminUID    = 60004
	memberUID   = 60005 // operator because of a group
	frontUID    = 60006 // that the front runs as
)

// callersOf returns everybody who tries the routes of a daemon.
func callersOf(ctx context.Context, d *daemon, files string, secure bool) ([]caller, error) {
	var all []caller
	tcp := d.tcp
	if secure {
		tcp.CA = filepath.Join(files, "ca.pem")
	}
	for _, u := range []struct {
		name string
		uid  int
		role access.Role
	}{
		{"root", 0, access.Admin}, {"a viewer", viewerUID, access.Viewer}, {"a user", userUID, access.User}, {"an operator", operatorUID, access.Operator},
		{"an administrator", adminUID, access.Admin}, {"a member of a group of operators", memberUID, access.Operator},
		{"the front", frontUID, access.User},
	} {
		runs, onPage := "root", "" // root runs nothing by a session
		if u.uid != 0 {
			runs, onPage = strconv.Itoa(u.uid), strconv.Itoa(u.uid)
		}
		if u.role < access.User {
			runs, onPage = "", ""
		}
		if !secure {
			all = append(all, caller{name: u.name, uid: u.uid, door: d.socket, role: u.role, runs: runs})
		}
		all = append(all, caller{name: u.name, uid: u.uid, door: tcp, role: min(u.role, access.User)})
		cookie, err := signIn(ctx, d, u.uid, tcp)
		if err != nil {
			return nil, err
		}
		all = append(all, caller{name: "the session of " + u.name, uid: u.uid, door: tcp, role: u.role, cookie: cookie, runs: onPage},
			caller{name: "a thief with the session of " + u.name, uid: attacker, door: tcp, role: access.User, cookie: cookie})
	}
	for role := access.Scraper; role <= access.Admin; role++ {
		for _, as := range []string{"", boundTo} {
			if as != "" && role < access.User {
				continue
			}
			name := "a token for the role " + role.String()
			if as != "" {
				name += ", bound to the user " + as
			}
			got, err := d.as(ctx, 0, d.socket, call{Method: "POST", Path: "/api/tokens", Body: fmt.Sprintf(`{"name":"t-%s-%s","role":%q,"as":%q}`, role, as, role, as)})
			if err != nil {
				return nil, err
			}
			var made api.NewToken
			if err := json.Unmarshal([]byte(got[0].Body), &made); err != nil || made.Secret == "" || made.As != as {
				return nil, fmt.Errorf("make %s: %d %s", name, got[0].Status, got[0].Body)
			}
			if role >= access.Viewer {
				cookie, err := begin(ctx, d, attacker, tcp, fmt.Sprintf(`{"token":%q}`, made.Secret))
				if err != nil {
					return nil, err
				}
				all = append(all, caller{name: "the session of " + name, uid: attacker, door: tcp, role: role, cookie: cookie, runs: as})
			}
			for _, door := range []door{d.socket, tcp} {
				all = append(all, caller{name: name, uid: attacker, door: door, token: made.Secret, role: role, runs: as})
			}
		}
	}
	if !secure {
		return all, nil
	}
	for name, role := range map[string]access.Role{"nobody-knows": access.Viewer, "op": access.Operator, "boss": access.Admin} {
		shown := tcp
		shown.Cert, shown.Key = filepath.Join(files, name+".pem"), filepath.Join(files, name+".key")
		all = append(all, caller{name: "the certificate " + name, uid: attacker, door: shown, role: role})
	}
	return all, nil
}

// signIn begins a session of a user with a link, and returns its cookie.
func signIn(ctx context.Context, d *daemon, uid int, at door) (string, error) {
	got, err := d.as(ctx, uid, d.socket, call{Method: "POST", Path: "/api/session/link"})
	if err != nil {
		return "", err
	}
	_, code, _ := strings.Cut(got[0].Body, "#login=")
	code, _, _ = strings.Cut(code, `"`)
	return begin(ctx, d, uid, at, fmt.Sprintf(`{"code":%q}`, code))
}

// begin begins a session of a user with a code or a token, and returns its cookie.
func begin(ctx context.Context, d *daemon, uid int, at door, with string) (string, error) {
	got, err := d.as(ctx, uid, at, call{Method: "POST", Path: "/api/session", Body: with})
	if err == nil && got[0].Status != 201 {
		err = fmt.Errorf("sign in as user %d: %d %s", uid, got[0].Status, got[0].Body)
	}
	if err != nil {
		return "", err
	}
	return got[0].Cookie, nil
}

// may reports whether a caller may use a route for what is its own.
func (c caller) may(r right) bool {
	if r.path == "/api/session/link" && (c.door.Network != "unix" || c.token != "") {
		return false // a link is for users whom the kernel names on the socket
	}
	if strings.HasPrefix(r.path, "/api/front/") { // whoever has its user, on the socket and without a token, is the front
		return c.uid == frontUID && c.door.Network == "unix" && c.token == "" && c.cookie == ""
	}
	if r.path == "/api/backup" { // for whoever can read the state folder anyway
		return c.uid == 0 && c.door.Network == "unix" && c.token == "" && c.cookie == ""
	}
	return c.role >= r.own
}

// try tries every route as one caller: for nobody's or one's own things, and where
// the path names a lease, for the lease of another user too. It returns the number
// of calls, and what is not as the page says.
func try(ctx context.Context, d *daemon, c caller, rights []right) (calls int, wrong []string, err error) {
	var asked []call
	var may []bool
	var whose []string
	for _, r := range rights {
		if c.cookie != "" && r.method == "DELETE" && r.path == "/api/session" {
			continue // it would end the session that the others are tried with
		}
		if r.path == "/api/front/orders" && c.may(r) {
			continue // its answer has no end
		}
		own := call{Method: r.method, Path: pathOf(r.path, "mine"), Body: bodyOf(r), Token: c.token, Cookie: c.cookie}
		if !strings.HasSuffix(r.path, "/bind") || c.uid != attacker || c.role >= access.Operator { // a token has no process of its own
			asked, may, whose = append(asked, own), append(may, c.may(r)), append(whose, "")
		}
		if strings.Contains(r.path, "/leases/{id}") && r.others > r.own {
			other := own
			other.Path = pathOf(r.path, "theirs")
			asked, may, whose = append(asked, other), append(may, c.role >= r.others), append(whose, " of another user")
		}
	}
	// Each of them may end the lease, so there is one for each caller.
	if _, err := d.as(ctx, victim, d.socket, call{Method: "POST", Path: "/api/leases", Body: `{"id":"theirs","memory_mb":1,"slots":0,"binding":"named","timeout_seconds":0}`}); err != nil {
		return 0, nil, err
	}
	got, err := d.as(ctx, c.uid, c.door, asked...)
	if err != nil {
		return 0, nil, err
	}
	for i, reply := range got {
		refused := reply.Status == 401 || reply.Status == 403 || !may[i] && whose[i] != "" && reply.Status == 404
		what := fmt.Sprintf("%s %s%s as %s over %s: %d %.160s", asked[i].Method, asked[i].Path, whose[i], c.name, c.door, reply.Status, reply.Body)
		switch {
		case asked[i].Path == "/" && reply.Status == 503: // the binary was built without the page
		case reply.Status == 0 || reply.Status >= 500:
			wrong = append(wrong, "FAILED   "+what)
		case !may[i] && !refused:
			wrong = append(wrong, "GAINED   "+what)
		case may[i] && refused:
			wrong = append(wrong, "REFUSED  "+what)
		}
	}
	_, err = d.as(ctx, 0, d.socket, call{Method: "POST", Path: "/api/gpu/monitoring/start"})
	return len(got), wrong, err
}

// runAs submits a job as one caller, and tries to bind a token to a user. It returns what
// is not as it should be.
func runAs(ctx context.Context, d *daemon, c caller) (wrong []string, err error) {
	submit := call{Method: "POST", Path: "/api/jobs", Body: `{"command":["/bin/true"],"hold":true}`, Token: c.token, Cookie: c.cookie}
	bind := call{Method: "POST", Path: "/api/tokens", Body: fmt.Sprintf(`{"name":"more","role":"user","as":%q,"replace":true}`, boundTo), Token: c.token, Cookie: c.cookie}
	got, err := d.as(ctx, c.uid, c.door, submit, bind)
	if err != nil {
		return nil, err
	}
	var job api.Job
	who := fmt.Sprintf("%s over %s", c.name, c.door)
	switch err := json.Unmarshal([]byte(got[0].Body), &job); {
	case c.runs == "" && got[0].Status/100 == 2:
		wrong = append(wrong, fmt.Sprintf("GAINED   a job of %s, as %s", job.User, who))
	case c.runs != "" && (err != nil || got[0].Status != 201 || job.User != c.runs):
		wrong = append(wrong, fmt.Sprintf("REFUSED  a job of %s, as %s: %d %.160s", c.runs, who, got[0].Status, got[0].Body))
	}
	if may := c.role == access.Admin && c.runs != "" && c.runs != boundTo; may != (got[1].Status == 201) {
		wrong = append(wrong, fmt.Sprintf("GAINED or REFUSED: binding a token to a user, as %s: %d %.160s", who, got[1].Status, got[1].Body))
	}
	return wrong, nil
}

var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

func pathOf(route, id string) string {
	path := placeholder.ReplaceAllString(route, id)
	switch {
	case route == "/api/events":
		path += "?follow=false"
	case route == "/api/front/orders":
		path += "?front=table"
	case id == "theirs":
		path += "?user=" + fmt.Sprint(victim)
	}
	return path
}

// bodyOf returns a body with which a route finds the right of the caller first.
func bodyOf(r right) string {
	switch {
	case r.method == "GET" || r.method == "DELETE":
		return ""
	case r.path == "/api/leases" || r.path == "/api/leases/explain":
		return `{"id":"asked","memory_mb":1,"slots":0,"timeout_seconds":0}`
	case r.path == "/api/gpu/memory/allocate":
		return `{"service":"table","memory_mb":1}`
	case strings.HasSuffix(r.path, "/libraries"):
		return `{"libraries":[]}`
	case strings.HasSuffix(r.path, "/renew"):
		return `{"fence":1}`
	case strings.HasSuffix(r.path, "/resize"):
		return `{"memory_mb":2}`
	case strings.HasSuffix(r.path, "/pace"):
		return `{"share":0.5}`
	case strings.HasSuffix(r.path, "/bind"):
		return `{"pid":$PID}`
	case strings.HasSuffix(r.path, "/scope"):
		return `{"scope":["/berth-table"]}`
	case r.path == "/api/front/reports":
		return `{"front":"table","number":1,"reports":[]}`
	case r.path == "/api/front/bring":
		return `{"front":"table","service":"mine","user":"somebody"}`
	case r.path == "/api/front/caller":
		return `{"uid":60002}`
	case strings.HasSuffix(r.path, "/move"):
		return `{"gpu":"0"}`
	case r.path == "/api/leases/adopt":
		return `{"id":"adopted","pid":2147483646,"memory_mb":1}`
	}
	return "{}"
}

// readRights reads the table of routes on the page.
func readRights() ([]right, error) {
	text, err := os.ReadFile(accessPage)
	if err != nil {
		return nil, fmt.Errorf("%w (run this in the root of the repository)", err)
	}
	var all []right
	row := regexp.MustCompile("(?m)^\\| `([A-Z]+) (/[^`]*)` \\| `[a-z-]+` \\| ([a-z]+) \\| ([a-z]+) \\|$")
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		r := right{method: m[1], path: m[2]}
		var err error
		for role, name := range map[*access.Role]string{&r.own: m[3], &r.others: m[4]} {
			if name == access.Stranger.String() {
				continue
			}
			if *role, err = access.ParseRole(name); err != nil {
				return nil, err
			}
		}
		all = append(all, r)
	}
	if len(all) < 40 {
		return nil, fmt.Errorf("%s has only %d routes", accessPage, len(all))
	}
	return all, nil
}

// makeCertificates writes an authority, and certificates that it has signed for
// the daemon and for callers.
func makeCertificates(folder string) error {
	var authority *x509.Certificate
	var signer *ecdsa.PrivateKey
	for i, name := range []string{"ca", "server", "nobody-knows", "op", "boss"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return err
		}
		plan := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
			DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		if authority == nil {
			plan.IsCA, plan.BasicConstraintsValid, plan.KeyUsage = true, true, x509.KeyUsageCertSign
			authority, signer = plan, key
		}
		raw, err := x509.CreateCertificate(rand.Reader, plan, authority, &key.PublicKey, signer)
		if err != nil {
			return err
		}
		secret, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return err
		}
		owner := 0 // what decides about the daemon must be root's
		if i > 1 {
			owner = attacker // who shows it
		}
		for path, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: raw}, name + ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
			path = filepath.Join(folder, path)
			mode := os.FileMode(0o644)
			if strings.HasSuffix(path, ".key") {
				mode = 0o600
			}
			if err := errors.Join(os.WriteFile(path, pem.EncodeToMemory(block), mode), os.Chown(path, owner, owner)); err != nil {
				return err
			}
		}
	}
	return nil
}
