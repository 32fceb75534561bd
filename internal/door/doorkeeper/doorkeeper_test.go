package doorkeeper

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/bound"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/door/sessions"
)

// A stream ends when its token expires.
func TestExpiryEndsAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := tokens.New()
		secret, err := k.Create(tokens.Token{Name: "a", Role: access.User, Expires: time.Now().Add(time.Hour)}, "", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		keeper := Doorkeeper{Tokens: k, Tries: sessions.NewTries(slog.New(slog.DiscardHandler), func(string) {})}
		begun := time.Now()
		h := keeper.ForSocket(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			if took := time.Since(begun); took != time.Hour {
				t.Errorf("it ended after %v", took)
			}
		}))
		r := httptest.NewRequest("GET", "/api/events", nil)
		r.Header.Set("Authorization", "Bearer "+secret)
		h.ServeHTTP(httptest.NewRecorder(), r)
	})
}

// Failed tries are answered ever more slowly, up to a second, and no more than a
// few at a time; who has a valid token does not wait with them.
func TestTriesAreSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := tokens.New()
		strong, err := k.Create(tokens.Token{Name: "a", Role: access.User}, "", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		k.SetDaemon("hush")
		log := &bytes.Buffer{}
		keeper := Doorkeeper{Tokens: k, Tries: sessions.NewTries(slog.New(slog.NewTextHandler(log, nil)), func(string) {})}
		h := keeper.ForTCP(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		try := func(secret, from string) (status int, took time.Duration) {
			r := httptest.NewRequest("GET", "/api/leases", nil)
			r.Header.Set("Authorization", "Bearer "+secret)
			r = r.WithContext(With(r.Context(), &Caller{door: access.TCP, address: from}))
			w, begun := httptest.NewRecorder(), time.Now()
			h.ServeHTTP(w, r)
			return w.Code, time.Since(begun)
		}
		delay := sessions.FirstDelay
		for range 8 {
			if status, took := try("wrong", "192.0.2.1"); status != http.StatusUnauthorized || took != min(delay, sessions.MostDelay) {
				t.Errorf("%d after %v, want %v", status, took, delay)
			}
			delay *= 2
		}
		var all sync.WaitGroup
		for range sessions.MostHeld {
			all.Go(func() { _, _ = try("wrong", "2001:db8::1") })
		}
		synctest.Wait()
		for name, c := range map[string]struct {
			secret, from string
			status       int
		}{
			"one too many":                 {"wrong", "2001:db8::1", http.StatusTooManyRequests},
			"the same network":             {"wrong", "2001:db8::2", http.StatusTooManyRequests},
			"a secret that can be guessed": {"hush", "2001:db8::2", http.StatusTooManyRequests},
			"a valid one":                  {strong, "2001:db8::1", http.StatusOK},
			"from elsewhere":               {"hush", "192.0.2.9", http.StatusOK},
		} {
			if status, took := try(c.secret, c.from); status != c.status || took != 0 {
				t.Errorf("%s: %d after %v", name, status, took)
			}
		}
		all.Wait()
		time.Sleep(2 * time.Minute)
		if status, took := try("wrong", "192.0.2.1"); status != http.StatusUnauthorized || took != sessions.FirstDelay {
			t.Errorf("after a while: %d after %v", status, took)
		}
		if !strings.Contains(log.String(), "from=192.0.2.1 reason=unknown more_since_the_last_line=7") {
			t.Errorf("the log has %s", log)
		}
		// However many addresses there are, few are told apart, and few lines are logged.
		before := strings.Count(log.String(), "\n")
		for i := range 3 * sessions.MostTriers {
			all.Go(func() { _, _ = try("wrong", "10.0."+string(rune('0'+i%10))+"."+string(rune('0'+i/10%10))) })
		}
		all.Wait()
		if n, held := keeper.Tries.Len(); n > sessions.MostTriers+1 || held != 0 {
			t.Errorf("%d callers are told apart, %d answers are held", n, held)
		}
		if n := strings.Count(log.String(), "\n") - before; n > sessions.MostLines {
			t.Errorf("%d lines", n)
		}
	})
}

// An actor by token is made once for a connection, and never outlives the token.
func TestShownTokensAreRemembered(t *testing.T) {
	k := tokens.New()
	secret, err := k.Create(tokens.Token{Name: "a", Role: access.User}, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	d := Doorkeeper{Tokens: k, Tries: sessions.NewTries(slog.New(slog.DiscardHandler), func(string) {})}
	c, now := &Caller{door: access.Socket}, time.Now()
	first, err := d.check(c, []string{"Bearer " + secret}, now)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := d.check(c, []string{"Bearer " + secret}, now); err != nil || again != first {
		t.Errorf("checked again: %v", err)
	}
	if later, err := d.check(c, []string{"Bearer " + secret}, now.Add(time.Minute)); err != nil || later == first {
		t.Errorf("not checked again after a minute: %v", err)
	}
	if _, err := d.check(c, []string{"Bearer " + secret[:len(secret)-1] + "~"}, now); err == nil {
		t.Error("another secret passes for it")
	}
	if _, err := k.Revoke("a", now); err != nil {
		t.Fatal(err)
	}
	if _, err := d.check(c, []string{"Bearer " + secret}, now); err == nil {
		t.Error("it outlives the token")
	}
}

// FuzzAuthorization shows the daemon any header: it lets in whoever has the secret
// and nobody else.
func FuzzAuthorization(f *testing.F) {
	k := tokens.New()
	secret, err := k.Create(tokens.Token{Name: "a", Role: access.User}, "0123456789abcdefghijklmnopqrstuv", time.Now())
	if err != nil {
		f.Fatal(err)
	}
	d := Doorkeeper{Tokens: k, Tries: sessions.NewTries(slog.New(slog.DiscardHandler), func(string) {})}
	for _, seed := range []string{"", "Bearer", "Bearer ", "Bearer " + secret, "bearer " + secret, "Bearer  " + secret, "Basic YTpi", secret, "Bearer " + secret + "\x00", "Bearer \xff", "BEARER x y", strings.Repeat("Bearer ", 3000)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		s, err := d.check(&Caller{door: access.TCP}, []string{header}, time.Now())
		right := len(header) > 7 && strings.EqualFold(header[:7], "Bearer ") && header[7:] == secret
		if (err == nil) != right {
			t.Errorf("%q: %v", header, err)
		}
		if err == nil && s.caller.Identity().User != "token:a" {
			t.Errorf("%q is %+v", header, s.caller.Identity())
		}
	})
}

func TestAccessOverTCP(t *testing.T) {
	inner := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "in") })
	for _, test := range []struct {
		name, token, host, path string
		method                  string // empty: POST
		from                    string // address; empty: this machine
		strict                  bool   // tcp_callers: token
		headers                 map[string]string
		status                  int
	}{
		{name: "local without token", host: "127.0.0.1:8000", status: 200},
		{name: "localhost", host: "localhost:8000", status: 200},
		{name: "IPv6", host: "[::1]:8000", status: 200},
		{name: "another name", host: "evil.example", status: 403},
		{name: "page of another site", host: "127.0.0.1:8000", headers: map[string]string{"Sec-Fetch-Site": "cross-site"}, status: 403},
		{name: "local where TCP needs a token", strict: true, host: "localhost:8000", status: 401},
		{name: "a probe where TCP needs a token", strict: true, host: "localhost:8000", path: "/healthz", status: 200},
		{name: "no token", token: "secret", host: "gpu7", status: 401},
		{name: "wrong token", token: "secret", host: "gpu7", headers: map[string]string{"Authorization": "Bearer secrets"}, status: 401},
		{name: "right token", token: "secret", host: "gpu7", headers: map[string]string{"Authorization": "Bearer secret"}, status: 200},
		{name: "probe", token: "secret", host: "gpu7", path: "/healthz", status: 200},
		{name: "probe with a wrong token", token: "secret", host: "gpu7", path: "/readyz", headers: map[string]string{"Authorization": "Bearer wrong"}, status: 200},
		{name: "a token where there is none", host: "127.0.0.1:8000", headers: map[string]string{"Authorization": "Bearer secret"}, status: 401},
		{name: "another machine without a token", from: "192.0.2.7", host: "127.0.0.1", status: 401},
		{name: "another machine over IPv6", from: "2001:db8::7", host: "127.0.0.1", status: 401},
		{name: "another machine with the token", token: "secret", from: "192.0.2.7", host: "gpu7", headers: map[string]string{"Authorization": "bearer secret"}, status: 200},
		{name: "page of another site with the token", token: "secret", host: "gpu7", headers: map[string]string{"Authorization": "Bearer secret", "Sec-Fetch-Site": "cross-site"}, status: 403},
		{name: "the page where a token is needed", token: "secret", host: "gpu7", method: "GET", path: "/", status: 200},
		{name: "its files", token: "secret", host: "gpu7", method: "HEAD", path: "/assets/index-0.js", status: 200},
		{name: "its icon on another machine", from: "192.0.2.7", host: "gpu7", method: "GET", path: "/favicon.svg", status: 200},
		{name: "the page by the name of another host", host: "evil.example", method: "GET", path: "/", status: 403},
		{name: "a post to the page", token: "secret", host: "gpu7", path: "/", status: 401},
		{name: "beside its files", token: "secret", host: "gpu7", method: "GET", path: "/assets/../api/leases", status: 401},
		{name: "below its files", token: "secret", host: "gpu7", method: "GET", path: "/assets/x/y", status: 401},
		{name: "no file", token: "secret", host: "gpu7", method: "GET", path: "/assets/", status: 401},
		{name: "the manual where a token is needed", token: "secret", host: "gpu7", method: "GET", path: "/help", status: 200},
		{name: "a page of it on another machine", from: "192.0.2.7", host: "gpu7", method: "GET", path: "/help/access", status: 200},
		{name: "a picture of it", token: "secret", host: "gpu7", method: "GET", path: "/help/pictures/top.png", status: 200},
		{name: "a post to it", token: "secret", host: "gpu7", path: "/help", status: 401},
		{name: "beside it", token: "secret", host: "gpu7", method: "GET", path: "/help/../api/leases", status: 401},
		{name: "below its pictures", token: "secret", host: "gpu7", method: "GET", path: "/help/pictures/../../api/leases", status: 401},
		{name: "what only begins like it", token: "secret", host: "gpu7", method: "GET", path: "/helpers", status: 401},
		{name: "two slashes", token: "secret", host: "gpu7", method: "GET", path: "//api/leases", status: 401},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest(cmp.Or(test.method, "POST"), "http://x"+test.path+"/", nil)
			r.URL.Path, r.Host = test.path, test.host
			for k, v := range test.headers {
				r.Header.Set(k, v)
			}
			keeper := Doorkeeper{Tokens: tokens.New(), Tries: sessions.NewTries(slog.New(slog.DiscardHandler), func(string) {})}
			keeper.Tokens.SetDaemon(test.token)
			keeper.Rules = func() *access.Rules { return &access.Rules{TCPNeedsToken: test.strict} }
			from := "127.0.0.1"
			if test.from != "" {
				from = test.from
			}
			r = r.WithContext(With(r.Context(), &Caller{door: access.TCP, address: from}))
			w := httptest.NewRecorder()
			keeper.ForTCP(inner).ServeHTTP(w, r)
			for key, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cross-Origin-Resource-Policy": "same-origin"} {
				if got := w.Header().Get(key); got != want {
					t.Errorf("%s is %q", key, got)
				}
			}
			if w.Code != test.status {
				t.Errorf("answer is %d, want %d: %s", w.Code, test.status, w.Body)
			}
			var refusal api.Problem
			if err := json.Unmarshal(w.Body.Bytes(), &refusal); w.Code != 200 && (err != nil || refusal.Code == "") {
				t.Errorf("refused without a code: %s", w.Body)
			}
		})
	}
}

// A token that a cluster issued for this node is the token kubernetes; one for another
// node is refused with what to compare, and a forged one like any that nobody knows.
func TestTokensThatAClusterIssues(t *testing.T) {
	ends := time.Now().Add(time.Hour)
	keeper := Doorkeeper{
		Tokens: tokens.New(), Tries: sessions.NewTries(slog.New(slog.DiscardHandler), func(string) {}), Rules: func() *access.Rules { return &access.Rules{} },
		Issued: func(token string, _ time.Time) (time.Time, error) {
			switch token {
			case "eyJ.good." + strings.Repeat("x", 900):
				return ends, nil
			case "eyJ.other.x":
				return time.Time{}, bound.ErrOther
			case "eyJ.old.x":
				return time.Time{}, bound.ErrExpired
			}
			return time.Time{}, bound.ErrForged
		},
	}
	const brought = "eyJ.0123456789abcdef0123456789abcdef.x" // a secret may look like one
	if _, err := keeper.Tokens.Create(tokens.Token{Name: "own", Role: access.User}, brought, time.Now()); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]string{
		brought:                                "200 token:own user",
		"eyJ.good." + strings.Repeat("x", 900): "200 token:kubernetes operator",
		"eyJ.other.x":                          "403 token_elsewhere",
		"eyJ.old.x":                            "401 token_expired",
		"eyJ.forged.x":                         "401 unauthorized",
	} {
		r := httptest.NewRequest("GET", "/api/leases", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		r = r.WithContext(With(r.Context(), &Caller{door: access.Socket}))
		w := httptest.NewRecorder()
		keeper.ForSocket(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			who := Of(r.Context()).Identity()
			_, _ = fmt.Fprintf(w, "%s %s", who.User, who.Role)
		})).ServeHTTP(w, r)
		got := fmt.Sprintf("%d %s", w.Code, w.Body)
		var refusal api.Problem
		if w.Code != http.StatusOK && json.Unmarshal(w.Body.Bytes(), &refusal) == nil {
			got = fmt.Sprintf("%d %s", w.Code, refusal.Code)
		}
		if got != want {
			t.Errorf("%.20s: %s, want %s", token, got, want)
		}
	}
}
