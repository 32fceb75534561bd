package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"runtime"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/problems"
)

//go:embed docs.html
var docsPage []byte

// docsPolicy returns the policy of a page that runs and shows only its own content: the
// browser knows its style and its script by their hashes. The page reads from the
// daemon.
func docsPolicy(page []byte) string {
	hash := func(tag string) string {
		_, rest, _ := bytes.Cut(page, []byte("<"+tag+">"))
		text, _, _ := bytes.Cut(rest, []byte("</"+tag+">"))
		sum := sha256.Sum256(text)
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; connect-src 'self'; style-src " + hash("style") + "; script-src " + hash("script") +
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

func registerDaemon(s *server) {
	op := func(id, path, summary string) huma.Operation { return on("GET "+path, "daemon", id, summary, "") }
	s.raw(op("healthz", "/healthz", "Whether the daemon is alive"), "text/plain", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	serve(s, op("readyz", "/readyz", "Whether the daemon can do its work; 503 while it cannot"), s.ready)
	serve(s, op("version", "/api/version", "The version of the daemon, and what it was built with"), s.version)
	s.raw(op("prometheus", "/metrics", "Metrics for Prometheus"), "text/plain", s.metrics)

	text := sync.OnceValue(func() []byte {
		b, err := json.MarshalIndent(s.api.OpenAPI(), "", "  ")
		if err != nil {
			panic(err) // cannot happen: a test encodes it
		}
		return b
	})
	s.raw(op("openapi", "/openapi.json", "This description, as OpenAPI 3.1"), "application/json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text())
	})
	policy := docsPolicy(docsPage)
	page := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy)
		_, _ = w.Write(docsPage)
	}
	s.raw(op("docs", "/docs", "This description, for people"), "text/html", page)
}

func (s *server) ready(context.Context, *struct{}) (*answer[api.Ready], error) {
	if err := s.Ready(); err != nil {
		return nil, problems.New(http.StatusServiceUnavailable, "not_ready", "%v", err)
	}
	text := "ready"
	if s.Contained != "" {
		text = "Ready, with limits. " + s.Contained
	}
	now := api.Ready{Ready: true, Devices: len(s.Monitor.Readings()), Text: text, Faults: s.Faults.Text()}
	if s.Damaged != nil {
		now.Damaged = s.Damaged()
	}
	if s.Unheard != nil {
		if why := s.Unheard(); why != nil {
			now.Listen = *why
		}
	}
	switch {
	case s.Audit == nil:
	case s.Audit.Trouble() != nil:
		now.Audit = "the audit log cannot be written, so the daemon refuses what changes something for others"
	case s.Audit.Lost():
		now.Audit = "entries of the audit log were missing or changed when the daemon started: berth audit verify says which"
	}
	if s.Remembered != nil {
		now.Past = s.Remembered()
	}
	return ok(now)
}

func (s *server) version(context.Context, *struct{}) (*answer[api.Version], error) {
	return ok(api.Version{Version: s.Version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH})
}

// metrics serves the Prometheus page, without names for viewers. A scraper gets names:
// it reads nothing but this page, and for people who may see them.
func (s *server) metrics(w http.ResponseWriter, r *http.Request) {
	if sight := sightOf(r.Context()); s.Nameless != nil && sight.Role != access.Scraper && !sight.names() {
		s.Nameless.ServeHTTP(w, r)
		return
	}
	s.Metrics.ServeHTTP(w, r)
}
