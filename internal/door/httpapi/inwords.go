package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/berth-gpu/berth/api"
)

// bodyMissing is the answer to a body that ended early or too late.
const bodyMissing = "The body did not arrive whole within 10 s. Send the request again."

// inWords returns the code, the sentence and the fields of the problem for an error of
// the framework.
func inWords(model *huma.ErrorModel) (code, sentence string, fields []api.FieldProblem) {
	for _, e := range model.Errors {
		field := strings.TrimPrefix(strings.TrimPrefix(e.Location, "query."), "body.")
		fields = append(fields, fieldInWords(field, e.Message))
	}
	return frameworkCode(model.Status), frameworkSentence(model), fields
}

// fieldInWords describes the fault of a field in terms of the request instead of Go.
func fieldInWords(field, message string) api.FieldProblem {
	if value, rest, found := strings.Cut(message, " into Go struct field "); found {
		path, _, _ := strings.Cut(rest, " of type ")
		_, field, _ = strings.Cut(path, ".") // the first word is the name of the struct
		_, value, _ = strings.Cut(value, "cannot unmarshal ")
		return api.FieldProblem{Field: field, Detail: value + " is not what this field takes"}
	}
	switch message {
	case validation.MsgExpectedString:
		message += ": write it in quotes"
	case validation.MsgExpectedMatchAtLeastOneSchema: // only deviceRef has several
		message = "expected the index of a device, such as 0, or its UUID in quotes"
	}
	if lead, number, found := strings.Cut(message, "= "); found { // the message names a limit
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
		return "The body does not have the form that this path takes: " + model.Detail + ". Send one whole JSON object; /openapi.json describes it."
	case http.StatusRequestEntityTooLarge:
		_, limit, _ := strings.Cut(model.Detail, "limit=")
		return "The body is larger than this path allows (" + limit + ")."
	case http.StatusUnsupportedMediaType:
		return "The body must be JSON: send Content-Type: application/json."
	case http.StatusRequestTimeout:
		return bodyMissing
	case http.StatusUnprocessableEntity:
		if len(model.Errors) > 0 {
			return "Some fields are out of range or unknown, and nothing was changed."
		}
	}
	return model.Detail
}
