// Package problems makes the documents with which the doors refuse a request, and
// writes them.
package problems

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/berth-gpu/berth/api"
)

// MediaType is the media type of a problem document.
const MediaType = "application/problem+json"

// New returns a problem document. The doors make every refusal with it, so that
// each has a code and a sentence.
func New(status int, code, format string, args ...any) *api.Problem {
	return &api.Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status,
		Code: code, Detail: fmt.Sprintf(format, args...),
	}
}

// Write answers a request with a problem.
func Write(w http.ResponseWriter, p *api.Problem) {
	w.Header().Set("Content-Type", MediaType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // fails only if the client is gone
}
