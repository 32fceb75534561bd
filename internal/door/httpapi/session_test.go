package httpapi

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/lease/audit"
)

// page is a browser with the page open, as a user.
type page struct {
	t      *testing.T
	dial   func() (net.Conn, error)
	cookie string
}

func (p *page) ask(method, path, body string, headers ...string) (*http.Response, string) {
	p.t.Helper()
	headers = append(headers, "Sec-Fetch-Site", "same-origin")
	if p.cookie != "" {
		headers = append(headers, "Cookie", p.cookie)
	}
	return ask(p.t, p.dial, method, path, body, headers...)
}

// signIn signs in with a body that must be right.
func (p *page) signIn(body string) api.Session {
	p.t.Helper()
	answer, text := p.ask("POST", "/api/session", body)
	var s api.Session
	if err := json.Unmarshal([]byte(text), &s); err != nil || answer.StatusCode != http.StatusCreated || len(answer.Cookies()) != 1 {
		p.t.Fatalf("%d %s", answer.StatusCode, text)
	}
	p.cookie = answer.Cookies()[0].Name + "=" + answer.Cookies()[0].Value
	return s
}

// browsers opens both doors with a page, and an audit log.
func browsers(t *testing.T, rules *access.Rules) *gate {
	g := gates(t, rules)
	g.server.PageURL = func() string { return "http://" + g.tcp }
	g.server.Audit = audit.Open(file.Dir(t.TempDir()), audit.Settings{MaxSize: 1 << 20, Files: 2}, nil, nil)
	t.Cleanup(g.server.Audit.Close)
	return g
}

// code asks for a link over the socket, and returns its code.
func (g *gate) code(t *testing.T, dial func() (net.Conn, error)) string {
	t.Helper()
	answer, text := ask(t, dial, "POST", "/api/session/link", "")
	var link api.SessionLink
	if err := json.Unmarshal([]byte(text), &link); err != nil || answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", answer.StatusCode, text)
	}
	address, code, found := strings.Cut(link.URL, "/#login=")
	if !found || address != "http://"+g.tcp || time.Until(link.Expires) > time.Minute {
		t.Fatalf("%+v", link)
	}
	return code
}

// From the link to the end of the session, over real connections: whoami says what it
// is, it is listed, and nothing is left of it when it has ended.
func TestSessionRoutes(t *testing.T) {
	g := browsers(t, &access.Rules{Daemon: os.Geteuid()})
	doors := g.doors()
	p := &page{t: t, dial: doors["tcp"]}
	code := g.code(t, doors["socket"])
	s := p.signIn(`{"code":"` + code + `"}`)
	if s.Role != "admin" || s.ID == "" || time.Until(s.Expires) < 11*time.Hour {
		t.Errorf("%+v", s)
	}
	var me api.Whoami
	_, text := p.ask("GET", "/api/whoami", "")
	if err := json.Unmarshal([]byte(text), &me); err != nil || me.Role != "admin" || me.Door != "tcp" || me.Session == nil || me.Session.ID != s.ID || !me.Session.Current || !me.Session.Expires.Equal(s.Expires) {
		t.Errorf("whoami: %s", text)
	}
	if answer, text := p.ask("POST", "/api/gpu/monitoring/start", ""); answer.StatusCode != http.StatusOK {
		t.Errorf("an act of an administrator: %d %s", answer.StatusCode, text)
	}
	if answer, text := p.ask("GET", "/api/sessions", ""); answer.StatusCode != http.StatusOK || strings.Count(text, `"id"`) != 1 || !strings.Contains(text, s.ID) {
		t.Errorf("the list: %s", text)
	}
	if answer, _ := ask(t, doors["tcp"], "POST", "/api/session", `{"code":"`+code+`"}`); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("the link again: %d", answer.StatusCode)
	}
	old := p.cookie
	if answer, text := p.ask("DELETE", "/api/session", ""); answer.StatusCode != http.StatusOK || answer.Cookies()[0].MaxAge >= 0 {
		t.Errorf("sign out: %d %s", answer.StatusCode, text)
	}
	if p.cookie = old; g.keeper.Sessions.List(time.Now()) == nil {
		t.Error("no list")
	}
	if _, text := p.ask("GET", "/api/whoami", ""); strings.Contains(text, "session") || strings.Contains(text, "admin") {
		t.Errorf("after it: %s", text)
	}
	if answer, text := p.ask("DELETE", "/api/session", ""); answer.StatusCode != http.StatusNotFound || !strings.Contains(text, "no_session") {
		t.Errorf("sign out twice: %d %s", answer.StatusCode, text)
	}
	// Neither the events nor the audit log has a secret, and the audit log has the acts.
	_, happened := ask(t, doors["socket"], "GET", "/api/events?follow=false", "")
	_, written := ask(t, doors["socket"], "GET", "/api/audit", "")
	for _, secret := range []string{code, old[strings.IndexByte(old, '=')+1:]} {
		if strings.Contains(happened, secret) || strings.Contains(written, secret) || strings.Contains(g.logged(), secret) {
			t.Error("a secret is written down")
		}
	}
	for _, act := range []string{`"sign-in","object":{"kind":"session","owner":`, `"sign-out","object":{"kind":"session","owner":`, `"why":"link_not_valid`} {
		if !strings.Contains(written, act) {
			t.Errorf("the audit log has no %s: %s", act, written)
		}
	}
	if g.counted()["unknown"] != 1 {
		t.Errorf("failed tries: %v", g.counted())
	}
}

// Bad bodies get a sentence and begin nothing.
func TestSessionInput(t *testing.T) {
	g := browsers(t, &access.Rules{Daemon: os.Geteuid()})
	for body, want := range map[string]int{
		``: 400, `{}`: 422, `{"code":""}`: 422, `{"code":"a","token":"b"}`: 422, `{"code":1}`: 422, `{"code":["a"]}`: 422, `null`: 422, `[]`: 422, `{"code":"a","role":"admin"}`: 422,
		`{"code":"` + strings.Repeat("a", 65) + `"}`: 422, `{"token":"` + strings.Repeat("a", 513) + `"}`: 422, `{"code":"` + strings.Repeat("a", 5000) + `"}`: 413, `{"code":"a"}`: 401, `{"token":"wrong"}`: 401,
	} {
		answer, text := ask(t, g.doors()["tcp"], "POST", "/api/session", body, "Content-Type", "application/json")
		var p api.Problem
		if err := json.Unmarshal([]byte(text), &p); answer.StatusCode != want || err != nil || p.Code == "" || p.Detail == "" || len(answer.Cookies()) != 0 {
			t.Errorf("%.80s: %d %s", body, answer.StatusCode, text)
		}
	}
	if n := len(g.keeper.Sessions.List(time.Now())); n != 0 {
		t.Errorf("%d sessions began", n)
	}
	for _, dial := range []string{"tcp", "socket"} {
		if answer, text := ask(t, g.doors()[dial], "DELETE", "/api/sessions/..%2f..", ""); answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d %s", dial, answer.StatusCode, text)
		}
	}
	if answer, text := ask(t, g.doors()["tcp"], "POST", "/api/session/link", ""); answer.StatusCode != http.StatusForbidden || !strings.Contains(text, "socket_only") {
		t.Errorf("a link over TCP: %d %s", answer.StatusCode, text)
	}
	g.server.PageURL = nil
	if answer, text := ask(t, g.doors()["socket"], "POST", "/api/session/link", ""); answer.StatusCode != http.StatusConflict || !strings.Contains(text, "daemon.listen") {
		t.Errorf("a link to nowhere: %d %s", answer.StatusCode, text)
	}
}

// Users see and end their own sessions, administrators all of them, and who tries more
// does not learn whether there is one.
func TestWhoseSessions(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become other users")
	}
	const ada, eve = 64001, 64002
	g := browsers(t, &access.Rules{Users: map[int]access.Given{ada: {Name: "ada", Role: access.Operator}, eve: {Name: "eve", Role: access.Viewer}}})
	user := func(uid int) *page {
		p := &page{t: t, dial: func() (net.Conn, error) { return as(uid, "tcp", g.tcp) }}
		p.signIn(`{"code":"` + g.code(t, func() (net.Conn, error) { return as(uid, "unix", g.socket) }) + `"}`)
		return p
	}
	a, e, root := user(ada), user(eve), user(0)
	ids := func(p *page) (list []string) {
		_, text := p.ask("GET", "/api/sessions", "")
		var all api.Sessions
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatal(text)
		}
		for _, s := range all.Sessions {
			list = append(list, s.ID)
		}
		return list
	}
	if len(ids(a)) != 1 || len(ids(e)) != 1 || len(ids(root)) != 3 {
		t.Errorf("%v, %v, %v", ids(a), ids(e), ids(root))
	}
	hers := ids(a)[0]
	for _, id := range []string{hers, "0123456789abcdef"} {
		if answer, text := e.ask("DELETE", "/api/sessions/"+id, ""); answer.StatusCode != http.StatusNotFound || !strings.Contains(text, "You have no session") {
			t.Errorf("%d %s", answer.StatusCode, text)
		}
	}
	// The cookie of an operator in the hands of a viewer, of the same machine.
	thief := &page{t: t, dial: e.dial, cookie: a.cookie}
	if answer, text := thief.ask("POST", "/api/gpu/monitoring/stop", ""); answer.StatusCode != http.StatusForbidden {
		t.Errorf("a thief: %d %s", answer.StatusCode, text)
	}
	if answer, _ := thief.ask("DELETE", "/api/sessions/"+hers, ""); answer.StatusCode != http.StatusNotFound {
		t.Errorf("a thief ends it: %d", answer.StatusCode)
	}
	if answer, text := thief.ask("DELETE", "/api/session", ""); answer.StatusCode != http.StatusNotFound {
		t.Errorf("a thief signs out: %d %s", answer.StatusCode, text)
	}
	if _, text := ask(t, func() (net.Conn, error) { return net.Dial("unix", g.socket) }, "GET", "/api/audit", ""); !strings.Contains(text, "session_elsewhere") {
		t.Error("the theft is not in the audit log")
	}
	if answer, text := a.ask("POST", "/api/gpu/monitoring/start", ""); answer.StatusCode != http.StatusOK {
		t.Errorf("its owner: %d %s", answer.StatusCode, text)
	}
	if answer, text := root.ask("DELETE", "/api/sessions/"+hers, ""); answer.StatusCode != http.StatusOK || !strings.Contains(text, `"user":"`+loginName(ada)+`"`) && !strings.Contains(text, `"uid":64001`) {
		t.Errorf("an administrator: %d %s", answer.StatusCode, text)
	}
	if answer, text := a.ask("POST", "/api/gpu/monitoring/start", ""); answer.StatusCode != http.StatusForbidden {
		t.Errorf("after its end: %d %s", answer.StatusCode, text)
	}
	// The link of one user in the hands of another.
	code := g.code(t, func() (net.Conn, error) { return as(ada, "unix", g.socket) })
	if answer, _ := ask(t, e.dial, "POST", "/api/session", `{"code":"`+code+`"}`); answer.StatusCode != http.StatusUnauthorized || len(answer.Cookies()) != 0 {
		t.Errorf("the link of another: %d", answer.StatusCode)
	}
}

// An event stream of a session ends when its token is revoked.
func TestStreamOfASessionEndsWithTheToken(t *testing.T) {
	g := browsers(t, &access.Rules{Daemon: os.Geteuid()})
	p := &page{t: t, dial: g.doors()["tcp"]}
	p.signIn(`{"token":"` + g.make(t, tokens.Token{Name: "a", Role: access.Viewer}) + `"}`)
	conn, err := p.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /api/events HTTP/1.1\r\nHost: localhost\r\nCookie: "+p.cookie+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	defer answer.Body.Close()
	if _, err := g.tokens.Revoke("a", time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, answer.Body); err != nil { // returns when the stream has ended
		t.Log("it was cut off:", err)
	}
	if n := len(g.keeper.Sessions.List(time.Now())); n != 1 {
		t.Errorf("%d sessions are kept before anybody shows the cookie again", n)
	}
	if _, text := p.ask("GET", "/api/whoami", ""); strings.Contains(text, "token:a") || len(g.keeper.Sessions.List(time.Now())) != 0 {
		t.Errorf("after it: %s", text)
	}
}
