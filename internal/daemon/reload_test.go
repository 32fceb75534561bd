package daemon

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
)

// edit writes the configuration file of a place.
func (p *place) edit(t *testing.T, text string) {
	t.Helper()
	p.file = filepath.Join(p.dir, "berth.yaml")
	if err := os.WriteFile(p.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// refusal is why something was not done.
func refusal(t *testing.T, err error) *api.Problem {
	t.Helper()
	p := (*api.Problem)(nil)
	if !errors.As(err, &p) {
		t.Fatalf("answered with %v, want a problem", err)
	}
	return p
}

func put(t *testing.T, c *client.Client, body string) {
	t.Helper()
	if _, err := c.SetConfig(t.Context(), json.RawMessage(body)); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
}

// An edited file holds from the reload on. The answer says what changed, and
// which settings of the file a change at run time overrides.
func TestReloadSaysWhatChanged(t *testing.T) {
	p := newPlace(t, "sim:1")
	p.edit(t, "gpu:\n  temp_optimal: 61\n")
	c, _ := p.start(t)
	put(t, c, `{"temp_normal": 71, "temp_critical": 88}`)

	p.edit(t, "gpu:\n  temp_optimal: 60\n  temp_normal: 72\nservices:\n  embedding_service: {max_memory_mb: 2GiB}\noptimization: {allocation_timeout: 5}\n")
	got, err := c.ReloadConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"gpu.temp_optimal = 60 (was 61)", "optimization.allocation_timeout = 5 (was 30)", "services.embedding-service.max_memory_mb = 2048 (was not set)"}
	if diff := cmp.Diff(want, got.Changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	if o := got.Overridden; len(o) != 1 || o[0].Field != "gpu.temp_normal" || o[0].Value != "71" || o[0].InFile != "72" || o[0].File != p.file+":3" || !o[0].AtRunTime {
		t.Errorf("overridden are %+v", o)
	}
	_, err = c.Allocate(t.Context(), api.Allocate{ID: "a", Service: "embedding-service", Memory: 4096})
	if p := refusal(t, err); p.Code != "over_service_maximum" {
		t.Errorf("the limit of the service does not hold: %+v", p)
	}

	put(t, c, `{"temp_normal": null}`)
	if got, err := c.ReloadConfig(t.Context()); err != nil || len(got.Changed) != 0 || len(got.Overridden) != 0 {
		t.Errorf("nothing is left to change or to override: %+v, %v", got, err)
	}
	if fields := sourcesOf(t, c); fields["gpu.temp_normal"] != "72 "+p.file+":3" || fields["gpu.temp_critical"] != "88 saved at run time" {
		t.Errorf("the sources are %v", fields)
	}
}

func sourcesOf(t *testing.T, c *client.Client) map[string]string {
	t.Helper()
	all, err := c.ConfigFields(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{}
	for _, f := range all.Fields {
		sources[f.Field] = f.Value + " " + f.Source
	}
	return sources
}

// A file with one bad line, and one that changes what needs a restart, change
// nothing, and the answer says which line or setting it is.
func TestReloadOfABadFileChangesNothing(t *testing.T) {
	p := newPlace(t, "sim:1")
	const good = "gpu:\n  temp_optimal: 61\nservices:\n  a: {priority: 1}\n"
	p.edit(t, good)
	c, _ := p.start(t)
	before := sourcesOf(t, c)
	for _, bad := range []struct{ text, code, says string }{
		{"gpu:\n  temp_optimal: 60\n  temp_normal: warm\nservices:\n  b: {priority: 2}\n", "invalid_file", p.file + ":3: must be a number"},
		{"gpu:\n  temp_optimal: 60\n temp_normal: 70\n", "invalid_file", p.file + ":"},
		{"gpu:\n  temp_optimal: 80\n", "invalid_file", p.file + ":2: 80 is not below temp_normal"},
		{"services:\n  a_b: {}\n  a-b: {}\n", "invalid_file", p.file + ":3: a_b in line 2 and a-b are the same service"},
		{"gpu:\n  temp_optimal: 60\ndaemon:\n  log_level: warn\n", "not_reloaded", "daemon.log_level = warn (was info) needs a restart"},
	} {
		p.edit(t, bad.text)
		_, err := c.ReloadConfig(t.Context())
		if got := refusal(t, err); got.Code != bad.code || !strings.Contains(got.Error()+detailsOf(got), bad.says) {
			t.Errorf("%q: refused with %s %s%s, want %s %s", bad.text, got.Code, got.Error(), detailsOf(got), bad.code, bad.says)
		}
		if diff := cmp.Diff(before, sourcesOf(t, c)); diff != "" {
			t.Errorf("%q changed:\n%s", bad.text, diff)
		}
	}
	if err := os.Remove(p.file); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReloadConfig(t.Context()); refusal(t, err).Code != "not_reloaded" {
		t.Errorf("a file that is gone: %v", err)
	}
}

func detailsOf(p *api.Problem) (text string) {
	for _, f := range p.Fields {
		text += "\n" + f.Field + ": " + f.Detail
	}
	return text
}

// Services, hooks, timeouts and the rule for unknown services change at run
// time, take effect at once, and survive a restart.
func TestEverySectionChangesAtRunTime(t *testing.T) {
	told := make(chan string, 64)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e gpu.Event
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		told <- e.Text
	}))
	t.Cleanup(receiver.Close)
	p := newPlace(t, "sim:1")
	c, stop := p.start(t)
	put(t, c, `{"hooks": {"chat": {"url": "`+receiver.URL+`", "codes": ["config"], "severity": "info"}}}`)
	put(t, c, `{"unknown_services": "refuse", "optimization": {"allocation_timeout": 7}, "services": {"render_farm": {"min_memory_mb": 64, "quota": {"memory_mb": "1GiB"}}, "known": {}}}`)
	for text := ""; !strings.Contains(text, "services.render-farm.min_memory_mb = 64"); {
		text = <-told // the hook that was added is told of the second change
	}
	holds := func(c *client.Client) {
		t.Helper()
		for request, code := range map[*api.Allocate]string{
			{ID: "a", Service: "stranger", Memory: 10}:      "unknown_service",
			{ID: "b", Service: "render-farm", Memory: 2048}: "over_quota",
		} {
			if _, err := c.Allocate(t.Context(), *request); refusal(t, err).Code != code {
				t.Errorf("%s: %v, want %s", request.Service, err, code)
			}
		}
		l, err := c.Allocate(t.Context(), api.Allocate{ID: "c", Service: "render_farm", Memory: 1})
		if err != nil || l.Parts[0].Memory != 64 || l.Holder.Service != "render-farm" {
			t.Errorf("granted %+v, %v", l, err)
		}
		if _, err := c.Allocate(t.Context(), api.Allocate{ID: "d", Service: "known", Memory: 1}); err != nil {
			t.Error(err)
		}
		for _, id := range []string{"c", "d"} {
			if _, err := c.Deallocate(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		if got := sourcesOf(t, c)["optimization.allocation_timeout"]; got != "7 saved at run time" {
			t.Errorf("allocation_timeout is %s", got)
		}
	}
	holds(c)
	c.Close()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	c, _ = p.start(t)
	holds(c)
	whole, err := c.Config(t.Context())
	if err != nil || strings.Contains(string(whole), receiver.URL) {
		t.Errorf("the configuration shows the address of a hook: %s, %v", whole, err)
	}
	put(t, c, string(whole)) // an answer can be sent back
	put(t, c, `{"services": null, "hooks": null, "unknown_services": null, "optimization": null}`)
	for field, source := range sourcesOf(t, c) {
		if strings.HasSuffix(source, "saved at run time") {
			t.Errorf("%s is still %s", field, source)
		}
	}
}

// Somebody with a token cannot make the daemon run programs.
func TestATokenSetsNoCommands(t *testing.T) {
	s := newPlace(t, "sim:1").open(t, t.Context()).settings
	const body = `{"hooks": {"h": {"command": ["true"]}}}`
	token := access.Actor{UID: access.NoUID, Token: access.DaemonToken, Door: access.TCP, Role: access.Admin}
	if err := s.Change(t.Context(), token, []byte(body)); err == nil || !strings.Contains(err.Error(), "hooks.h.command: says what the daemon runs") {
		t.Errorf("with a token: %v", err)
	}
	if err := s.Change(t.Context(), token, []byte(`{"hooks": {"u": {"url": "https://example.com"}}, "temp_optimal": 60}`)); err != nil {
		t.Errorf("with a token, an address: %v", err)
	}
	if err := s.Change(t.Context(), access.Daemon(), []byte(body)); err != nil {
		t.Errorf("without one: %v", err)
	}
	if err := s.Change(t.Context(), token, []byte(`{"hooks": {"h": {"command": null, "url": "https://example.com"}}}`)); err == nil {
		t.Error("with a token, a command was taken away")
	}
}

// A name that looks like that of a configured service is refused. A lease under
// such a name, from before the service was configured, stands.
func TestServicesThatLookAlike(t *testing.T) {
	p := newPlace(t, "sim:1")
	c, _ := p.start(t)
	ask := func(id, service string) error {
		_, err := c.Allocate(t.Context(), api.Allocate{ID: id, Service: service, Memory: 64, Binding: "named"})
		return err
	}
	if err := ask("before", "Embedder"); err != nil {
		t.Fatal(err)
	}
	put(t, c, `{"services": {"embedder": {"max_memory_mb": 100}}}`)
	for _, service := range []string{"Embedder", "embеdder", "EMBEDDER"} {
		if got := refusal(t, ask("after", service)); got.Code != "lookalike_service" || !strings.Contains(got.Error(), "configured service embedder") {
			t.Errorf("%s: %+v", service, got)
		}
	}
	if err := ask("after", "embedder"); err != nil {
		t.Error(err)
	}
	all, err := c.Leases(t.Context())
	if err != nil || len(all.Leases) != 2 {
		t.Errorf("%d leases stand: %v", len(all.Leases), err)
	}
}
