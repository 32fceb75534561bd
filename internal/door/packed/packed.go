// Package packed compresses answers for callers that take that.
package packed

import (
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// small is the size below which an answer is not worth compressing.
const small = 1 << 10

// Writer sends an answer, compressed with gzip if it is not small and the caller takes
// that. It holds back the beginning until it knows whether the answer is small.
type Writer struct {
	w      http.ResponseWriter
	takes  bool
	status int
	held   []byte
	begun  bool         // something was sent
	zip    *gzip.Writer // nil if what is sent is not compressed
}

// New returns a writer for the answer to a request.
func New(w http.ResponseWriter, r *http.Request) *Writer {
	w.Header().Add("Vary", "Accept-Encoding")
	return &Writer{w: w, takes: Takes(r.Header.Get("Accept-Encoding"), "gzip"), status: http.StatusOK}
}

// Header returns the header of the answer.
func (p *Writer) Header() http.Header { return p.w.Header() }

// WriteHeader sets the status of the answer. Only the first call counts.
func (p *Writer) WriteHeader(status int) {
	if !p.begun && len(p.held) == 0 {
		p.status = status
	}
}

// Write sends or holds back a piece of the answer.
func (p *Writer) Write(b []byte) (int, error) {
	if p.begun {
		return p.send(b)
	}
	if p.held = append(p.held, b...); len(p.held) < small {
		return len(b), nil
	}
	p.begun = true
	if p.takes {
		p.w.Header().Set("Content-Encoding", "gzip")
		p.w.Header().Del("Content-Length")
		p.zip = writers.Get().(*gzip.Writer)
		p.zip.Reset(p.w)
	}
	p.w.WriteHeader(p.status)
	_, err := p.send(p.held)
	p.held = nil
	return len(b), err
}

func (p *Writer) send(b []byte) (int, error) {
	if p.zip != nil {
		return p.zip.Write(b)
	}
	return p.w.Write(b)
}

// Close sends what is left. Whoever does not call it breaks the answer off.
func (p *Writer) Close() {
	switch {
	case p.zip != nil:
		_ = p.zip.Close() // fails only if the client is gone
		writers.Put(p.zip)
	case !p.begun:
		p.w.Header().Set("Content-Length", strconv.Itoa(len(p.held)))
		p.w.WriteHeader(p.status)
		_, _ = p.w.Write(p.held)
	}
}

// writers keeps gzip writers: each takes most of a megabyte.
var writers = sync.Pool{New: func() any {
	zip, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	return zip
}}

// Takes reports whether a list of encodings, as in Accept-Encoding, has an encoding and
// does not forbid it.
func Takes(list, encoding string) bool {
	for entry := range strings.SplitSeq(list, ",") {
		name, quality, _ := strings.Cut(entry, ";")
		if !strings.EqualFold(strings.TrimSpace(name), encoding) {
			continue
		}
		q, weighted := strings.CutPrefix(strings.ReplaceAll(quality, " ", ""), "q=")
		weight, err := strconv.ParseFloat(q, 64)
		return !weighted || err == nil && weight > 0
	}
	return false
}
