// Package webui is the door to the page: it serves the files that Vite has built into
// the folder page, which the binary embeds.
//
// The files are the same for everybody, so nobody has to show anything to get them. The
// content of the page comes from the REST API, which checks who calls. A binary that
// was built without Node serves a text that says how to get the page.
package webui

import (
	"embed"
	"io/fs"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/internal/door/problems"
)

//go:embed all:page
var built embed.FS

// Page serves the page.
type Page struct {
	files  map[string]*File // by path, such as "index.html" and "assets/app-3f2a9c1b.js"
	absent *File
}

// New returns the page embedded in the binary.
func New() *Page {
	folder, err := fs.Sub(built, "page")
	if err != nil {
		panic(err) // cannot happen: the folder is embedded
	}
	return open(folder)
}

// open reads the files of a page.
func open(folder fs.FS) *Page {
	p := &Page{files: map[string]*File{}}
	_ = fs.WalkDir(folder, ".", func(path string, d fs.DirEntry, err error) error { // files that cannot be read are not served
		if err != nil || d.IsDir() {
			return nil
		}
		if content, err := fs.ReadFile(folder, path); err == nil {
			p.files[path] = NewFile(path, content)
		}
		return nil
	})
	p.absent = p.files["absent.html"]
	delete(p.files, "absent.html")
	for path, f := range p.files {
		if packed, is := strings.CutSuffix(path, ".br"); is && p.files[packed] != nil {
			p.files[packed].brotli = f.content
			delete(p.files, path)
		}
		if packed, is := strings.CutSuffix(path, ".gz"); is && p.files[packed] != nil {
			p.files[packed].gzip = f.content
			delete(p.files, path)
		}
	}
	return p
}

// Route is a path of the page. Serve answers GET and HEAD.
type Route struct {
	Operation *huma.Operation
	MediaType string // of the answer; several are separated by commas
	Serve     func(http.ResponseWriter, *http.Request)
}

// Routes returns every path of the page.
func (p *Page) Routes() []Route {
	op := func(id, path, summary string) *huma.Operation {
		return &huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: []string{"daemon"}}
	}
	asset := op("page-asset", "/assets/{file}", "A script, a style or a picture of the page")
	asset.Errors = []int{http.StatusNotFound}
	asset.Parameters = []*huma.Param{{Name: "file", In: "path", Required: true, Description: "Name of the file.", Schema: &huma.Schema{Type: huma.TypeString}}}
	icon := op("page-icon", "/favicon.svg", "The icon of the page")
	icon.Errors = []int{http.StatusNotFound}
	return []Route{
		{op("page", "/", "The page for people: devices, leases, the queue and events"), "text/html", p.index},
		{icon, "image/svg+xml", func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, "favicon.svg") }},
		{asset, "*/*", func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, "assets/"+r.PathValue("file")) }},
	}
}

// index serves the page itself.
func (p *Page) index(w http.ResponseWriter, r *http.Request) {
	if p.files["index.html"] != nil {
		p.serve(w, r, "index.html")
		return
	}
	Harden(w.Header(), policy)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", p.absent.mediaType)
	w.WriteHeader(http.StatusServiceUnavailable)
	if r.Method != http.MethodHead {
		_, _ = w.Write(p.absent.content)
	}
}

// serve serves a file of the page.
func (p *Page) serve(w http.ResponseWriter, r *http.Request, path string) {
	Harden(w.Header(), policy)
	f := p.files[path]
	if f == nil {
		problems.Write(w, problems.New(http.StatusNotFound, "unknown_path", "The page has no file %s. Load the page again: it may be of another release.", r.URL.Path))
		return
	}
	f.Serve(w, r)
}

// policy limits what a browser does for the page: it loads from and calls only this
// daemon, runs no script and applies no style from inside the page or from an
// attribute, and shows the page in no frame. The page shows reports of this daemon in a
// frame, which run nothing.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; frame-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Harden sets the headers by which a browser keeps to a policy, and keeps other pages away
// from this one.
func Harden(h http.Header, policy string) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY") // for browsers that do not know frame-ancestors
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), magnetometer=(), microphone=(), midi=(), payment=(), usb=()")
}
