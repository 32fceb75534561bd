package httpapi

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/api/wire"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/door/sessions"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/audit"
)

// audited opens the API with an audit log.
func audited(t *testing.T) *door {
	t.Helper()
	d := open(t, "1xrtx-4060")
	d.server.Audit = audit.Open(file.Dir(t.TempDir()), audit.Settings{MaxSize: 1 << 20, Files: 2}, nil, nil)
	t.Cleanup(d.server.Audit.Close)
	return d
}

// log returns the entries that an administrator reads.
func (d *door) log(t *testing.T, query string) api.AuditLog {
	t.Helper()
	var page api.AuditLog
	w := d.ask("GET", "/api/audit"+query, "")
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return page
}

// Every refusal because of who asks is written down, wherever it is decided;
// other failures are not.
func TestRefusalsAreAudited(t *testing.T) {
	d := audited(t)
	ada := holding(lease.Holder{User: "ada", UID: 64001}, access.User)
	eve := holding(lease.Holder{User: "eve", UID: 64002}, access.User)
	if w := d.askAs(ada, "POST", "/api/leases", `{"id":"train","memory_mb":1024}`); w.Code != http.StatusCreated {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	d.askAs(eve, "DELETE", "/api/leases/train?user=ada", "")                           // by the ledger
	d.askAs(eve, "PUT", "/api/gpu/config", `{}`)                                       // by the route
	d.askAs(eve, "POST", "/api/leases/train/trim?user=ada", "")                        // by the desk
	d.askAs(eve, "DELETE", "/api/leases/missing", "")                                  // 404
	d.askAs(eve, "POST", "/api/leases", `{"id":"x","memory_mb":"much"}`)               // 422
	d.askAs(eve, "GET", "/api/leases", "")                                             // granted
	d.askAs(eve, "POST", "/api/leases", `{"id":"own","memory_mb":1024}`)               // granted
	d.askAs(doorkeeper.IdentityFor(viewer()), "POST", "/api/gpu/memory/allocate", `x`) // by the route, before the body
	keeper := doorkeeper.Doorkeeper{Rules: func() *access.Rules { return &access.Rules{} }, Tokens: tokens.New(), Tries: sessions.NewTries(slog.New(slog.DiscardHandler), func(string) {})}
	knock := func(address, token string) {
		r := httptest.NewRequest("GET", address, nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		c := keeper.Caller(access.Peer{Caller: access.Caller{Door: access.TCP}}, "127.0.0.1")
		keeper.ForTCP(d.server).ServeHTTP(httptest.NewRecorder(), r.WithContext(doorkeeper.With(r.Context(), c)))
	}
	knock("http://evil.example/api/gpu/status", "")
	knock("/api/gpu/status", "wrong")
	keeper.Tokens.SetDaemon("secret")
	knock("/api/gpu/status", "")
	var got []string
	for _, e := range d.log(t, "").Entries {
		code, _, _ := strings.Cut(e.Why, ":")
		got = append(got, strings.Join([]string{e.Outcome, e.Who.User, e.What, e.Object.ID, code}, " "))
	}
	want := []string{
		"refused eve release DELETE /api/leases/train not_yours",
		"refused eve configure PUT /api/gpu/config not_allowed",
		"refused eve trim POST /api/leases/train/trim not_yours",
		"refused unknown lease POST /api/gpu/memory/allocate not_allowed",
		"refused unknown look GET /api/gpu/status foreign_host",
		"refused unknown look GET /api/gpu/status unauthorized",
		"refused unknown look GET /api/gpu/status unauthorized",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, who := range []doorkeeper.Identity{ada, eve, doorkeeper.IdentityFor(viewer())} {
		if w := d.askAs(who, "GET", "/api/audit", ""); w.Code != http.StatusForbidden {
			t.Errorf("%s reads the log: %d", who.User, w.Code)
		}
	}
}

// A caller over TCP is written down with the address, and one on a lease stream
// like any other.
func TestWhereARefusalCameFrom(t *testing.T) {
	d := audited(t)
	address := d.tcp(t, 0)
	dial := func() (net.Conn, error) { return net.Dial("tcp", address) }
	call := over(t, dial)
	if status, text := call("POST", "/api/gpu/monitoring/stop", ""); status != http.StatusForbidden {
		t.Fatalf("%d %s", status, text)
	}
	e := d.log(t, "?what=monitor").Entries
	if len(e) != 1 || e[0].Who.Address != "127.0.0.1" || e[0].Who.Door != "tcp" {
		t.Errorf("the log has %+v", e)
	}
	ada := holding(lease.Holder{User: "ada", UID: 64001}, access.User)
	if w := d.askAs(ada, "POST", "/api/leases", `{"id":"other","memory_mb":64}`); w.Code != http.StatusCreated {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	conn, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(); d.Streams.Wait() })
	if p := upgrade(t, conn).refused(wire.Release, 1, `{"id":"other","user":"ada"}`); p.Code != "not_yours" {
		t.Errorf("the stream refused with %s", p.Code)
	}
	if e := d.log(t, "?what=lease").Entries; len(e) != 1 || !strings.HasPrefix(e[0].Why, "not_yours") || e[0].Who.Address != "127.0.0.1" {
		t.Errorf("the log has %+v", e)
	}
}

// Bad queries are refused in words.
func TestAuditQueries(t *testing.T) {
	d := audited(t)
	for range 3 {
		d.askAs(doorkeeper.IdentityFor(viewer()), "POST", "/api/gpu/monitoring/stop", "")
	}
	if page := d.log(t, "?after=0&limit=2"); len(page.Entries) != 2 || page.Entries[0].Seq != 1 || page.Next != 2 {
		t.Errorf("the first page is %+v", page)
	}
	if pages := follow(t, d, "/api/audit?after=0&limit=2&user=unknown", func(api.AuditLog) {}); pages != 2 {
		t.Errorf("the links lead through %d pages", pages)
	}
	if page := d.log(t, "?after=2&limit=2"); len(page.Entries) != 1 || page.Next != 0 {
		t.Errorf("the second page is %+v", page)
	}
	if page := d.log(t, "?limit=2"); len(page.Entries) != 2 || page.Entries[1].Seq != 3 {
		t.Errorf("the newest are %+v", page)
	}
	if page := d.log(t, "?user=nobody"); page.Entries == nil || len(page.Entries) != 0 {
		t.Errorf("of nobody there is %+v", page)
	}
	for _, query := range []string{"?after=x", "?after=-1", "?after=99999999999999999999", "?limit=0", "?limit=99999", "?since=yesterday", "?what=" + strings.Repeat("x", 65), "?page=2"} {
		if w := d.ask("GET", "/api/audit"+query, ""); w.Code != http.StatusUnprocessableEntity && w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}
