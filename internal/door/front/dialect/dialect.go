// Package dialect knows what requests and answers of the APIs of OpenAI and Anthropic look
// like.
//
// It finds the model in a request, and the tokens in an answer, and it writes errors and
// the list of models as the clients of these APIs read them. Servers of other makers, such
// as llama.cpp and vLLM, speak one of the two.
//
// Pure: no clock, no I/O.
package dialect

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

// Form is the API whose form a caller reads.
type Form int

// The forms. Callers of paths that neither API has get OpenAI's.
const (
	OpenAI Form = iota
	Anthropic
)

// Of returns the form that a caller reads, given the path that it asks for and whether the
// request has the header Anthropic-Version.
func Of(path string, version bool) Form {
	if version || strings.HasSuffix(path, "/v1/messages") || strings.HasSuffix(path, "/v1/messages/count_tokens") {
		return Anthropic
	}
	return OpenAI
}

// Error returns the body of an error.
func (f Form) Error(status int, code, message string) []byte {
	var body any
	switch f {
	case Anthropic:
		type inner struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		}
		body = struct {
			Type  string `json:"type"`
			Error inner  `json:"error"`
		}{"error", inner{anthropicType(status), message}}
	default:
		type inner struct {
			Message string  `json:"message"`
			Type    string  `json:"type"`
			Param   *string `json:"param"`
			Code    string  `json:"code"`
		}
		body = struct {
			Error inner `json:"error"`
		}{inner{Message: message, Type: openAIType(status), Code: code}}
	}
	return marshal(body)
}

// LastEvent returns what ends a stream of events with an error, wherever it was.
func (f Form) LastEvent(status int, code, message string) []byte {
	begin := "\n\ndata: " // empty lines end what was begun
	if f == Anthropic {
		begin = "\n\nevent: error\ndata: "
	}
	return append(append([]byte(begin), bytes.TrimSpace(f.Error(status, code, message))...), "\n\n"...)
}

// openAIType returns the type of an error in OpenAI's form, by its HTTP status.
func openAIType(status int) string {
	switch {
	case status == 401:
		return "authentication_error"
	case status == 403:
		return "permission_error"
	case status == 429:
		return "rate_limit_error"
	case status == 503:
		return "service_unavailable_error"
	case status >= 500:
		return "server_error"
	}
	return "invalid_request_error"
}

// anthropicType returns the type of an error in Anthropic's form, by its HTTP status.
func anthropicType(status int) string {
	switch status {
	case 401:
		return "authentication_error"
	case 403:
		return "permission_error"
	case 404:
		return "not_found_error"
	case 413:
		return "request_too_large"
	case 429:
		return "rate_limit_error"
	case 503:
		return "overloaded_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

// openAIModel is an entry of OpenAI's list of models.
type openAIModel struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// anthropicModel is an entry of Anthropic's list of models.
type anthropicModel struct {
	Type    string    `json:"type"`
	ID      string    `json:"id"`
	Name    string    `json:"display_name"`
	Created time.Time `json:"created_at"`
}

// Model returns the description of one model.
func (f Form) Model(name string, since time.Time) []byte { return marshal(f.model(name, since)) }

func (f Form) model(name string, since time.Time) any {
	if f == Anthropic {
		return anthropicModel{"model", name, name, since.UTC().Truncate(time.Second)}
	}
	return openAIModel{name, "model", since.Unix(), "berth"}
}

// Models returns the list of models.
func (f Form) Models(names []string, since time.Time) []byte {
	list := make([]any, 0, len(names))
	for _, name := range names {
		list = append(list, f.model(name, since))
	}
	if f != Anthropic {
		return marshal(struct {
			Object string `json:"object"`
			Data   []any  `json:"data"`
		}{"list", list})
	}
	page := struct {
		Data  []any   `json:"data"`
		More  bool    `json:"has_more"`
		First *string `json:"first_id"`
		Last  *string `json:"last_id"`
	}{Data: list}
	if len(names) > 0 {
		page.First, page.Last = &names[0], &names[len(names)-1]
	}
	return marshal(page)
}

// marshal returns a value of this package as JSON, with a line end.
func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // only channels, functions and cycles fail
	}
	return append(text, '\n')
}
