package doorkeeper

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/secret"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/door/sessions"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/when/later"
)

const daemonUser, ada, eve, olga = 0, 1000, 1001, 1002

// world is a daemon with users: ada is an operator, and eve would like to be one.
type world struct {
	Doorkeeper
	rules atomic.Pointer[access.Rules]
	place access.Place // where the kernel finds the processes of callers over TCP
	who   *Caller      // who made the last request that was let in
	noted []string     // codes of what was refused to requests that went on
	h     http.Handler
}

func (w *world) Find(p access.Peer) access.Peer { p.Place = w.place; return p }

func (w *world) ServeHTTP(_ http.ResponseWriter, r *http.Request) { w.who = Of(r.Context()) }
func (w *world) Refused(_ *http.Request, p *api.Problem)          { w.noted = append(w.noted, p.Code) }
func (w *world) giveRoles(given map[int]access.Given)             { w.rules.Store(&access.Rules{Users: given}) }
func (w *world) over(door access.Door, uid int) *Caller {
	return w.from(door, access.KnownUID(uid), "127.0.0.1")
}
func (w *world) elsewhere() *Caller                { return w.from(access.TCP, access.UID{}, "192.0.2.7") }
func (w *world) link(t *testing.T, uid int) string { return w.linkOf(t, w.over(access.Socket, uid)) }
func (w *world) from(door access.Door, uid access.UID, at string) *Caller {
	p := access.Peer{Caller: access.Caller{Door: door, UID: uid}}
	if door == access.Socket {
		p.Place, at = access.Here, ""
	}
	return w.Caller(p, at)
}

func newWorld() *world {
	w := &world{place: access.Here}
	w.giveRoles(map[int]access.Given{ada: {Name: "ada", Role: access.Operator}})
	w.Doorkeeper = Doorkeeper{Kernel: w, Rules: w.rules.Load, Tokens: tokens.New(), Sessions: sessions.New(), Tries: sessions.NewTries(slog.New(slog.DiscardHandler), func(string) {})}
	w.h = w.ForTCP(w)
	return w
}

func (w *world) linkOf(t *testing.T, c *Caller) string {
	t.Helper()
	code, _, err := w.Link(c, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func agree(*Caller, sessions.Session) error { return nil }

// signIn returns the cookie of a session that must begin.
func (w *world) signIn(t *testing.T, c *Caller, code, token string) string {
	t.Helper()
	done, err := w.SignIn(t.Context(), c, code, token, agree)
	if err != nil {
		t.Fatal(err)
	}
	return done.Cookie.Value
}

// ask makes a request with a cookie, and returns who it was made as.
func (w *world) ask(c *Caller, cookie string, change ...func(*http.Request)) (access.Actor, *http.Response) {
	r := httptest.NewRequest("GET", "http://127.0.0.1:8000/api/leases", nil)
	r.Host = "127.0.0.1:8000"
	if cookie != "" {
		r.Header.Set("Cookie", plainName+"_8000="+cookie)
	}
	for _, f := range change {
		f(r)
	}
	w.who, w.noted = nil, nil
	answer := httptest.NewRecorder()
	w.h.ServeHTTP(answer, r.WithContext(With(r.Context(), c)))
	if w.who == nil {
		return access.Actor{}, answer.Result()
	}
	return w.who.Standing(), answer.Result()
}

func refusedWith(err error) string {
	if p := (*api.Problem)(nil); errors.As(err, &p) {
		return p.Code
	}
	return ""
}

// A session gives what its user is on the socket, and not what a caller over TCP is.
func TestSessionOfALink(t *testing.T) {
	w := newWorld()
	for uid, want := range map[int]access.Role{ada: access.Operator, eve: access.User, daemonUser: access.Admin} {
		c := w.over(access.TCP, uid)
		cookie := w.signIn(t, c, w.link(t, uid), "")
		who, _ := w.ask(c, cookie)
		if who.Role != want || who.UID != uid || who.Door != access.TCP || w.who.Session() == nil {
			t.Errorf("%d is %+v", uid, who)
		}
		if who, _ := w.ask(c, ""); who.Role > access.User || w.who.Session() != nil {
			t.Errorf("%d without a cookie is %+v", uid, who)
		}
		if who, _ := w.ask(w.over(access.TCP, uid), cookie); who.Role != want {
			t.Errorf("%d on another connection is %+v", uid, who)
		}
	}
}

// Another user who has the cookie has nothing: not on the port, not on the socket, and
// not from another machine. It is written down.
func TestStolenCookies(t *testing.T) {
	w := newWorld()
	cookie := w.signIn(t, w.over(access.TCP, ada), w.link(t, ada), "")
	for name, c := range map[string]*Caller{
		"another user": w.over(access.TCP, eve), "root": w.over(access.TCP, 0), "nobody on this machine": w.from(access.TCP, access.UID{}, "127.0.0.1"),
	} {
		who, answer := w.ask(c, cookie)
		if who.UID == ada || who.Role > access.User || w.who == nil || w.who.Session() != nil {
			t.Errorf("%s is %+v", name, who)
		}
		if len(w.noted) != 1 || w.noted[0] != "session_elsewhere" {
			t.Errorf("%s: written down: %v", name, w.noted)
		}
		if len(answer.Cookies()) != 1 || answer.Cookies()[0].MaxAge >= 0 {
			t.Errorf("%s keeps the cookie: %v", name, answer.Cookies())
		}
	}
	if who, answer := w.ask(w.elsewhere(), cookie); answer.StatusCode != http.StatusUnauthorized || who.UID == ada {
		t.Errorf("from another machine: %d", answer.StatusCode)
	}
	r := httptest.NewRequest("GET", "/api/leases", nil)
	r.Header.Set("Cookie", plainName+"="+cookie)
	for uid, want := range map[int]access.Role{eve: access.User, ada: access.Operator} {
		w.ForSocket(w).ServeHTTP(httptest.NewRecorder(), r.WithContext(With(r.Context(), w.over(access.Socket, uid))))
		if who := w.who.Standing(); who.UID != uid || who.Role != want || w.who.Session() != nil {
			t.Errorf("on the socket %d is %+v", uid, who)
		}
	}
	if who, _ := w.ask(w.over(access.TCP, ada), cookie); who.Role != access.Operator {
		t.Errorf("its owner is %+v afterwards", who)
	}
}

// A session that began on another machine is worth nothing to users of this one.
func TestCookiesStolenFromAnotherMachine(t *testing.T) {
	w := newWorld()
	secret, err := w.Tokens.Create(tokens.Token{Name: "ops", Role: access.Admin}, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cookie := w.signIn(t, w.elsewhere(), "", secret)
	if who, _ := w.ask(w.elsewhere(), cookie); who.Role != access.Admin || who.User != "token:ops" {
		t.Errorf("its owner is %+v", who)
	}
	for name, c := range map[string]*Caller{
		"a user": w.over(access.TCP, eve), "nobody": w.from(access.TCP, access.UID{}, "127.0.0.1"), "nobody by IPv6": w.from(access.TCP, access.UID{}, "::1"),
		"an address that is none": w.from(access.TCP, access.UID{}, "?"),
	} {
		if who, _ := w.ask(c, cookie); who.Role > access.User {
			t.Errorf("%s is %+v", name, who)
		}
	}
	here := w.signIn(t, w.over(access.TCP, ada), "", secret)
	if who, _ := w.ask(w.elsewhere(), here); who.Role == access.Admin {
		t.Error("a session of this machine holds on another")
	}
	if who, _ := w.ask(w.over(access.TCP, eve), here); who.Role == access.Admin {
		t.Error("a session with a token holds for another user")
	}
	if _, err := w.SignIn(t.Context(), w.from(access.TCP, access.UID{}, "127.0.0.1"), "", secret, agree); refusedWith(err) != "caller_not_known" {
		t.Errorf("a session for nobody: %v", err)
	}
}

// A link is made on the socket, for a user who is known, and works once, for that user,
// within a minute.
func TestLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		token := w.over(access.Socket, ada).showing(access.Credential{Kind: access.Token, Name: "x", Role: access.Admin}, noRules)
		contained := w.Caller(access.Peer{Caller: access.Caller{Door: access.Socket, UID: access.KnownUID(0), Place: access.Elsewhere}}, "")
		for name, c := range map[string]struct {
			by   *Caller
			want string
		}{
			"over TCP": {w.over(access.TCP, ada), "socket_only"}, "a token": {token, "token_instead"}, "root in a container": {contained, "caller_not_known"},
			"nobody": {w.from(access.Socket, access.UID{}, ""), "caller_not_known"}, "this process": {As(IdentityFor(access.Daemon())), "socket_only"}, "no caller": {nil, "socket_only"},
		} {
			if _, _, err := w.Link(c.by, time.Now()); refusedWith(err) != c.want {
				t.Errorf("%s: %v", name, err)
			}
		}
		try := func(c *Caller, code string) string {
			_, err := w.SignIn(t.Context(), c, code, "", agree)
			return refusedWith(err)
		}
		owner := w.over(access.TCP, ada)
		code := w.link(t, ada)
		if got := try(w.over(access.TCP, eve), code); got != "link_not_valid" {
			t.Errorf("the link of another user: %s", got)
		}
		if got := try(owner, code); got != "link_not_valid" {
			t.Error("a link that somebody else has tried still works")
		}
		code = w.link(t, ada)
		if got := try(owner, code); got != "" {
			t.Errorf("the first use: %s", got)
		}
		if got := try(owner, code); got != "link_not_valid" {
			t.Errorf("the second use: %s", got)
		}
		code = w.link(t, ada)
		time.Sleep(time.Minute)
		if got := try(owner, code); got != "link_not_valid" {
			t.Errorf("after a minute: %s", got)
		}
		if got := try(w.over(access.Socket, ada), w.link(t, ada)); got != "tcp_only" {
			t.Errorf("on the socket: %s", got)
		}
		if got := try(w.elsewhere(), w.link(t, ada)); got != "link_not_valid" {
			t.Errorf("from another machine: %s", got)
		}
		if got := try(nil, w.link(t, ada)); got != "tcp_only" {
			t.Errorf("nobody: %s", got)
		}
	})
}

// Guesses are slowed down like wrong tokens.
func TestGuessesAreSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c := w.over(access.TCP, eve)
		begun, codes := time.Now(), map[string]int{}
		for range 20 {
			_, err := w.SignIn(t.Context(), c, strings.Repeat("A", 43), "", agree)
			codes[refusedWith(err)]++
			_, err = w.SignIn(t.Context(), c, "", strings.Repeat("wrong-", 8), agree)
			codes[refusedWith(err)]++
		}
		if took := time.Since(begun); took < 30*time.Second || codes["link_not_valid"] != 20 || codes["unauthorized"] != 20 {
			t.Errorf("40 guesses took %v: %v", took, codes)
		}
		// At most a few at a time.
		refused := make(chan string, 100)
		for range 100 {
			go func() {
				_, err := w.SignIn(t.Context(), c, "x", "", agree)
				refused <- refusedWith(err)
			}()
		}
		synctest.Wait()
		many := 0
		for range 100 - sessions.MostHeld {
			if <-refused == "too_many_tries" {
				many++
			}
		}
		if many != 100-sessions.MostHeld {
			t.Errorf("%d were refused at once", many)
		}
		if _, err := w.SignIn(t.Context(), w.over(access.TCP, ada), w.link(t, ada), "", agree); err != nil {
			t.Errorf("another user has to wait: %v", err)
		}
		for range sessions.MostHeld {
			<-refused
		}
	})
}

// A role that the configuration takes away or gives holds with the next request, also
// on connections that are open, and after a restart with other rules.
func TestRolesOfSessionsFollowTheRules(t *testing.T) {
	w := newWorld()
	c := w.over(access.TCP, ada)
	cookie := w.signIn(t, c, w.link(t, ada), "")
	for _, want := range []access.Role{access.Operator, access.Viewer, access.Admin, access.User} {
		w.giveRoles(map[int]access.Given{ada: {Name: "ada", Role: want}})
		for _, on := range []*Caller{c, w.over(access.TCP, ada)} {
			if who, _ := w.ask(on, cookie); who.Role != want {
				t.Errorf("%v, want %v", who.Role, want)
			}
		}
	}
	// By group: as on the socket when the link was made.
	member := w.Caller(access.Peer{Caller: access.Caller{Door: access.Socket, UID: access.KnownUID(olga), Place: access.Here, Groups: []int{27}}}, "")
	in := w.over(access.TCP, olga)
	cookie = w.signIn(t, in, w.linkOf(t, member), "")
	w.rules.Store(&access.Rules{Groups: map[int]access.Given{27: {Name: "ops", Role: access.Operator}}})
	if who, _ := w.ask(in, cookie); who.Role != access.Operator {
		t.Errorf("a member of the group is %v", who.Role)
	}
	w.rules.Store(&access.Rules{})
	if who, _ := w.ask(in, cookie); who.Role != access.User {
		t.Errorf("without the group's role: %v", who.Role)
	}
	w.rules.Store(&access.Rules{Daemon: ada}) // a private daemon, of another user
	if who, _ := w.ask(in, ""); who.Role != access.Stranger {
		t.Errorf("on a private daemon: %v", who.Role)
	}
}

// A connection from a container is not what its user is outside.
func TestSessionsInContainers(t *testing.T) {
	w := newWorld()
	root, user := w.signIn(t, w.over(access.TCP, 0), w.link(t, 0), ""), w.signIn(t, w.over(access.TCP, ada), w.link(t, ada), "")
	for _, c := range []struct {
		place  access.Place
		uid    int
		cookie string
		strict bool
		want   access.Role
	}{
		{access.Here, 0, root, false, access.Admin},
		{access.Unknown, 0, root, false, access.Viewer},
		{access.Elsewhere, 0, root, false, access.Viewer},
		{access.Here, ada, user, false, access.Operator},
		{access.Unknown, ada, user, false, access.Operator}, // the kernel names the user, and the secret is the user's
		{access.Elsewhere, ada, user, false, access.User},
		{access.Here, ada, user, true, access.Operator},
		{access.Unknown, ada, user, true, access.Stranger},
		{access.Elsewhere, ada, user, true, access.Stranger},
	} {
		w.rules.Store(&access.Rules{Users: map[int]access.Given{ada: {Name: "ada", Role: access.Operator}}, ContainersNeedToken: c.strict})
		w.place = c.place
		if who, _ := w.ask(w.over(access.TCP, c.uid), c.cookie); who.Role != c.want {
			t.Errorf("place %v, uid %d, strict %v: %v, want %v", c.place, c.uid, c.strict, who.Role, c.want)
		}
	}
	// A link that was made in a container is worth no more outside.
	w.place = access.Here
	w.giveRoles(map[int]access.Given{ada: {Name: "ada", Role: access.Operator}})
	contained := w.Caller(access.Peer{Caller: access.Caller{Door: access.Socket, UID: access.KnownUID(ada), Place: access.Elsewhere}}, "")
	if who, _ := w.ask(w.over(access.TCP, ada), w.signIn(t, w.over(access.TCP, ada), w.linkOf(t, contained), "")); who.Role != access.User {
		t.Errorf("a link from a container gives %v", who.Role)
	}
}

// A session with a token is worth what the token is, and ends with it.
func TestSessionOfAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		token := func(name string, role access.Role, life time.Duration) string {
			k := tokens.Token{Name: name, Role: role}
			if life > 0 {
				k.Expires = time.Now().Add(life)
			}
			secret, err := w.Tokens.Create(k, "", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return secret
		}
		in := w.over(access.TCP, eve)
		secret := token("ops", access.Operator, 0)
		cookie := w.signIn(t, in, "", secret)
		if who, _ := w.ask(in, cookie); who.Role != access.Operator || who.User != "token:ops" || who.Token != "ops" || who.UID != access.NoUID {
			t.Errorf("it is %+v", who)
		}
		if _, err := w.Tokens.Revoke("ops", time.Now()); err != nil {
			t.Fatal(err)
		}
		if who, _ := w.ask(in, cookie); who.Role > access.User || who.Token != "" {
			t.Errorf("after the token was revoked it is %+v", who)
		}
		token("ops", access.Admin, 0) // another one with the same name
		if who, _ := w.ask(in, cookie); who.Role > access.User || len(w.Sessions.List(time.Now())) != 0 {
			t.Errorf("by another token of the same name it is %+v", who)
		}
		brief := token("brief", access.Operator, time.Hour)
		cookie = w.signIn(t, in, "", brief)
		if until := w.Until(&w.Sessions.List(time.Now())[0]); until.Sub(time.Now()) > time.Hour {
			t.Errorf("it is said to end in %v", time.Until(until))
		}
		time.Sleep(time.Hour)
		if who, _ := w.ask(in, cookie); who.Role > access.User {
			t.Errorf("after the token expired it is %+v", who)
		}
		w.Tokens.SetDaemon("the-secret-of-the-daemon-0123456789")
		cookie = w.signIn(t, in, "", "the-secret-of-the-daemon-0123456789")
		if who, _ := w.ask(in, cookie); who.Role != access.Admin || who.User != "token" {
			t.Errorf("the daemon's token gives %+v", who)
		}
		w.Tokens.SetDaemon("another-secret-of-the-daemon-012345")
		if _, answer := w.ask(in, cookie); answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("after the daemon's token changed: %d", answer.StatusCode)
		}
		if _, err := w.SignIn(t.Context(), in, "", token("scrape", access.Scraper, 0), agree); refusedWith(err) != "not_allowed" {
			t.Errorf("a scraper: %v", err)
		}
		for _, c := range []struct{ code, token, want string }{
			{"", "", "invalid_request"}, {"x", "y", "invalid_request"}, {"", "with a space", "unauthorized"}, {"", strings.Repeat("x", 600), "unauthorized"}, {"", secret, "token_revoked"}, {"", brief, "token_expired"},
		} {
			if _, err := w.SignIn(t.Context(), in, c.code, c.token, agree); refusedWith(err) != c.want {
				t.Errorf("%q %q: %v", c.code, c.token, err)
			}
		}
	})
}

// No page of another site, not even one of another port of this machine, does anything
// with a session.
func TestRequestsOfOtherPages(t *testing.T) {
	w := newWorld()
	c := w.over(access.TCP, ada)
	cookie := w.signIn(t, c, w.link(t, ada), "")
	for name, test := range map[string]struct {
		method  string
		headers map[string]string
		status  int
	}{
		"the page":                   {"POST", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:8000"}, 200},
		"the page, reading":          {"GET", map[string]string{"Sec-Fetch-Site": "same-origin"}, 200},
		"an old browser":             {"POST", map[string]string{"Origin": "http://127.0.0.1:8000"}, 200},
		"a typed address":            {"GET", map[string]string{"Sec-Fetch-Site": "none"}, 200},
		"another site":               {"POST", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, 403},
		"another site, reading":      {"GET", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		"another port":               {"POST", map[string]string{"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:9999"}, 403},
		"another port, reading":      {"GET", map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		"another port, old browser":  {"DELETE", map[string]string{"Origin": "http://127.0.0.1:9999"}, 403},
		"a frame without an origin":  {"POST", map[string]string{"Origin": "null"}, 403},
		"nobody says where from":     {"POST", nil, 403},
		"a form of a typed address":  {"POST", map[string]string{"Sec-Fetch-Site": "none"}, 403},
		"rebound name":               {"GET", map[string]string{"Host": "evil.example:8000", "Sec-Fetch-Site": "same-origin"}, 403},
		"rebound name, changing":     {"POST", map[string]string{"Host": "evil.example:8000", "Origin": "http://evil.example:8000"}, 403},
		"a name that begins like it": {"GET", map[string]string{"Host": "127.0.0.1.evil.example", "Sec-Fetch-Site": "same-origin"}, 403},
	} {
		_, answer := w.ask(c, cookie, func(r *http.Request) {
			r.Method = test.method
			for k, v := range test.headers {
				if k == "Host" {
					r.Host = v
				}
				r.Header.Set(k, v)
			}
		})
		if answer.StatusCode != test.status || (w.who != nil) != (test.status == 200) {
			t.Errorf("%s: %d", name, answer.StatusCode)
		}
	}
}

// A cookie of another port cannot replace that of the page, and nobody is signed in as
// somebody who sends them a link.
func TestPlantedCookies(t *testing.T) {
	w := newWorld()
	c := w.over(access.TCP, ada)
	own, planted := w.signIn(t, c, w.link(t, ada), ""), w.signIn(t, w.over(access.TCP, eve), w.link(t, eve), "")
	cookies := func(list ...string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Cookie", plainName+"_8000="+strings.Join(list, "; "+plainName+"_8000="))
		}
	}
	junk := strings.Repeat("A", 43)
	for name, list := range map[string][]string{"before": {planted, own}, "after": {own, planted}, "junk": {junk, "x", "", own}, "three": {junk, junk, planted, own}} {
		if who, _ := w.ask(c, "", cookies(list...)); who.UID != ada || who.Role != access.Operator {
			t.Errorf("%s: %+v", name, who)
		}
	}
	if who, _ := w.ask(c, planted); who.UID != ada || w.who.Session() != nil {
		t.Errorf("planted alone: %+v", who)
	}
	for name, value := range map[string]string{"long": strings.Repeat("x", 15<<10), "none": "", "many": strings.Repeat("a; "+plainName+"_8000=", 500) + own, "quoted": `"` + own + `"`, "bytes": "\xff\x00"} {
		if who, answer := w.ask(c, value); answer.StatusCode != 200 || who.Role > access.Operator {
			t.Errorf("%s: %d, %+v", name, answer.StatusCode, who)
		}
	}
	// With TLS only the cookie that a page without TLS cannot plant counts.
	secure := w.over(access.TCP, ada)
	secure.secure = true
	if who, _ := w.ask(secure, own); who.Role != access.User {
		t.Errorf("without the prefix: %+v", who)
	}
	if who, _ := w.ask(secure, "", func(r *http.Request) { r.Header.Set("Cookie", secureName+"_8000="+own) }); who.Role != access.Operator {
		t.Errorf("with the prefix: %+v", who)
	}
}

// The pages of two daemons under one name have a cookie each, and what a browser says
// about the port gets into no other header.
func TestCookieHasThePort(t *testing.T) {
	w := newWorld()
	c := w.over(access.TCP, ada)
	for host, want := range map[string]string{
		"127.0.0.1:8000": "berth_session_8000", "127.0.0.1:08001": "berth_session_8001", "[::1]:9": "berth_session_9", "localhost": "berth_session", "": "berth_session",
		"localhost:": "berth_session", "localhost:x; Domain=evil": "berth_session", "localhost:99999": "berth_session", "localhost:-1": "berth_session",
	} {
		if c.askedFor(host); c.cookieName() != want {
			t.Errorf("%q: %s", host, c.cookieName())
		}
	}
	cookie := w.signIn(t, c, w.link(t, ada), "")
	if who, answer := w.ask(c, "", func(r *http.Request) { r.Header.Set("Cookie", plainName+"_8001="+cookie) }); who.Role != access.User || len(answer.Cookies()) != 0 {
		t.Errorf("the cookie of another port: %+v", who)
	}
}

// The cookie is for this host, and scripts and other sites do not get it.
func TestCookieIsStrict(t *testing.T) {
	w := newWorld()
	c := w.over(access.TCP, ada)
	w.ask(c, "")
	done, err := w.SignIn(t.Context(), c, w.link(t, ada), "", agree)
	if err != nil {
		t.Fatal(err)
	}
	if got := done.Cookie.String(); got != "berth_session_8000="+done.Cookie.Value+"; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict" || len(done.Cookie.Value) != secret.Length {
		t.Error(got)
	}
	c.secure = true
	done, err = w.SignIn(t.Context(), c, w.link(t, ada), "", agree)
	if err != nil {
		t.Fatal(err)
	}
	if got := done.Cookie.String(); got != "__Host-berth_session_8000="+done.Cookie.Value+"; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Strict" {
		t.Error(got)
	}
	if got := c.SignOut().String(); !strings.Contains(got, "__Host-berth_session_8000=; Path=/; Max-Age=0") {
		t.Error(got)
	}
	_, answer := w.ask(c, "", func(r *http.Request) { r.Header.Set("Cookie", secureName+"_8000="+done.Cookie.Value) })
	if len(answer.Cookies()) != 1 || answer.Cookies()[0].Value != done.Cookie.Value || answer.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("the first answer of a connection has %v", answer.Header)
	}
	if _, answer = w.ask(c, "", func(r *http.Request) { r.Header.Set("Cookie", secureName+"_8000="+done.Cookie.Value) }); len(answer.Cookies()) != 0 {
		t.Error("the cookie comes with every answer")
	}
}

// Authorization decides where it is sent, right or wrong, and a cookie does not help.
func TestTokensComeBeforeSessions(t *testing.T) {
	w := newWorld()
	c := w.over(access.TCP, ada)
	cookie := w.signIn(t, c, w.link(t, ada), "")
	secret, err := w.Tokens.Create(tokens.Token{Name: "look", Role: access.Viewer}, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if who, _ := w.ask(c, cookie, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret) }); who.Role != access.Viewer || who.User != "token:look" {
		t.Errorf("with a token it is %+v", who)
	}
	if _, answer := w.ask(c, cookie, func(r *http.Request) { r.Header.Set("Authorization", "Bearer wrong") }); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("with a wrong token: %d", answer.StatusCode)
	}
}

// Streams end with the session: when it is ended, when nobody uses it, and at its end.
// The connection of a stranger learns whose credential it has shown, for it has a place then
// that strangers cannot take.
func TestConnectionsOfStrangersLearnWhatTheyShow(t *testing.T) {
	w := newWorld()
	secret, err := w.Tokens.Create(tokens.Token{Name: "ops", Role: access.Operator}, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cookie := w.signIn(t, w.elsewhere(), "", secret)
	for _, c := range []struct{ name, cookie, token, want string }{
		{"nothing", "", "", ""},
		{"a guess", "", secret[:len(secret)-1] + "~", ""},
		{"a token", "", secret, "token:ops"},
		{"a session", cookie, "", "token:ops"},
	} {
		stranger, shown := w.elsewhere(), ""
		stranger.shows = func(credential string) { shown = credential }
		w.ask(stranger, c.cookie, func(r *http.Request) {
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
		})
		if shown != c.want {
			t.Errorf("%s: the connection learns of %q, want %q", c.name, shown, c.want)
		}
	}
}

func TestStreamsEndWithTheSession(t *testing.T) {
	for name, test := range map[string]struct {
		during func(w *world, cookie string)
		want   time.Duration
	}{
		"idle": {func(*world, string) {}, sessions.Idle},
		"ended": {func(w *world, _ string) {
			time.Sleep(time.Hour)
			_, _ = w.Sessions.End(w.Sessions.List(time.Now())[0].ID)
		}, time.Hour},
		"used": {func(w *world, cookie string) {
			for err := error(nil); err == nil; time.Sleep(time.Hour) {
				_, err = w.Sessions.Check(cookie, time.Now())
			}
		}, sessions.Longest},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				c := w.over(access.TCP, ada)
				cookie := w.signIn(t, c, w.link(t, ada), "")
				begun, took := time.Now(), time.Duration(0)
				h := w.ForTCP(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					<-r.Context().Done()
					took = time.Since(begun)
					if cause := context.Cause(r.Context()); !errors.Is(cause, sessions.ErrEnded) {
						t.Errorf("because %v", cause)
					}
				}))
				var meanwhile sync.WaitGroup
				defer meanwhile.Wait()
				meanwhile.Go(func() { test.during(w, cookie) })
				r := httptest.NewRequest("GET", "http://127.0.0.1/api/events", nil)
				r.Header.Set("Cookie", plainName+"="+cookie)
				h.ServeHTTP(httptest.NewRecorder(), r.WithContext(With(r.Context(), c)))
				if took < test.want-2*time.Minute || took > test.want+2*time.Minute {
					t.Errorf("it ended after %v, want %v", took, test.want)
				}
			})
		})
	}
}

// passwd is a user database.
type passwd map[string]int

func (p passwd) Of(uid int) string {
	for name, id := range p {
		if id == uid {
			return name
		}
	}
	return strconv.Itoa(uid)
}

func (passwd) Settled(int) bool { return true }

func (p passwd) AccountOf(name string) (int, []int, error) {
	uid, known := p[name]
	if !known {
		return 0, nil, user.UnknownUserError(name)
	}
	return uid, []int{uid, 77}, nil
}

// away is a user database that does not answer.
type away struct{}

func (away) Of(uid int) string { return strconv.Itoa(uid) }
func (away) Settled(int) bool  { return false }
func (away) AccountOf(string) (int, []int, error) {
	return 0, nil, later.Because(errors.New("the user database does not answer"), 0)
}

// While nobody knows whether the user of a session is still there, the session stays, and
// the request is nobody else's.
func TestSessionsOutliveAnOutageOfTheUserDatabase(t *testing.T) {
	w := newWorld()
	secret, err := w.Tokens.Create(tokens.Token{Name: "ci", Role: access.User, As: "ada", UID: ada}, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	set := func(n Names) {
		w.Names = n
		w.h = w.ForTCP(w)
	}
	set(passwd{"ada": ada})
	cookie := w.signIn(t, w.over(access.TCP, eve), "", secret)
	set(away{})
	w.who = nil
	_, answer := w.ask(w.over(access.TCP, eve), cookie, func(*http.Request) {})
	if answer.StatusCode != http.StatusServiceUnavailable || len(answer.Cookies()) > 0 || w.who != nil {
		t.Errorf("in the outage: %d, cookies %v, served as %+v", answer.StatusCode, answer.Cookies(), w.who)
	}
	if _, answer := w.ask(w.over(access.TCP, eve), "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret) }); answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the token: %d", answer.StatusCode)
	}
	set(passwd{"ada": ada})
	if who, answer := w.ask(w.over(access.TCP, eve), cookie, func(*http.Request) {}); answer.StatusCode != http.StatusOK || who.UID != ada {
		t.Errorf("after it: %d %+v", answer.StatusCode, who)
	}
}

// Whoever shows a bound token is its user, with the role of the token, for as long as the
// machine has that user with that uid. Otherwise the token gives nothing at all.
func TestABoundToken(t *testing.T) {
	w := newWorld()
	secret, err := w.Tokens.Create(tokens.Token{Name: "ci", Role: access.User, As: "ada", UID: ada}, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	socket := w.ForSocket(w)
	ask := func(c *Caller) (*Caller, int, string) {
		r := httptest.NewRequest("GET", "http://127.0.0.1:8000/api/leases", nil)
		r.Header.Set("Authorization", "Bearer "+secret)
		w.who = nil
		answer, h := httptest.NewRecorder(), w.h
		if c.door == access.Socket {
			h = socket
		}
		h.ServeHTTP(answer, r.WithContext(With(r.Context(), c)))
		return w.who, answer.Code, answer.Body.String()
	}
	container := func() *Caller {
		return w.Caller(access.Peer{Caller: access.Caller{Door: access.Socket, UID: access.KnownUID(daemonUser), Place: access.Elsewhere}}, "")
	}
	callers := map[string]func() *Caller{
		"eve on the socket": func() *Caller { return w.over(access.Socket, eve) }, "eve over TCP": func() *Caller { return w.over(access.TCP, eve) },
		"root": func() *Caller { return w.over(access.Socket, daemonUser) }, "another machine": w.elsewhere, "a container": container,
	}
	w.Names, w.Limits = passwd{"ada": ada}, func() *quota.Rules { return &quota.Rules{Groups: map[int]quota.Group{77: {Name: "lab"}}} }
	w.h = w.ForTCP(w)
	socket = w.ForSocket(w)
	for what, from := range callers {
		c := from()
		who, status, text := ask(c)
		if who == nil {
			t.Errorf("%s: %d %s", what, status, text)
			continue
		}
		a := who.Identity()
		if a.UID != ada || a.User != "ada" || a.Token != "ci" || a.Role != access.User || a.Holder.UID != ada || a.Holder.User != "ada" || !who.Certain() {
			t.Errorf("%s is %+v, certain %v", what, a, who.Certain())
		}
		if l := who.Limits(); l.Subject.UID != ada || !slices.Equal(l.Subject.Groups, []int{ada, 77}) {
			t.Errorf("the limits of %s are those of %+v", what, l.Subject)
		}
		if _, _, err := w.Link(who, time.Now()); err == nil {
			t.Errorf("%s gets a link with the rights of ada", what)
		}
	}
	c := w.over(access.TCP, eve)
	cookie := w.signIn(t, c, "", secret)
	if who, _ := w.ask(c, cookie); who.UID != ada || who.Role != access.User || !w.who.Certain() {
		t.Errorf("its session is %+v", who)
	}
	begun := w.who.Session()
	if owner := w.ObjectOf(begun); !access.Owns(w.who.Standing(), owner) || !access.Owns(w.over(access.Socket, ada).Standing(), owner) || access.Owns(w.over(access.Socket, eve).Standing(), owner) {
		t.Errorf("its session belongs to %+v", owner)
	}
	for what, names := range map[string]Names{"ada is gone": passwd{"eve": eve}, "ada has another uid": passwd{"ada": eve}, "ada is root": passwd{"ada": 0}, "no user database": nil} {
		w.Names = names
		w.h = w.ForTCP(w)
		socket = w.ForSocket(w)
		for caller, from := range callers {
			if who, status, text := ask(from()); who != nil || status != http.StatusForbidden || !strings.Contains(text, "token_user_gone") || !strings.Contains(text, "berth token create --as") {
				t.Errorf("%s, and %s shows the token: %d %s", what, caller, status, text)
			}
		}
		c := w.over(access.TCP, eve)
		if who, _ := w.ask(c, cookie); who.UID == ada || w.who.Certain() {
			t.Errorf("%s, and the session is %+v", what, who)
		}
		problem := (*api.Problem)(nil)
		if _, err := w.SignIn(t.Context(), c, "", secret, agree); !errors.As(err, &problem) || problem.Code != "token_user_gone" {
			t.Errorf("%s, and a session begins: %v", what, err)
		}
	}
}

// Programs are run for a user whom the kernel names on the socket, and for the session
// that such a user began, except for root's.
func TestWhoIsCertain(t *testing.T) {
	w := newWorld()
	at := func(door access.Door, uid access.UID, place access.Place, shown access.Credential) *Caller {
		return w.Caller(access.Peer{Caller: access.Caller{Door: door, UID: uid, Place: place, Shown: shown}}, "")
	}
	user := access.KnownUID(eve)
	for what, c := range map[string]*Caller{
		"nobody":                   nil,
		"TCP":                      at(access.TCP, user, access.Here, access.Credential{}),
		"no uid":                   at(access.Socket, access.UID{}, access.Here, access.Credential{}),
		"a container":              at(access.Socket, user, access.Elsewhere, access.Credential{}),
		"who knows where":          at(access.Socket, user, access.Unknown, access.Credential{}),
		"a token":                  at(access.Socket, user, access.Here, access.Credential{Kind: access.Token, Name: "ci", Role: access.Admin}),
		"a certificate":            at(access.Socket, user, access.Here, access.Credential{Kind: access.Certificate, Name: "ci"}),
		"this process":             As(IdentityFor(access.Actor{UID: eve, Role: access.Admin})),
		"the session of container": at(access.TCP, user, access.Elsewhere, access.Credential{Kind: access.Session}),
	} {
		if c.Certain() {
			t.Errorf("%s is certain", what)
		}
	}
	if !w.over(access.Socket, eve).Certain() || !w.over(access.Socket, daemonUser).Certain() {
		t.Error("users on the socket are not certain")
	}
	for uid, want := range map[int]bool{eve: true, ada: true, daemonUser: false} {
		c := w.over(access.TCP, uid)
		w.ask(c, w.signIn(t, c, w.link(t, uid), ""))
		if got := w.who.Certain(); got != want {
			t.Errorf("the session of %d: %v", uid, got)
		}
	}
	secret, err := w.Tokens.Create(tokens.Token{Name: "ci", Role: access.Admin}, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c := w.over(access.TCP, eve)
	w.ask(c, w.signIn(t, c, "", secret))
	if w.who == nil || w.who.Certain() {
		t.Error("the session of a token is certain")
	}
}
