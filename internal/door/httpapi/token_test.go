package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/api/wire"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/door/peercred"
	"github.com/berth-gpu/berth/internal/door/sessions"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// gate serves the API behind both doors as a daemon does.
type gate struct {
	*door
	socket, tcp string // addresses
	keeper      doorkeeper.Doorkeeper
	counted     func() map[string]int // failed tries by reason
	logged      func() string
}

// gates opens both doors for a daemon with these rules.
func gates(t *testing.T, rules *access.Rules) *gate {
	t.Helper()
	g := &gate{door: open(t, "1xrtx-4060")}
	var mu sync.Mutex
	counts, log := map[string]int{}, &bytes.Buffer{}
	locked := func(f func()) { mu.Lock(); defer mu.Unlock(); f() }
	g.counted = func() (copied map[string]int) {
		locked(func() {
			copied = map[string]int{}
			for reason, n := range counts {
				copied[reason] = n
			}
		})
		return copied
	}
	g.logged = func() (text string) { locked(func() { text = log.String() }); return text }
	failed := sessions.NewTries(slog.New(slog.NewTextHandler(writer(func(b []byte) { locked(func() { log.Write(b) }) }), nil)),
		func(reason string) { locked(func() { counts[reason]++ }) })
	kernel := peercred.New(process.Proc())
	all := func() *access.Rules { return rules }
	g.keeper = doorkeeper.Doorkeeper{Kernel: kernel, Processes: process.Proc(), Rules: all, Tokens: g.tokens, Sessions: sessions.New(), Tries: failed}
	g.server.Door = g.keeper
	guests := peercred.NewGuests(peercred.Limits{User: 99, Unknown: 99, All: 99, Admin: 99}, all)
	serve := func(l net.Listener, h http.Handler) string {
		ctx, stop := context.WithCancel(context.Background())
		server := &http.Server{Handler: h, ConnContext: g.keeper.ConnContext(), MaxHeaderBytes: 16 << 10, BaseContext: func(net.Listener) context.Context { return ctx }}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = server.Serve(&peercred.Listener{Listener: l, Kernel: kernel, Guests: guests})
		}()
		t.Cleanup(func() { stop(); _ = server.Close(); <-done; g.Streams.Wait() })
		return l.Addr().String()
	}
	dir, err := os.MkdirTemp("", "berth-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "s")} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.socket, g.tcp = serve(socket, g.keeper.ForSocket(g.server)), serve(tcp, g.keeper.ForTCP(g.server))
	return g
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) { w(b); return len(b), nil }

// doors returns how to connect to each door.
func (g *gate) doors() map[string]func() (net.Conn, error) {
	return map[string]func() (net.Conn, error){
		"socket": func() (net.Conn, error) { return net.Dial("unix", g.socket) },
		"tcp":    func() (net.Conn, error) { return net.Dial("tcp", g.tcp) },
	}
}

// make returns the secret of a new token.
func (g *gate) make(t *testing.T, token tokens.Token) string {
	t.Helper()
	secret, err := g.tokens.Create(token, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// ask makes one request on a connection of its own.
func ask(t *testing.T, dial func() (net.Conn, error), method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	conn, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return askOn(t, conn, bufio.NewReader(conn), method, path, body, headers...)
}

// askOn makes one request on a connection.
func askOn(t *testing.T, conn net.Conn, in *bufio.Reader, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
	}
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(in, r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}

// Every role by token, on both doors: the token decides, whoever shows it.
func TestRolesByToken(t *testing.T) {
	g := gates(t, &access.Rules{Daemon: os.Geteuid()})
	g.tokens.SetDaemon("the-secret-of-the-daemon-0123456789")
	for door, dial := range g.doors() {
		for role := access.Scraper; role <= access.Admin; role++ {
			secret := g.make(t, tokens.Token{Name: door + "-" + role.String(), Role: role})
			for path, least := range map[string]access.Role{
				"GET /metrics": access.Scraper, "GET /api/whoami": access.Viewer, "GET /api/leases": access.Viewer, "POST /api/leases/explain": access.User,
				"POST /api/gpu/monitoring/start": access.Operator, "GET /api/tokens": access.Admin,
			} {
				method, path, _ := strings.Cut(path, " ")
				body := ""
				if path == "/api/leases/explain" {
					body = "{}"
				}
				answer, text := ask(t, dial, method, path, body, "Authorization", "Bearer "+secret)
				refused := answer.StatusCode == http.StatusForbidden
				if refused != (role < least) || refused && !strings.Contains(text, "this needs the role "+least.String()) && !strings.Contains(text, "This needs the role "+least.String()) {
					t.Errorf("%s by a %v over %s: %d %s", path, role, door, answer.StatusCode, text)
				}
			}
		}
		answer, text := ask(t, dial, "GET", "/api/whoami", "", "Authorization", "Bearer the-secret-of-the-daemon-0123456789")
		var who api.Whoami
		if err := json.Unmarshal([]byte(text), &who); err != nil || answer.StatusCode != 200 || who.User != "token" || who.Token != "daemon" || who.Role != "admin" || who.Door != door || who.UID.Known() {
			t.Errorf("the daemon's token over %s: %d %s", door, answer.StatusCode, text)
		}
	}
}

// A bad token is refused on both doors, whoever shows it, and each refusal is
// counted. Only who has the right secret learns what became of the token.
func TestBadTokens(t *testing.T) {
	g := gates(t, &access.Rules{Daemon: os.Geteuid()})
	expired, err := g.tokens.Create(tokens.Token{Name: "expired", Role: access.Admin, Expires: time.Now().Add(-time.Hour)}, "", time.Now().Add(-2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	revoked := g.make(t, tokens.Token{Name: "revoked", Role: access.Admin})
	if _, err := g.tokens.Revoke("revoked", time.Now()); err != nil {
		t.Fatal(err)
	}
	good := g.make(t, tokens.Token{Name: "good", Role: access.Admin})
	want := map[string]int{}
	for _, dial := range g.doors() {
		for _, c := range []struct {
			header       []string
			code, reason string
		}{
			{[]string{"Bearer wrong"}, "unauthorized", "unknown"},
			{[]string{"Bearer " + good + "x"}, "unauthorized", "unknown"},
			{[]string{"Bearer " + good[:len(good)-1]}, "unauthorized", "unknown"},
			{[]string{"Bearer " + expired}, "token_expired", "expired"},
			{[]string{"Bearer " + revoked}, "token_revoked", "revoked"},
			{[]string{""}, "unauthorized", "malformed"},
			{[]string{"Bearer"}, "unauthorized", "malformed"},
			{[]string{"Bearer "}, "unauthorized", "malformed"},
			{[]string{"Bearer  " + good}, "unauthorized", "malformed"},
			{[]string{"Basic " + good}, "unauthorized", "malformed"},
			{[]string{good}, "unauthorized", "malformed"},
			{[]string{"Bearer " + good, "Bearer " + good}, "unauthorized", "malformed"},
			{[]string{"Bearer \xff\xfe\x80"}, "unauthorized", "malformed"},
			{[]string{"Bearer " + strings.Repeat("x", 12<<10)}, "unauthorized", "malformed"},
		} {
			want[c.reason]++
			g.keeper.Tries.Forget() // so that nobody waits for the answers
			var headers []string
			for _, h := range c.header {
				headers = append(headers, "Authorization", h)
			}
			answer, text := ask(t, dial, "GET", "/api/leases", "", headers...)
			var p api.Problem
			if err := json.Unmarshal([]byte(text), &p); err != nil || answer.StatusCode != http.StatusUnauthorized || p.Code != c.code || !strings.HasPrefix(answer.Header.Get("WWW-Authenticate"), `Bearer realm="berth"`) {
				t.Errorf("%q: %d %s", c.header, answer.StatusCode, text)
			}
		}
		if text := huge(t, dial); strings.Contains(text, " 200 ") {
			t.Errorf("a huge token: %s", text)
		}
		if answer, text := ask(t, dial, "GET", "/api/leases", "", "Authorization", "bearer "+good); answer.StatusCode != 200 {
			t.Errorf("the good one: %d %s", answer.StatusCode, text)
		}
		if answer, _ := ask(t, dial, "GET", "/healthz", "", "Authorization", "Bearer wrong"); answer.StatusCode != 200 {
			t.Errorf("a probe with a wrong token: %d", answer.StatusCode)
		}
	}
	if got := g.counted(); len(got) != 4 || got["unknown"] != want["unknown"] || got["expired"] != want["expired"] || got["revoked"] != want["revoked"] || got["malformed"] != want["malformed"] {
		t.Errorf("counted %v, want %v", got, want)
	}
	if lines := strings.Count(g.logged(), "\n"); lines == 0 || lines > sessions.MostLines || strings.Contains(g.logged(), good) || strings.Contains(g.logged(), expired) {
		t.Errorf("%d lines are in the log: %s", lines, g.logged())
	}
}

// huge shows a token that is larger than the daemon reads to its end, and returns
// what it answers, if it gets through.
func huge(t *testing.T, dial func() (net.Conn, error)) string {
	t.Helper()
	conn, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /api/leases HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+strings.Repeat("x", 1<<20)+"\r\n\r\n")
	text, _ := io.ReadAll(conn)
	return string(text)
}

// Revoking a token ends what its holder has open at once: event streams, lease
// streams and requests that wait. The next request on an open connection is
// refused.
func TestRevokingEndsWhatIsOpen(t *testing.T) {
	g := gates(t, &access.Rules{Daemon: os.Geteuid()})
	for door, dial := range g.doors() {
		secret := "Bearer " + g.make(t, tokens.Token{Name: door, Role: access.User})
		conn := func() (net.Conn, *bufio.Reader) {
			c, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			return c, bufio.NewReader(c)
		}
		begin := func(method, path, body string, headers ...string) *bufio.Reader {
			c, in := conn()
			r, _ := http.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
			r.Header.Set("Authorization", secret)
			r.Header.Set("Content-Type", "application/json")
			for i := 0; i+1 < len(headers); i += 2 {
				r.Header.Set(headers[i], headers[i+1])
			}
			if err := r.Write(c); err != nil {
				t.Fatal(err)
			}
			return in
		}
		idle, idleIn := conn()
		if answer, text := askOn(t, idle, idleIn, "POST", "/api/leases", `{"id":"`+door+`","memory_mb":6000,"ttl_seconds":600}`, "Authorization", secret); answer.StatusCode != http.StatusCreated {
			t.Fatalf("%d %s", answer.StatusCode, text)
		}
		events := begin("GET", "/api/events", "")
		stream, err := http.ReadResponse(events, nil)
		if err != nil || stream.StatusCode != 200 {
			t.Fatalf("%v %v", stream, err)
		}
		leases := begin("POST", wire.Path, "", "Connection", "Upgrade", "Upgrade", wire.Protocol)
		if up, err := http.ReadResponse(leases, nil); err != nil || up.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%v %v", up, err)
		}
		owner := lease.OwnerOf(&access.Actor{User: access.TokenUser(door), UID: access.NoUID})
		waiting := begin("POST", "/api/leases", `{"id":"waits-`+door+`","memory_mb":6000,"timeout_seconds":600}`)
		for {
			if _, _, waits := g.Ledger.FindWaiting(lease.Key{Owner: owner, ID: "waits-" + door}); waits {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if _, err := g.tokens.Revoke(door, time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(stream.Body); err != nil {
			t.Errorf("the event stream ends with %v", err)
		}
		if _, err := io.ReadAll(leases); err != nil {
			t.Errorf("the lease stream ends with %v", err)
		}
		if answer, err := http.ReadResponse(waiting, nil); err != nil || answer.StatusCode < 400 {
			t.Errorf("the request that waits ends with %v, %v", answer, err)
		}
		if answer, text := askOn(t, idle, idleIn, "GET", "/api/leases", "", "Authorization", secret); answer.StatusCode != http.StatusUnauthorized || !strings.Contains(text, "token_revoked") {
			t.Errorf("the next request: %d %s", answer.StatusCode, text)
		}
		if held, stands := g.Ledger.Find(lease.Key{Owner: owner, ID: door}); !stands || held.Holder.User != "token:"+door {
			t.Errorf("the lease is %+v", held)
		}
		if answer, text := ask(t, g.doors()["socket"], "DELETE", "/api/leases/"+door, ""); answer.StatusCode != 200 {
			t.Errorf("root releases it: %d %s", answer.StatusCode, text)
		}
	}
}

// The routes of tokens: what an administrator makes works until it is revoked, and
// the secret is shown once.
func TestTokenRoutes(t *testing.T) {
	d := open(t, "1xrtx-4060")
	root := holding(lease.Holder{UID: 0, User: "root"}, access.Admin)
	made := decode[api.NewToken](t, d.askAs(root, "POST", "/api/tokens", `{"name":"ci","role":"operator","ttl_seconds":3600}`))
	if !strings.HasPrefix(made.Secret, tokens.Prefix) || made.Role != "operator" || made.By != "root" || made.Expires.Sub(made.Created) != time.Hour {
		t.Errorf("made %+v", made)
	}
	own := `0123456789abcdefghijklmnopqrstuv`
	if got := decode[api.NewToken](t, d.askAs(root, "POST", "/api/tokens", `{"name":"own","role":"user","service":"a_b","token":"`+own+`"}`)); got.Secret != "" || got.Service != "a-b" {
		t.Errorf("made %+v", got)
	}
	// The same request again changes nothing, and replace changes what stands.
	short := `{"name":"short","role":"user","token":"` + strings.ToUpper(own) + `","ttl_seconds":3600`
	first := decode[api.NewToken](t, d.askAs(root, "POST", "/api/tokens", short+`}`))
	if again := decode[api.NewToken](t, d.askAs(root, "POST", "/api/tokens", short+`}`)); again != first || first.Expires.IsZero() {
		t.Errorf("first %+v, then %+v", first, again)
	}
	if w := d.askAs(root, "POST", "/api/tokens", short+`,"replace":true}`); w.Code != 201 || decode[api.NewToken](t, w).Expires.Before(first.Expires) {
		t.Errorf("replaced by itself: %d %s", w.Code, w.Body)
	}
	if w := d.askAs(root, "DELETE", "/api/tokens/short", ""); w.Code != 200 {
		t.Errorf("revoked: %d %s", w.Code, w.Body)
	}
	for body, want := range map[string]int{
		`{"name":"own","role":"user","service":"a_b","token":"` + own + `"}`:                201,
		`{"name":"own","role":"user","service":"a_b","token":"` + own + `","replace":true}`: 201,
		`{"name":"own","role":"viewer","service":"a_b","token":"` + own + `"}`:              409,
	} {
		if w := d.askAs(root, "POST", "/api/tokens", body); w.Code != want {
			t.Errorf("%s: %d %s, want %d", body, w.Code, w.Body, want)
		}
	}
	w := d.askAs(root, "GET", "/api/tokens", "")
	if all := decode[api.Tokens](t, w); len(all.Tokens) != 2 || all.Tokens[0] != made.Token || strings.Contains(w.Body.String(), made.Secret) {
		t.Errorf("listed %s", w.Body)
	}
	for body, want := range map[string]struct {
		status     int
		code, text string
	}{
		`{"name":"ci","role":"user"}`:                                          {409, "duplicate_token", "a token has this name"},
		`{"name":"b","role":"user","token":"` + own + `"}`:                     {409, "duplicate_token", "has or had this secret"},
		`{"name":"b","role":"user","token":"short"}`:                           {422, "invalid_request", "at least 32 characters"},
		`{"name":"b","role":"user","token":"` + strings.Repeat("a", 40) + `"}`: {422, "invalid_request", "different characters"},
		`{"name":"b","role":"user","token":"` + strings.Repeat("ü", 40) + `"}`: {422, "invalid_request", "printable ASCII"},
		`{"name":"daemon","role":"user"}`:                                      {422, "invalid_request", "must not be daemon"},
		`{"name":"a/b","role":"user"}`:                                         {422, "invalid_request", "letters, digits"},
		`{"name":"","role":"user"}`:                                            {422, "invalid_request", "letters, digits"},
		`{"name":"b","role":"root"}`:                                           {422, "invalid_request", "role"},
		`{"name":"b","role":"stranger"}`:                                       {422, "invalid_request", "role"},
		`{"name":"b","role":"user","ttl_seconds":0}`:                           {422, "invalid_request", "ttl_seconds"},
		`{"name":"b","role":"user","ttl_seconds":1e12}`:                        {422, "invalid_request", "ttl_seconds"},
		`{"name":"b","role":"admin","service":"s"}`:                            {422, "invalid_request", "who act for all services"},
		`{"name":"b","role":"user","sha256":"x"}`:                              {422, "invalid_request", "sha256"},
	} {
		w := d.askAs(root, "POST", "/api/tokens", body)
		if p := decode[api.Problem](t, w); w.Code != want.status || p.Code != want.code || !strings.Contains(w.Body.String(), want.text) {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	if w := d.askAs(root, "DELETE", "/api/tokens/daemon", ""); w.Code != http.StatusConflict {
		t.Errorf("the token of the configuration: %d %s", w.Code, w.Body)
	}
	for _, want := range []int{200, 404} {
		if w := d.askAs(root, "DELETE", "/api/tokens/ci", ""); w.Code != want {
			t.Errorf("revoked: %d %s, want %d", w.Code, w.Body, want)
		}
	}
	// Nobody but administrators gets that far.
	for role := access.Stranger; role < access.Admin; role++ {
		by := holding(lease.Holder{UID: 1000, User: "ada"}, role)
		for _, r := range []string{"GET /api/tokens", "POST /api/tokens", "DELETE /api/tokens/own"} {
			method, path, _ := strings.Cut(r, " ")
			if w := d.askAs(by, method, path, `{"name":"mine","role":"admin"}`); w.Code != http.StatusForbidden {
				t.Errorf("%s by a %v: %d %s", r, role, w.Code, w.Body)
			}
		}
	}
	if len(d.tokens.List()) != 1 {
		t.Errorf("left are %v", d.tokens.List())
	}
}

// whoami says why: both groups are named where two groups give different roles.
func TestWhoami(t *testing.T) {
	d := open(t, "1xrtx-4060")
	rules := &access.Rules{Groups: map[int]access.Given{100: {Name: "students", Role: access.Viewer}, 200: {Name: "operators", Role: access.Operator}, 300: {Name: "quota-only"}}}
	keeper := doorkeeper.Doorkeeper{Processes: process.Proc(), Rules: func() *access.Rules { return rules }, Kernel: peercred.New(process.Proc())}
	for name, c := range map[string]struct {
		peer access.Caller
		want string
	}{
		"two groups": {access.Caller{Door: access.Socket, UID: access.KnownUID(4711), Place: access.Here, Groups: []int{300, 100, 200}},
			`{"user":"4711","uid":4711,"role":"operator","why":["the configuration gives it to the group operators","the group students gives viewer, and the higher role holds"],"door":"socket","groups":["students","operators","quota-only"]}`},
		"over TCP": {access.Caller{Door: access.TCP, UID: access.KnownUID(4711), Place: access.Here},
			`{"user":"4711","uid":4711,"role":"user","why":["every local user has it"],"door":"tcp"}`},
		"in a container": {access.Caller{Door: access.Socket, UID: access.KnownUID(4711), Place: access.Elsewhere, Groups: []int{200}},
			`{"user":"4711","uid":4711,"role":"user","why":["over TCP without a token, and from a container, nobody has more than the role user","the configuration gives operator on the Unix socket"],"door":"socket","groups":["operators"]}`},
		"root in a container": {access.Caller{Door: access.Socket, UID: access.KnownUID(0), Place: access.Elsewhere},
			`{"user":"unknown","role":"viewer","why":["uid 0 in a container is not root of this machine"],"door":"socket"}`},
	} {
		r := httptest.NewRequest("GET", "/api/whoami", nil)
		w := httptest.NewRecorder()
		d.server.ServeHTTP(w, r.WithContext(doorkeeper.With(r.Context(), keeper.Caller(access.Peer{Caller: c.peer}, ""))))
		if got := strings.TrimSpace(w.Body.String()); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, c.want)
		}
	}
}

// A role that the configuration takes away is gone with the next request, also on
// a connection that is open.
func TestRolesChangeOnOpenConnections(t *testing.T) {
	d := open(t, "1xrtx-4060")
	rules := &access.Rules{Users: map[int]access.Given{4711: {Name: "ada", Role: access.Operator}}}
	keeper := doorkeeper.Doorkeeper{Processes: process.Proc(), Rules: func() *access.Rules { return rules }, Kernel: peercred.New(process.Proc())}
	c := keeper.Caller(access.Peer{Caller: access.Caller{Door: access.Socket, UID: access.KnownUID(4711), Place: access.Here}}, "")
	start := func() int {
		r := httptest.NewRequest("POST", "/api/gpu/monitoring/start", nil)
		w := httptest.NewRecorder()
		d.server.ServeHTTP(w, r.WithContext(doorkeeper.With(r.Context(), c)))
		return w.Code
	}
	if got := start(); got != 200 || c.Identity().Role != access.Operator {
		t.Errorf("an operator: %d", got)
	}
	rules = &access.Rules{}
	if got := start(); got != http.StatusForbidden || c.Identity().Role != access.User {
		t.Errorf("who was one: %d, %v", got, c.Identity().Role)
	}
}

// A stream goes on with the role that its reader has now, and ends with the right to
// have it.
func TestRolesChangeOnOpenStreams(t *testing.T) {
	var now atomic.Pointer[access.Rules]
	as := func(role access.Role) {
		now.Store(&access.Rules{Users: map[int]access.Given{4711: {Name: "me", Role: role}}})
	}
	as(access.Operator)
	d := open(t, "1xrtx-4060")
	keeper := doorkeeper.Doorkeeper{Processes: process.Proc(), Rules: now.Load, Kernel: peercred.New(process.Proc())}
	caller := keeper.Caller(access.Peer{Caller: access.Caller{Door: access.Socket, UID: access.KnownUID(4711), Place: access.Here}}, "")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.server.ServeHTTP(w, r.WithContext(doorkeeper.With(r.Context(), caller)))
	}))
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	leases := upgrade(t, conn)
	answer, err := http.Get(server.URL + "/api/events?code=" + string(gpu.EventForeignUse))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	data := func() string {
		for lines.Scan() {
			if text, is := strings.CutPrefix(lines.Text(), "data: "); is {
				return text
			}
		}
		return "the end"
	}
	tell := func() {
		d.events.Publish(gpu.Event{Code: gpu.EventForeignUse, User: "eve", Text: "s3cret", Public: "something"})
	}
	if tell(); !strings.Contains(data(), "s3cret") {
		t.Error("an operator does not see all of it")
	}
	as(access.Viewer)
	if tell(); strings.Contains(data(), "s3cret") {
		t.Error("who was an operator sees all of it")
	}
	if _, err := conn.Write(wire.Append(nil, wire.Acquire, 1, (*wire.RequestBody)(&api.LeaseRequest{Memory: 1}))); err != nil {
		t.Fatal(err)
	}
	if frame, err := leases.in.Next(); err != nil || frame.Kind != wire.Refused || !strings.Contains(string(frame.Body), "role user") {
		t.Errorf("a viewer's request on a lease stream: %v %s, %v", frame.Kind, frame.Body, err)
	}
	as(access.Scraper)
	if tell(); data() != "the end" {
		t.Error("who may not look any more still reads")
	}
}

// container_callers: token turns callers from a container away on both doors, and
// lets those in who show a token. Callers from outside need none.
func TestContainersNeedToken(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make namespaces for sure")
	}
	g := gates(t, &access.Rules{ContainersNeedToken: true})
	secret := g.make(t, tokens.Token{Name: "pod", Role: access.User})
	const inside = `
import os, socket, sys
os.setresuid(65534, 65534, 65534)
def ask(kind, address, header):
    s = socket.socket(kind); s.connect(address)
    s.sendall(f"GET /api/whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\r\n".encode())
    answer = b""
    while part := s.recv(65536): answer += part
    return answer.decode().split()[1] + " " + answer.decode().split("\r\n\r\n", 1)[1].strip()
port = int(sys.argv[2].rsplit(":", 1)[1])
for header in ("", f"Authorization: Bearer {sys.argv[3]}\r\n"):
    print(ask(socket.AF_UNIX, sys.argv[1], header), flush=True)
    print(ask(socket.AF_INET, ("127.0.0.1", port), header), flush=True)
`
	run := func(wrap ...string) []string {
		t.Helper()
		args := append(wrap, "python3", "-c", inside, g.socket, g.tcp, secret)
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	for i, line := range run("unshare", "-pf", "--kill-child", "--mount-proc") {
		want := []string{`401 `, `"code":"unauthorized"`, "containers need a token"}
		if i >= 2 {
			want = []string{`200 `, `"user":"token:pod"`, `"role":"user"`}
		}
		for _, part := range want {
			if !strings.Contains(line, part) {
				t.Errorf("in a container, request %d: %s, want %s", i, line, part)
			}
		}
	}
	for i, line := range run("env") {
		want := []string{`"user":"65534"`, `"role":"user"`}
		if i >= 2 {
			want = []string{`"user":"token:pod"`, `"role":"user"`}
		}
		for _, part := range want {
			if !strings.Contains(line, part) {
				t.Errorf("outside, request %d: %s, want %s", i, line, part)
			}
		}
	}
}
