package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/desk"
)

const problemType = "application/problem+json"

// maxBody is far more than any request needs, and far less than would hurt.
const maxBody = 1 << 20

// problem makes a problem document. Every refusal in this package is made by
// it, so that no answer lacks its code and its sentence.
func problem(status int, code, format string, args ...any) *api.Problem {
	return &api.Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status,
		Code: code, Detail: fmt.Sprintf(format, args...),
	}
}

// statuses are those of the kinds of refusals.
var statuses = map[desk.Kind]int{
	desk.Failed:      http.StatusInternalServerError,
	desk.Invalid:     http.StatusUnprocessableEntity,
	desk.Unknown:     http.StatusNotFound,
	desk.Forbidden:   http.StatusForbidden,
	desk.Conflict:    http.StatusConflict,
	desk.Crowded:     http.StatusTooManyRequests,
	desk.DiskFull:    http.StatusInsufficientStorage,
	desk.Unavailable: http.StatusServiceUnavailable,
	desk.Withdrawn:   http.StatusRequestTimeout,
}

// problemOf returns the problem that an error is over HTTP.
func problemOf(err error) *api.Problem {
	if p := (*api.Problem)(nil); errors.As(err, &p) {
		return p
	}
	r := desk.Refused(err)
	p := problem(statuses[r.Kind], r.Code, "%s", r.Detail)
	p.Fields, p.Extra = r.Fields, r.Extra
	return p
}

// answered returns what the desk answered, in the form the framework takes.
func answered[T any](body T, err error) (*answer[T], error) {
	if err != nil {
		return nil, problemOf(err)
	}
	return ok(body)
}

// asID lets a refusal speak of id, for paths where that is what the field is
// called.
func asID(err error) error {
	if r := (*desk.Refusal)(nil); errors.As(err, &r) {
		for i, f := range r.Fields {
			if f.Field == "allocation_id" {
				r.Fields[i].Field = "id"
			}
		}
	}
	return err
}

func writeProblem(w http.ResponseWriter, p *api.Problem) {
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the reader may be gone; there is no one left to tell
}

// asProblem turns the framework's own errors into ours. It is a response
// transformer, because the framework's other way is a process-wide variable.
func asProblem(_ huma.Context, _ string, v any) (any, error) {
	model, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := problem(model.Status, frameworkCode(model.Status), "%s", frameworkSentence(model))
	for _, e := range model.Errors {
		field := strings.TrimPrefix(strings.TrimPrefix(e.Location, "query."), "body.")
		p.Fields = append(p.Fields, inWords(field, e.Message))
	}
	return p, nil
}

// inWords says what is wrong with a field in the words of whoever wrote the
// request, and not in those of the language that this is written in.
func inWords(field, message string) api.FieldProblem {
	if value, rest, found := strings.Cut(message, " into Go struct field "); found {
		path, _, _ := strings.Cut(rest, " of type ")
		_, field, _ = strings.Cut(path, ".") // the first word is the name of the struct
		_, value, _ = strings.Cut(value, "cannot unmarshal ")
		return api.FieldProblem{Field: field, Detail: value + " is not what this field takes"}
	}
	if message == "expected string" {
		message += ": write it in quotes"
	}
	if lead, number, found := strings.Cut(message, "= "); found { // of a limit
		if limit, err := strconv.ParseFloat(number, 64); err == nil {
			message = lead + "= " + strconv.FormatFloat(limit, 'f', -1, 64)
		}
	}
	return api.FieldProblem{Field: field, Detail: message}
}

func frameworkCode(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "malformed_body"
	case http.StatusRequestEntityTooLarge:
		return "body_too_large"
	case http.StatusUnsupportedMediaType:
		return "unsupported_media_type"
	case http.StatusUnprocessableEntity:
		return "invalid_request"
	case http.StatusRequestTimeout:
		return "request_timeout"
	}
	return "internal"
}

func frameworkSentence(model *huma.ErrorModel) string {
	switch model.Status {
	case http.StatusBadRequest:
		return "The body is not what this path takes: " + model.Detail + ". Send one whole JSON object; /openapi.json has its shape."
	case http.StatusRequestEntityTooLarge:
		_, limit, _ := strings.Cut(model.Detail, "limit=")
		return "The body is larger than this path takes (" + limit + "); no request needs that much."
	case http.StatusUnsupportedMediaType:
		return "The body must be JSON: send Content-Type: application/json."
	case http.StatusUnprocessableEntity:
		if len(model.Errors) > 0 {
			return "The request was understood, but some of it is out of range or unknown. Nothing was changed; see fields."
		}
	}
	return model.Detail
}

// notServed answers what no route matches, in the form of every other error.
// The multiplexer knows whether the path or only the method is wrong.
func notServed(mux *http.ServeMux, w http.ResponseWriter, r *http.Request, answer http.Handler) {
	seen := &statusOnly{header: http.Header{}}
	answer.ServeHTTP(seen, r)
	switch seen.status {
	case http.StatusMethodNotAllowed:
		allow := seen.header.Get("Allow")
		w.Header().Set("Allow", allow)
		writeProblem(w, problem(seen.status, "method_not_allowed", "%s does not take %s; it takes %s.", r.URL.Path, r.Method, allow))
	case http.StatusNotFound:
		writeProblem(w, problem(seen.status, "unknown_path", "There is nothing at %s. /openapi.json lists every path, and /docs shows it to people.", r.URL.Path))
	default:
		mux.ServeHTTP(w, r)
	}
}

// statusOnly swallows an answer and remembers how it began.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }
func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
