package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/desk/doctor"
	"github.com/berth-gpu/berth/internal/file/inventory"
)

const token = "a-token-that-is-long-enough-for-anybody"

// inAudit returns the entries of the audit log in a few words each.
func inAudit(t *testing.T, c *client.Client) (list []string) {
	t.Helper()
	page, err := c.Audit(t.Context(), client.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		who := e.Who.Door
		if e.Who.Token != "" {
			who = "token " + e.Who.Token
		}
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s: %s %s %s/%s %s", e.Outcome, who, e.What, e.Object.Kind, e.Object.Owner, e.Object.ID)))
	}
	return list
}

// withToken returns a client that shows a token on the socket.
func withToken(t *testing.T, p *place, secret string) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{Transport: bearer{secret, &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", p.flags["daemon.socket"])
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

type bearer struct {
	token string
	*http.Transport
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.Transport.RoundTrip(r)
}

// Acts on others' things, settings, monitoring and refusals are in the audit
// log, and what users do with their own leases is not.
func TestAuditOfADaemon(t *testing.T) {
	p := newPlace(t, "sim:1")
	p.env = []string{"BERTH_TOKEN=" + token}
	c, stop := p.start(t)
	ctx := t.Context()
	other := withToken(t, p, token)

	ask := func(c *client.Client, id string) {
		t.Helper()
		if _, err := c.Acquire(ctx, api.LeaseRequest{ID: id, Memory: 1024, Slots: gpu.Some(0), Binding: "named"}); err != nil {
			t.Fatal(err)
		}
	}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"mine", "theirs", "kept"} {
		ask(c, id)
	}
	ask(other, "other")
	must(c.Release(ctx, "mine", 0))
	must(other.Resize(ctx, "theirs", api.Resize{Memory: 2048}))
	must(other.Release(ctx, "theirs", 0))
	must(other.Trim(ctx, "kept"))
	must(c.Release(ctx, "other", 0))
	must(c.SetConfig(ctx, []byte(`{"temp_optimal": 61, "hooks": {"pager": {"url": "https://example.com/zqsecret", "secret": "zqsecret"}}}`)))
	must(c.SetConfig(ctx, []byte(`{"hooks": {"pager": {"secret": "zqsecret2"}}}`)))
	must(c.SetConfig(ctx, []byte(`{"temp_optimal": 61}`))) // no change
	must(c.ReloadConfig(ctx))
	must(c.StopMonitoring(ctx))
	must(c.StartMonitoring(ctx))
	must(c.StartMonitoring(ctx)) // it runs already
	if _, err := withToken(t, p, "wrong").Status(ctx, ""); err == nil {
		t.Fatal("a wrong token is right")
	}
	user := "0"
	if held, err := c.Lease(ctx, "kept"); err == nil {
		user = held.Holder.User
	}
	want := []string{
		"done: token daemon resize lease/" + user + " theirs",
		"done: token daemon release lease/" + user + " theirs",
		"done: token daemon trim lease/" + user + " kept",
		"done: socket release lease/token other",
		"done: socket configure settings/",
		"done: socket configure settings/",
		"done: socket configure settings/",
		"done: socket monitor monitoring/",
		"done: socket monitor monitoring/",
		"refused: socket look route/ GET /api/gpu/status",
	}
	if diff := cmp.Diff(want, inAudit(t, c)); diff != "" {
		t.Error(diff)
	}
	page, err := c.Audit(ctx, client.AuditQuery{What: "configure"})
	if err != nil {
		t.Fatal(err)
	}
	first := page.Entries[0]
	if first.Before["gpu.temp_optimal"] != "65" || first.After["gpu.temp_optimal"] != "61" || first.After["hooks.pager.url"] != "set" {
		t.Errorf("the change was %v to %v", first.Before, first.After)
	}
	if second := page.Entries[1]; second.After["hooks.pager.secret"] != "set to another one" {
		t.Errorf("the second change was %v to %v", second.Before, second.After)
	}
	if text := fmt.Sprint(page); strings.Contains(text, "zqsecret") {
		t.Errorf("a secret is in the log: %s", text)
	}
	resized, _ := c.Audit(ctx, client.AuditQuery{What: "resize"})
	if diff := cmp.Diff([]map[string]string{{"memory_mb": "1024"}, {"memory_mb": "2048"}}, []map[string]string{resized.Entries[0].Before, resized.Entries[0].After}); diff != "" {
		t.Error(diff)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	verdict, err := doctor.VerifyAudit(p.flags["daemon.state_dir"])
	if err != nil || !verdict.Sound || verdict.Entries != len(want) || verdict.Marked != uint64(len(want)) {
		t.Errorf("after the end: %+v, %v", verdict, err)
	}

	// The next daemon goes on with it; one that finds it cut says so.
	c, stop = p.start(t)
	if n := len(inAudit(t, c)); n != len(want) {
		t.Errorf("after a restart there are %d entries", n)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(p.flags["daemon.state_dir"], "audit", "audit.log"), 100); err != nil {
		t.Fatal(err)
	}
	if verdict, _ := doctor.VerifyAudit(p.flags["daemon.state_dir"]); verdict.Sound {
		t.Error("a cut log looks sound")
	}
	c, _ = p.start(t)
	found := ""
	for e, err := range c.Events(ctx, 0, false) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Code == gpu.EventAudit && e.Severity == gpu.Serious {
			found = e.Text
		}
	}
	if !strings.Contains(found, "The audit log lost entries") {
		t.Errorf("told %q", found)
	}
}

// Without a log, nobody's things are changed by others, and everybody goes on
// with their own.
func TestAuditThatCannotBeWritten(t *testing.T) {
	p := newPlace(t, "sim:1")
	p.env = []string{"BERTH_TOKEN=" + token}
	state := p.flags["daemon.state_dir"]
	if err := errors.Join(os.MkdirAll(state, 0o700), os.WriteFile(filepath.Join(state, "audit"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	c, _ := p.start(t)
	ctx := t.Context()
	other := withToken(t, p, token)
	if _, err := other.Acquire(ctx, api.LeaseRequest{ID: "other", Memory: 1024, Slots: gpu.Some(0), Binding: "named"}); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, err error) {
		t.Helper()
		problem := (*api.Problem)(nil)
		if !errors.As(err, &problem) || problem.Code != "audit_unavailable" || problem.Status != 503 || !strings.Contains(problem.Detail, "Make room on the disk") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := c.Release(ctx, "other", 0)
	refused("release", err)
	_, err = c.Resize(ctx, "other", api.Resize{Memory: 2048})
	refused("resize", err)
	_, err = c.Trim(ctx, "other")
	refused("trim", err)
	_, err = c.SetConfig(ctx, []byte(`{"temp_optimal": 61}`))
	refused("configure", err)
	_, err = c.ReloadConfig(ctx)
	refused("reload", err)
	_, err = c.StopMonitoring(ctx)
	refused("monitor", err)
	held, err := c.Lease(ctx, "other")
	if err != nil || held.Parts[0].Memory != 1024 {
		t.Errorf("the lease is %+v, %v", held, err)
	}
	if settings, err := c.Config(ctx); err != nil || !strings.Contains(string(settings), `"temp_optimal":65`) {
		t.Errorf("the configuration is %s, %v", settings, err)
	}
	if _, err := os.Stat(filepath.Join(state, inventory.Saved)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a change was saved: %v", err)
	}
	if ready, err := c.Ready(ctx); err != nil || ready.Audit == "" {
		t.Errorf("ready says %+v, %v", ready, err)
	}

	// What is one's own goes on, as do refusals.
	if _, err := c.Acquire(ctx, api.LeaseRequest{ID: "own", Memory: 1024, Slots: gpu.Some(0), Binding: "named"}); err != nil {
		t.Error(err)
	}
	if _, err := c.Release(ctx, "own", 0); err != nil {
		t.Error(err)
	}
	if _, err := withToken(t, p, "wrong").Status(ctx, ""); err == nil {
		t.Error("a wrong token is right")
	}

	// It mends itself.
	if err := os.Remove(filepath.Join(state, "audit")); err != nil {
		t.Fatal(err)
	}
	for _, err = c.Release(ctx, "other", 0); err != nil && !t.Failed(); _, err = c.Release(ctx, "other", 0) { // it is tried once a second
		refused("release", err)
	}
	if diff := cmp.Diff([]string{"done: socket release lease/token other"}, inAudit(t, c)); diff != "" {
		t.Error(diff)
	}
}
