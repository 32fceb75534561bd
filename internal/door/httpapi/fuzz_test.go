package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/api/wire"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/lease"
)

// recorded is a connection of somebody who sends everything at once, waits a
// moment for the answers, and goes. What the server writes is kept.
type recorded struct {
	in     *bytes.Reader
	who    doorkeeper.Identity
	busy   *atomic.Int64 // requests under way
	closed chan struct{}
	once   sync.Once

	mu  sync.Mutex // guards out
	out bytes.Buffer
}

func (c *recorded) Read(b []byte) (int, error) {
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	default:
	}
	for turns := 0; c.in.Len() == 0 && c.busy.Load() > 0 && turns < 2000; turns++ {
		runtime.Gosched()
	}
	return c.in.Read(b)
}

func (c *recorded) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(b)
}

func (c *recorded) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}
func (c *recorded) LocalAddr() net.Addr              { return &net.UnixAddr{Name: "here", Net: "unix"} }
func (c *recorded) RemoteAddr() net.Addr             { return &net.UnixAddr{Name: "there", Net: "unix"} }
func (c *recorded) SetDeadline(time.Time) error      { return nil }
func (c *recorded) SetReadDeadline(time.Time) error  { return nil }
func (c *recorded) SetWriteDeadline(time.Time) error { return nil }

// handed is a listener whose connections are handed to it.
type handed chan net.Conn

func (h handed) Accept() (net.Conn, error) {
	c, open := <-h
	if !open {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (h handed) Close() error   { return nil }
func (h handed) Addr() net.Addr { return &net.UnixAddr{Name: "here", Net: "unix"} }

// watched notes the statuses of a server's answers.
type watched struct {
	http.ResponseWriter
	status func(int)
}

func (w watched) WriteHeader(status int) {
	w.status(status)
	w.ResponseWriter.WriteHeader(status)
}
func (w watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// target is the API behind a real HTTP server.
type target struct {
	*door
	conns   handed
	served  sync.WaitGroup // requests
	busy    atomic.Int64   // the same, as a number
	callers []doorkeeper.Identity

	mu     sync.Mutex // guards failed
	failed []string   // requests that were answered with a fault of the daemon
}

func newTarget(f *testing.F) *target {
	s := &target{door: open(f, "2xh200"), conns: make(handed)}
	s.Log = slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelError}))
	s.Settings = reloadable{s.settings}
	me := self(f)
	admin, other := me, holding(lease.Holder{UID: 4711, User: "other"}, access.User)
	admin.Role = access.Admin
	s.callers = []doorkeeper.Identity{me, admin, other, doorkeeper.IdentityFor(viewer())}
	server := &http.Server{
		Handler: http.HandlerFunc(s.handle), ErrorLog: log.New(s, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return withIdentity(ctx, c.(*recorded).who) },
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(s.conns) }()
	f.Cleanup(func() {
		close(s.conns)
		<-done
		_ = server.Close()
	})
	return s
}

// reloadable is a configuration that has a file, which says nothing new.
type reloadable struct{ *memorySettings }

func (reloadable) Reload(access.Actor) (api.ConfigReload, error) { return api.ConfigReload{}, nil }

func (s *target) handle(w http.ResponseWriter, r *http.Request) {
	s.served.Add(1)
	s.busy.Add(1)
	defer s.served.Done()
	defer s.busy.Add(-1)
	s.server.ServeHTTP(watched{w, func(status int) {
		if status >= 500 {
			s.fail(fmt.Sprintf("%s %q was answered with %d", r.Method, r.URL, status))
		}
	}}, r)
}

func (s *target) fail(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = append(s.failed, why)
}

// Write takes a line of the log, which has only faults of the daemon, or of the
// server, which reports panics among other things.
func (s *target) Write(line []byte) (int, error) {
	if text := string(line); strings.HasPrefix(text, "time=") || strings.Contains(text, "panic") {
		s.fail(text)
	}
	return len(line), nil
}

// play sends what a caller says, and returns the answers.
func (s *target) play(t *testing.T, who byte, text []byte) []byte {
	t.Helper()
	c := &recorded{in: bytes.NewReader(text), who: s.callers[int(who)%len(s.callers)], busy: &s.busy, closed: make(chan struct{})}
	s.conns <- c
	select {
	case <-c.closed:
	case <-time.After(time.Minute):
		panic(fmt.Sprintf("the daemon does not end a connection with %q", text)) // with the stacks of all goroutines
	}
	s.served.Wait()
	s.Streams.Wait()
	s.mu.Lock()
	failed := s.failed
	s.failed = nil
	s.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(failed) > 0 {
		t.Errorf("%s\n%.2000s", strings.Join(failed, "\n"), c.out.Bytes())
	}
	return c.out.Bytes()
}

// empty releases every lease, so that the next input finds what this one found.
func (s *target) empty(t *testing.T) {
	t.Helper()
	if leases, waiting := s.Ledger.Len(); waiting > 0 {
		t.Errorf("%d requests of a caller who has gone wait, beside %d leases", waiting, leases)
	}
	for _, held := range s.Ledger.View().Leases {
		_, _ = s.Ledger.Release(context.Background(), lease.Name{User: held.Holder.User, ID: held.ID}, held.Fence, s.callers[1].Actor) // one with children takes them along
	}
	if leases, _ := s.Ledger.Len(); leases > 0 {
		t.Errorf("%d leases cannot be released", leases)
	}
}

// FuzzRequest sends whole requests, well formed or not. The daemon must answer
// without a fault of its own, and end when the caller has gone.
func FuzzRequest(f *testing.F) {
	s := newTarget(f)
	bodies := map[string]string{
		"POST /api/leases":                     `{"id":"a","memory_mb":1000,"gpus":2,"slots":1,"priority":3,"timeout_seconds":5,"ttl_seconds":60,"where":"name~H200","policy":"pack","prefer":0}`,
		"POST /api/gpu/memory/allocate":        `{"allocation_id":"a","memory_mb":1000,"service":"s","gpu":1}`,
		"POST /api/gpu/memory/deallocate":      `{"allocation_id":"a"}`,
		"POST /api/plans":                      `{"pipelines":[{"name":"p","memory_mb":100,"slots":1,"runs":[{"name":"r","args":["a"]}]}]}`,
		"POST /api/plans/run":                  `{"plan":{"pipelines":[{"name":"job","memory_mb":10,"slots":1,"runs":[{"name":"job"}]}]},"enforce":"auto","timeout_seconds":0}`,
		"PUT /api/gpu/config":                  `{"temp_optimal":60,"devices":{"GPU-1":{"max_pipelines":3}},"services":{"a":{"users":["x"]}}}`,
		"POST /api/leases/{id}/renew":          `{"fence":1,"ttl_seconds":60}`,
		"POST /api/leases/{id}/scope":          `{"cgroups":["a.scope"]}`,
		"PUT /api/batches/{id}":                `{"records":10,"done":3}`,
		"POST /api/services/{name}/operations": `{"operations":3,"seconds":2}`,
		"POST /api/measurements":               `{"runs":[{"name":"a","peak_mb":10,"seconds":1}]}`,
		"POST /api/leases/{id}/resize":         `{"memory_mb":2000,"fence":1}`,
		"POST /api/leases/{id}/bind":           `{"pid":1}`,
		"POST /api/leases/{id}/trim":           `{"memory_mb":10}`,
		"POST /api/leases/adopt":               `{"pid":1,"id":"b"}`,
		"POST /api/leases/explain":             `{"memory_mb":10}`,
	}
	routes := slices.Clone(s.routes)
	slices.Sort(routes)
	for i, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		body := bodies[route]
		if body == "" && method != http.MethodGet && method != http.MethodDelete {
			body = "{}"
		}
		path = strings.NewReplacer("{id}", "a", "{name}", "s", "{gpu}", "0").Replace(path)
		f.Add(byte(i%2), fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body))
	}
	for _, seed := range []string{
		"GET /api/events?follow=true&gpu=0&code=critical&severity=warning HTTP/1.1\r\nHost: a\r\nLast-Event-ID: 3\r\n\r\n",
		"GET /api/gpu/metrics/history?gpu=1&minutes=3 HTTP/1.1\r\nHost: a\r\n\r\nGET /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST /api/leases HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD /api/leases HTTP/1.0\r\n\r\n", "GET http://%41/ HTTP/1.1\r\n\r\n", "\x16\x03\x01\x00",
		"DELETE /api/leases/a%2Fb?fence=1 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
	} {
		f.Add(byte(1), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, who byte, text []byte) {
		s.play(t, who, text)
		s.empty(t)
	})
}

// upgradeRequest begins a lease stream.
const upgradeRequest = "POST " + wire.Path + " HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: " + wire.Protocol + "\r\n\r\n"

// FuzzStream sends frames over a lease stream. No answer may report a fault of
// the daemon, and nothing may stay behind when the caller has gone.
func FuzzStream(f *testing.F) {
	frame := func(kind wire.Kind, number uint32, body string) []byte {
		return wire.Append(nil, kind, number, text(body))
	}
	f.Add(byte(0), frame(wire.Acquire, 1, `{"id":"a","memory_mb":1000,"timeout_seconds":0}`))
	f.Add(byte(0), slices.Concat(frame(wire.Acquire, 1, `{"id":"a","memory_mb":10,"ttl_seconds":60}`), frame(wire.Renew, 2, `{"id":"a","fence":1,"ttl_seconds":60}`), frame(wire.Release, 3, `{"id":"a","fence":1}`)))
	f.Add(byte(1), slices.Concat(frame(wire.Acquire, 7, `{"memory_mb":900000,"timeout_seconds":600}`), frame(wire.Cancel, 7, "")))
	f.Add(byte(2), frame(wire.Acquire, 1, `{"binding":"process","gpus":2,"where":"memory>1","unknown":[1]}`))
	f.Add(byte(3), frame(wire.Done, 0, "x"))
	s := newTarget(f)
	f.Fuzz(func(t *testing.T, who byte, frames []byte) {
		out := s.play(t, who, append([]byte(upgradeRequest), frames...))
		if _, rest, upgraded := bytes.Cut(out, []byte("\r\n\r\n")); upgraded && bytes.HasPrefix(out, []byte("HTTP/1.1 101 ")) {
			if bytes.Contains(rest, []byte(`"status":5`)) {
				t.Errorf("a frame was answered with a fault of the daemon: %.2000q", rest)
			}
		}
		s.empty(t)
	})
}
