package webui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/berth-gpu/berth/internal/door/packed"
)

// File is a file that browsers load: of the page, or of another door.
type File struct {
	content   []byte
	mediaType string
	tag       string // of its content, for ETag
	forever   bool   // another content would have another name

	brotli, gzip []byte // the content compressed by the build; nil if the build did not
	packOnce     sync.Once
}

// hashed matches the names in which Vite puts a hash of the content.
var hashed = regexp.MustCompile(`^assets/.+-[A-Za-z0-9_-]{8,}\.[a-z0-9]+$`)

// NewFile returns a file of this name, which says what type it has.
func NewFile(name string, content []byte) *File {
	sum := sha256.Sum256(content)
	return &File{content: content, mediaType: mediaTypeOf(name), tag: hex.EncodeToString(sum[:12]), forever: hashed.MatchString(name)}
}

// mediaTypes has the types of files in a page. The tables of the machine do not count,
// so that all daemons answer alike.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
	".png":  "image/png",
	".ico":  "image/x-icon",
	".json": "application/json",
	".map":  "application/json",
	".txt":  "text/plain; charset=utf-8",
	// the fonts
	".woff2": "font/woff2",
	".woff":  "font/woff",
}

func mediaTypeOf(name string) string {
	if known, is := mediaTypes[path.Ext(name)]; is {
		return known
	}
	return "application/octet-stream"
}

// packs reports whether compression makes a file smaller.
func (f *File) packs() bool {
	return strings.HasPrefix(f.mediaType, "text/") || f.mediaType == "image/svg+xml" || f.mediaType == "application/json"
}

// packed returns the content compressed with gzip. If the build did not compress it,
// packed does so once, at the first request.
func (f *File) packed() []byte {
	f.packOnce.Do(func() {
		if f.gzip != nil || !f.packs() || len(f.content) < 512 {
			return
		}
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
		_, _ = w.Write(f.content)                             // memory takes everything
		if err := w.Close(); err == nil && b.Len() < len(f.content) {
			f.gzip = b.Bytes()
		}
	})
	return f.gzip
}

// Serve answers a request with the file, in the smallest form that the browser accepts.
func (f *File) Serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.mediaType)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if f.forever {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	content, tag := f.content, f.tag
	accepts := r.Header.Get("Accept-Encoding")
	if packed.Takes(accepts, "br") && f.brotli != nil {
		content, tag = f.brotli, tag+"-br"
		h.Set("Content-Encoding", "br")
	} else if packed.Takes(accepts, "gzip") && f.packed() != nil {
		content, tag = f.packed(), tag+"-gz"
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", `"`+tag+`"`)
	if matches(r.Header.Get("If-None-Match"), tag) {
		h.Del("Content-Encoding")
		h.Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(content)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(content) // fails only if the client is gone
	}
}

// matches reports whether an If-None-Match header names a tag.
func matches(header, tag string) bool {
	for entry := range strings.SplitSeq(header, ",") {
		if entry = strings.TrimSpace(entry); entry == "*" || strings.TrimPrefix(entry, "W/") == `"`+tag+`"` {
			return true
		}
	}
	return false
}
