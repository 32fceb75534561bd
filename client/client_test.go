package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
)

// TestRoutes holds every method against the request it must make, and checks
// that the answer comes back.
func TestRoutes(t *testing.T) {
	since := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		call   func(context.Context, *Client) (any, error)
		want   string // method, path and query, body
		answer string
		got    any
	}{
		{"status", func(ctx context.Context, c *Client) (any, error) { return c.Status(ctx, "1") },
			"GET /api/gpu/status?gpu=1 ", `{"state":"NORMAL"}`, api.Status{State: "NORMAL"}},
		{"first status", func(ctx context.Context, c *Client) (any, error) { return c.Status(ctx, "") },
			"GET /api/gpu/status ", `{"state":"NORMAL"}`, api.Status{State: "NORMAL"}},
		{"status all", func(ctx context.Context, c *Client) (any, error) { return c.StatusAll(ctx) },
			"GET /api/gpu/status/all ", `{"host":"h"}`, api.StatusAll{Host: "h"}},
		{"metrics", func(ctx context.Context, c *Client) (any, error) { return c.Metrics(ctx, "a&b") },
			"GET /api/gpu/metrics?gpu=a%26b ", `{}`, api.Samples{}},
		{"history", func(ctx context.Context, c *Client) (any, error) {
			return c.History(ctx, HistoryQuery{GPU: "0", Since: since, Limit: 3})
		}, "GET /api/gpu/metrics/history?gpu=0&limit=3&since=2026-01-31T12%3A00%3A00Z ", `{}`, api.Samples{}},
		{"all history", func(ctx context.Context, c *Client) (any, error) { return c.History(ctx, HistoryQuery{}) },
			"GET /api/gpu/metrics/history ", `{}`, api.Samples{}},
		{"trend", func(ctx context.Context, c *Client) (any, error) { return c.Trend(ctx, "0", 90*time.Second) },
			"GET /api/gpu/temperature/trend?gpu=0&minutes=1.5 ", `{"direction":"rising"}`, api.Trend{Direction: "rising"}},
		{"available", func(ctx context.Context, c *Client) (any, error) { return c.Available(ctx) },
			"GET /api/gpu/memory/available ", `{}`, api.Available{}},
		{"throttle", func(ctx context.Context, c *Client) (any, error) { return c.Throttle(ctx, "") },
			"GET /api/gpu/throttle/status ", `{"reason":"r"}`, api.Throttle{Reason: "r"}},
		{"start", func(ctx context.Context, c *Client) (any, error) { return c.StartMonitoring(ctx) },
			"POST /api/gpu/monitoring/start ", `{"running":true}`, api.Monitoring{Running: true}},
		{"stop", func(ctx context.Context, c *Client) (any, error) { return c.StopMonitoring(ctx) },
			"POST /api/gpu/monitoring/stop ", `{"changed":true}`, api.Monitoring{Changed: true}},
		{"config", func(ctx context.Context, c *Client) (any, error) { return c.Config(ctx) },
			"GET /api/gpu/config ", `{"new_field":1}`, json.RawMessage(`{"new_field":1}`)},
		{"set config", func(ctx context.Context, c *Client) (any, error) {
			return c.SetConfig(ctx, json.RawMessage(`{"temp_optimal":60}`))
		}, `PUT /api/gpu/config application/json{"temp_optimal":60}`, `{}`, json.RawMessage(`{}`)},
		{"config fields", func(ctx context.Context, c *Client) (any, error) { return c.ConfigFields(ctx) },
			"GET /api/gpu/config/sources ", `{"fields":[{"field":"gpu.temp_optimal"}]}`,
			api.ConfigFields{Fields: []api.ConfigField{{Field: "gpu.temp_optimal"}}}},
		{"ping", func(ctx context.Context, c *Client) (any, error) { return nil, c.Ping(ctx) },
			"GET /healthz ", "ok\n", nil},
		{"ready", func(ctx context.Context, c *Client) (any, error) { return c.Ready(ctx) },
			"GET /readyz ", `{"ready":true}`, api.Ready{Ready: true}},
		{"openapi", func(ctx context.Context, c *Client) (any, error) { return c.OpenAPI(ctx) },
			"GET /openapi.json ", `{"openapi":"3.1.0"}`, json.RawMessage(`{"openapi":"3.1.0"}`)},
		{"prometheus", func(ctx context.Context, c *Client) (any, error) { return c.Prometheus(ctx) },
			"GET /metrics ", "# HELP\n", []byte("# HELP\n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked string
			daemon := newClient(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				asked = r.Method + " " + r.URL.RequestURI() + " " + r.Header.Get("Content-Type") + string(body)
				_, _ = w.Write([]byte(c.answer))
			})
			got, err := c.call(t.Context(), daemon)
			if err != nil {
				t.Fatal(err)
			}
			if asked != c.want {
				t.Errorf("asked %q, want %q", asked, c.want)
			}
			if !reflect.DeepEqual(got, c.got) {
				t.Errorf("answer %v, want %v", got, c.got)
			}
		})
	}
}

func TestAnswersThatAreErrors(t *testing.T) {
	for _, c := range []struct {
		name        string
		contentType string
		status      int
		body        string
		want        string // of the error
	}{
		{"problem", "application/problem+json", 422, `{"code":"invalid","detail":"It is wrong.","fields":[{"field":"gpu","detail":"no"}]}`,
			"It is wrong.\n  gpu: no"},
		{"problem with parameters", "application/problem+json; charset=utf-8", 404, `{"detail":"Not there."}`, "Not there."},
		{"half a problem", "application/problem+json", 500, `{"detail":"It`, "GET /api/gpu/status/all: read the answer: unexpected EOF"},
		{"another server", "text/html", 404, `<html>`,
			"GET /api/gpu/status/all: answered 404 Not Found, and not as a berth daemon would: is something else listening there?"},
		{"half an answer", "application/json", 200, `{"host":`, "GET /api/gpu/status/all: read the answer: unexpected EOF"},
		{"no answer", "application/json", 200, ``, "GET /api/gpu/status/all: read the answer: EOF"},
		{"not JSON", "text/html", 200, `<html>`,
			"GET /api/gpu/status/all: read the answer: invalid character '<' looking for beginning of value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			daemon := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.contentType)
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			})
			_, err := daemon.StatusAll(t.Context())
			if err == nil || err.Error() != c.want {
				t.Fatalf("error %q, want %q", err, c.want)
			}
			problem := (*api.Problem)(nil)
			if isProblem := errors.As(err, &problem); isProblem && problem.Status != c.status {
				t.Errorf("status %d, want %d", problem.Status, c.status)
			}
		})
	}
}

func TestTokenGoesToURLOnly(t *testing.T) {
	var sent string
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent = r.Header.Get("Authorization") })
	tcp := httptest.NewServer(handler)
	defer tcp.Close()
	overURL, err := New(Options{URL: strings.TrimPrefix(tcp.URL, "http://") + "/", Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer overURL.Close()
	if err := overURL.Ping(t.Context()); err != nil || sent != "Bearer secret" {
		t.Errorf("over a URL: sent %q, error %v", sent, err)
	}
	overSocket, err := New(Options{Socket: serveUnix(t, handler), Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer overSocket.Close()
	if err := overSocket.Ping(t.Context()); err != nil || sent != "" {
		t.Errorf("over a socket: sent %q, error %v", sent, err)
	}
}

func TestURLKeepsItsPath(t *testing.T) {
	var path string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { path = r.URL.Path }))
	defer server.Close()
	c, err := New(Options{URL: server.URL + "/behind/a/proxy/"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Ping(t.Context()); err != nil || path != "/behind/a/proxy/healthz" {
		t.Errorf("asked %q, error %v", path, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, o := range map[string]Options{
		"nothing":        {},
		"two places":     {Socket: "/s", URL: "http://h"},
		"another scheme": {URL: "ftp://h"},
		"no host":        {URL: "http://"},
		"not a URL":      {URL: "http://[::1"},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Options{Timeout: 10 * time.Second, Transport: Through(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		err = c.Ping(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 10s") {
			t.Errorf("error %v", err)
		}
		if waited := time.Since(start); waited != 10*time.Second {
			t.Errorf("waited %s", waited)
		}
	})
}

// newClient is a client of a server over TCP that f answers for.
func newClient(t *testing.T, f http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	c, err := New(Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// serveUnix serves h on a new socket and returns its path.
func serveUnix(t *testing.T, h http.Handler) string {
	t.Helper()
	path := filepath.Join(shortDir(t), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }()
	return path
}

// shortDir is a directory whose path leaves room for a socket: their paths are
// limited to about a hundred bytes, and t.TempDir can be longer.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
