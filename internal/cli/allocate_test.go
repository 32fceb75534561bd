package cli_test

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/cli"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/daemon/daemontest"
)

// counter stands between a command and the daemon, and notes the calls.
type counter struct {
	socket string
	mu     sync.Mutex
	calls  []string
}

func countCalls(t *testing.T, socket string) *counter {
	t.Helper()
	c := &counter{socket: filepath.Join(t.TempDir(), "s")}
	listener, err := net.Listen("unix", c.socket)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "berth"})
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	proxy.Transport = transport
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.calls = append(c.calls, r.Method+" "+r.URL.Path)
		c.mu.Unlock()
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); transport.CloseIdleConnections() })
	return c
}

// take returns the calls since the last time.
func (c *counter) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = nil
	return calls
}

// An allocation is one call, unless the name of the service is taken. Run again,
// it finds what stands.
func TestAllocateMakesOneCall(t *testing.T) {
	d, err := daemontest.Start(daemontest.Options{Devices: "sim:2"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Stop() })
	calls := countCalls(t, d.Socket)
	const allocate, leases = "POST /api/gpu/memory/allocate", "GET /api/leases"
	for _, c := range []struct {
		args, said string
		want       []string
	}{
		{"embedder 4GiB --gpu 1", "embedder holds 4 GiB on GPU 1, ", []string{allocate}},
		{"other 4GiB --timeout 1m", "other holds 4 GiB on GPU ", []string{allocate}},
		{"other 4GiB --id mine --json", `"id": "mine"`, []string{allocate}},
		{"embedder 4GiB --gpu 1", "embedder stands already: it holds 4 GiB on GPU 1, ", []string{allocate}},
		{"embedder 8GiB", "embedder was resized from 4 GiB: it holds 8 GiB on GPU 1, ", []string{allocate}},
		{"embedder 8GiB --another --gpu 0", "embedder-2 holds 8 GiB on GPU 0, ", []string{allocate, leases, allocate}},
		{"embedder 8GiB --gpu 0", "embedder-2 stands already: it holds 8 GiB on GPU 0, ", []string{allocate}},
		{"other 4GiB --id mine", "mine stands already: it holds 4 GiB on GPU ", []string{allocate}},
	} {
		var out, errs bytes.Buffer
		code := cli.Run(t.Context(), cli.Env{Env: console.Env{
			Out: &out, Err: &errs, Now: time.Now, Terminal: func() (int, bool) { return 0, false },
			Getenv: func(name string) string { return map[string]string{"BERTH_SOCKET": calls.socket}[name] },
		}}, append([]string{"allocate"}, strings.Fields(c.args)...))
		if code != 0 || !strings.Contains(out.String(), c.said) {
			t.Errorf("allocate %s: exit code %d, said %s%s", c.args, code, &out, &errs)
		}
		// A command that has no answer after a moment asks what it waits for. On a
		// machine that is busy, any of these may.
		got := slices.DeleteFunc(calls.take(), func(call string) bool { return strings.HasSuffix(call, "/explain") })
		if !slices.Equal(got, c.want) {
			t.Errorf("allocate %s makes the calls %q, want %q", c.args, got, c.want)
		}
	}
}
