package webui

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

// script is long enough to be compressed.
var script = strings.Repeat("console.log('berth');\n", 100)

func builtPage() fstest.MapFS {
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	return fstest.MapFS{
		"absent.html":                 text("<p>absent</p>"),
		"index.html":                  text(`<script type="module" src="./assets/index-3f2A9c1_.js"></script>`),
		"favicon.svg":                 text("<svg/>"),
		"assets/index-3f2A9c1_.js":    text(script),
		"assets/index-3f2A9c1_.js.br": text("brotli"),
		"assets/style.css":            text("a{}"),
		"assets/font-0123abcd.woff2":  text("font"),
		"assets/what-0123abcd.xyz":    text("<html><script>alert(1)</script>"),
		"secret.txt":                  text("secret"),
	}
}

// handler serves a page as the REST door does.
func handler(p *Page) http.Handler {
	mux := http.NewServeMux()
	for _, r := range p.Routes() {
		pattern := r.Operation.Path
		if pattern == "/" {
			pattern = "/{$}"
		}
		mux.HandleFunc("GET "+pattern, r.Serve)
	}
	return mux
}

func ask(h http.Handler, method, path string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, "http://127.0.0.1:8000/", nil)
	r.URL.Path = path
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFiles(t *testing.T) {
	h := handler(open(builtPage()))
	for _, c := range []struct {
		path, mediaType, cache, holds string
	}{
		{"/", "text/html; charset=utf-8", "no-cache", "index-3f2A9c1_.js"},
		{"/favicon.svg", "image/svg+xml", "no-cache", "<svg/>"},
		{"/assets/index-3f2A9c1_.js", "text/javascript; charset=utf-8", "public, max-age=31536000, immutable", "console.log"},
		{"/assets/style.css", "text/css; charset=utf-8", "no-cache", "a{}"}, // its name says nothing about its content
		{"/assets/font-0123abcd.woff2", "font/woff2", "public, max-age=31536000, immutable", "font"},
		{"/assets/what-0123abcd.xyz", "application/octet-stream", "public, max-age=31536000, immutable", "alert"},
	} {
		got := ask(h, "GET", c.path)
		if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != c.mediaType || got.Header.Get("Cache-Control") != c.cache || !strings.Contains(body(t, got), c.holds) {
			t.Errorf("%s: %d %v", c.path, got.StatusCode, got.Header)
		}
		head := ask(h, "HEAD", c.path)
		if head.StatusCode != http.StatusOK || body(t, head) != "" || head.Header.Get("Content-Length") != got.Header.Get("Content-Length") || head.Header.Get("ETag") != got.Header.Get("ETag") {
			t.Errorf("HEAD %s: %d %v", c.path, head.StatusCode, head.Header)
		}
		again := ask(h, "GET", c.path, "If-None-Match", `"other", W/`+got.Header.Get("ETag"))
		if again.StatusCode != http.StatusNotModified || body(t, again) != "" || again.Header.Get("ETag") != got.Header.Get("ETag") {
			t.Errorf("%s again: %d %v", c.path, again.StatusCode, again.Header)
		}
		for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "TRACE"} {
			if got := ask(h, method, c.path); got.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, c.path, got.StatusCode)
			}
		}
	}
}

func TestEncodings(t *testing.T) {
	h := handler(open(builtPage()))
	const js = "/assets/index-3f2A9c1_.js"
	for accepts, want := range map[string]string{
		"": "", "identity": "", "gzip": "gzip", "br, gzip": "br", "GZIP;q=0.5": "gzip", "gzip;q=0": "", "br;q=0, gzip; q=1": "gzip", "gzipped": "", "gzip;q=x": "", "*": "",
	} {
		got := ask(h, "GET", js, "Accept-Encoding", accepts)
		if e := got.Header.Get("Content-Encoding"); e != want || got.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q is answered with %q", accepts, e)
		}
		switch want {
		case "gzip":
			in, err := gzip.NewReader(got.Body)
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(in); err != nil || string(text) != script || got.ContentLength >= int64(len(script)) {
				t.Errorf("%q: %v, %d bytes for %d", accepts, err, got.ContentLength, len(text))
			}
		case "br":
			if text := body(t, got); text != "brotli" {
				t.Errorf("%q: %q", accepts, text)
			}
		default:
			if text := body(t, got); text != script {
				t.Errorf("%q: %d bytes", accepts, len(text))
			}
		}
		// A tag names one form of a file: a cache must not take it for another.
		if other := ask(h, "GET", js, "Accept-Encoding", "identity", "If-None-Match", got.Header.Get("ETag")); want != "" && other.StatusCode != http.StatusOK {
			t.Errorf("the tag of %q passes for the plain file", want)
		}
	}
	if got := ask(h, "GET", "/assets/font-0123abcd.woff2", "Accept-Encoding", "gzip"); got.Header.Get("Content-Encoding") != "" {
		t.Error("a font is compressed twice")
	}
}

// Nothing outside of the page can be read, and nothing in it that no route names.
func TestPathsThatLeadElsewhere(t *testing.T) {
	h := handler(open(builtPage()))
	for _, path := range []string{
		"/secret.txt", "/index.html", "/absent.html", "/assets/", "/assets", "/assets/missing.js", "/assets/../secret.txt", "/assets/..%2fsecret.txt", "/assets/%2e%2e/secret.txt",
		"/assets/..\\secret.txt", "/assets/index-3f2A9c1_.js/", "/assets/index-3f2A9c1_.js\x00", "/assets//etc/passwd", "//etc/passwd", "/../../etc/passwd", "/assets/index-3f2A9c1_.js.br", "/assets/.", "/page/index.html", "/deep/link",
	} {
		got := ask(h, "GET", path)
		if got.StatusCode == http.StatusOK || strings.Contains(body(t, got), "secret\n") {
			t.Errorf("%q is answered with %d", path, got.StatusCode)
		}
	}
}

// A browser keeps other pages away from this one, also from its errors.
func TestHeaders(t *testing.T) {
	for name, p := range map[string]*Page{"built": open(builtPage()), "absent": open(fstest.MapFS{"absent.html": {Data: []byte("<p>absent</p>")}})} {
		for _, path := range []string{"/", "/favicon.svg", "/assets/style.css", "/assets/missing.js"} {
			h := ask(handler(p), "GET", path).Header
			for key, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
				"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
			} {
				if h.Get(key) != want {
					t.Errorf("%s, %s: %s is %q", name, path, key, h.Get(key))
				}
			}
			csp := h.Get("Content-Security-Policy")
			for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
				if !strings.Contains(csp, part) {
					t.Errorf("%s, %s: the policy has no %s", name, path, part)
				}
			}
			if strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") || strings.Contains(csp, "http") || h.Get("Permissions-Policy") == "" {
				t.Errorf("%s, %s: %s", name, path, csp)
			}
		}
	}
}

// A binary without the page says how to get it, and does so under the same policy:
// the text has neither a script nor a style in it.
func TestAbsentPage(t *testing.T) {
	p := New()
	if p.absent == nil {
		t.Fatal("the binary has no text for this")
	}
	for _, forbidden := range []string{"<script", "<style", "style=", "onload", "http://", "https://"} {
		if bytes.Contains(p.absent.content, []byte(forbidden)) {
			t.Errorf("absent.html has %s", forbidden)
		}
	}
	p.files = map[string]*File{}
	got := ask(handler(p), "GET", "/")
	if text := body(t, got); got.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "make web") || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v %s", got.StatusCode, got.Header, text)
	}
	if head := ask(handler(p), "HEAD", "/"); head.StatusCode != http.StatusServiceUnavailable || body(t, head) != "" {
		t.Errorf("HEAD: %d", head.StatusCode)
	}
}
