package httpapi

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// bodyMissing is the answer to a body that ended early or too late.
const bodyMissing = "The body did not arrive whole within 10 s. Send the request again."

// mostFaults is how many faults of a request an answer lists.
const mostFaults = 16

// inWords returns the code, the sentence and the fields of the problem for an error of
// the framework. takes is what the route takes.
func inWords(model *huma.ErrorModel, takes taken) (code, sentence string, fields []api.FieldProblem) {
	sentence = frameworkSentence(model)
	if all := len(model.Errors); all > mostFaults {
		sentence += fmt.Sprintf(" These are %d of %d faults.", mostFaults, all)
	}
	for _, e := range model.Errors[:min(len(model.Errors), mostFaults)] {
		wrong := takes.inWords(e)
		wrong.Field = words.Cut(wrong.Field, mostField)
		fields = append(fields, wrong)
	}
	return frameworkCode(model.Status), sentence, fields
}

// taken is what a route takes.
type taken struct {
	body    *huma.Schema // nil if it takes none
	schemas huma.Registry
}

// takenBy returns what an operation takes.
func takenBy(op *huma.Operation, schemas huma.Registry) taken {
	t := taken{schemas: schemas}
	if op.RequestBody != nil {
		if content := op.RequestBody.Content["application/json"]; content != nil {
			t.body = content.Schema
		}
	}
	return t
}

// inWords describes the fault of a field in terms of the request instead of Go.
func (t taken) inWords(e *huma.ErrorDetail) api.FieldProblem {
	field, message := strings.TrimPrefix(strings.TrimPrefix(e.Location, "query."), "body."), e.Message
	if value, rest, found := strings.Cut(message, " into Go struct field "); found {
		path, _, _ := strings.Cut(rest, " of type ")
		_, field, _ = strings.Cut(path, ".") // the first word is the name of the struct
		_, value, _ = strings.Cut(value, "cannot unmarshal ")
		return api.FieldProblem{Field: field, Detail: value + " is not what this field takes"}
	}
	var missing, choice string
	switch n, _ := fmt.Sscanf(message, "expected required property %s to be present", &missing); {
	case n == 1:
		return api.FieldProblem{Field: strings.TrimPrefix(field+"."+missing, "body."), Detail: "is missing: " + t.example(e.Location+"."+missing)}
	case message == validation.MsgUnexpectedProperty:
		above, name := cutLast(e.Location)
		return api.FieldProblem{Field: field, Detail: "is not a field of this body: " + cmp.Or(t.below(above, name), meant(name, t.fields(above)))}
	case strings.HasPrefix(message, "invalid character"), strings.HasPrefix(message, "unexpected end"), strings.HasPrefix(message, "unexpected EOF"):
		return api.FieldProblem{Field: field, Detail: "is not JSON: write names and texts in double quotes, and close every brace"}
	}
	if _, choice, _ = strings.Cut(message, "one of \""); choice != "" {
		choices := strings.Split(strings.TrimSuffix(choice, "\""), ", ")
		given, _ := e.Value.(string)
		return api.FieldProblem{Field: field, Detail: fmt.Sprintf("is %q: %s", words.Cut(given, mostGiven), words.Suggest(given, choices, "write "+words.Or(choices)))}
	}
	given, quoted := e.Value.(string)
	switch message {
	case validation.MsgExpectedString:
		message += ": write it in quotes"
	case validation.MsgExpectedInteger, validation.MsgExpectedNumber:
		if quoted {
			message += ": " + unquoted(field, given)
		}
	case validation.MsgExpectedBoolean:
		message += ": write true or false, without quotes"
	case validation.MsgExpectedArray:
		message += `: write it in brackets, as in ["a", "b"]`
	case validation.MsgExpectedObject:
		message += `: write it in braces, as in {"name": "value"}`
	case validation.MsgExpectedMatchAtLeastOneSchema: // only deviceRef has several
		message = "expected the index of a device, such as 0, or its UUID in quotes"
	case "invalid integer":
		message = fmt.Sprintf("%q is not a whole number: write one, as in %s=10", words.Cut(given, mostGiven), field)
	case "invalid float":
		message = fmt.Sprintf("%q is not a number: write one, as in %s=1.5", words.Cut(given, mostGiven), field)
	case "invalid boolean":
		message = fmt.Sprintf("%q is neither true nor false: write %s=true", words.Cut(given, mostGiven), field)
	}
	if found := bound.FindStringSubmatch(message); found != nil && found[1] != "number" && found[2] == ">=" && found[3] == "1" {
		message = "must not be empty"
	} else if found != nil {
		limit, _ := strconv.ParseFloat(found[3], 64) // of the schema
		what := map[string]string{"number": "", "length": "a text of a length of ", "array length": "a list of a length of "}[found[1]]
		message = "must be " + what + map[string]string{">=": "at least ", "<=": "at most ", ">": "above ", "<": "below "}[found[2]] + strconv.FormatFloat(limit, 'f', -1, 64)
	}
	return api.FieldProblem{Field: field, Detail: message}
}

// bound finds a limit in a message of the framework.
var bound = regexp.MustCompile(`^expected (number|length|array length) ([<>]=?) ([0-9.e+-]+)$`)

// mostGiven is how much of a wrong value an answer repeats, and mostField how much of the
// name of a field.
const (
	mostGiven = 64
	mostField = 256
)

// meant suggests the name that was probably meant: one that is near, or that ends or begins
// with the word.
func meant(word string, known []string) string {
	if len(known) == 0 {
		return "there are none; leave it out"
	}
	slices.Sort(known)
	begins := slices.ContainsFunc(known, func(name string) bool { return strings.HasPrefix(name, word) })
	if at := slices.IndexFunc(known, func(name string) bool { return strings.HasSuffix(name, "_"+word) }); at >= 0 && !begins {
		return "did you mean " + known[at] + "?"
	}
	if lead, _, cut := strings.Cut(word, "_"); cut && lead != "" {
		if near, ok := words.Nearest(word, known); ok {
			return "did you mean " + near + "?"
		}
		return words.Suggest(lead, known, "it takes "+words.Few(known, mostNamed))
	}
	return words.Suggest(word, known, "it takes "+words.Few(known, mostNamed))
}

// mostNamed is how many names an answer lists.
const mostNamed = 20

// unquoted says how to write a number that came as a text.
func unquoted(field, given string) string {
	memory, err := gpu.ParseMiB(strings.ReplaceAll(given, " ", ""))
	if _, plain := strconv.ParseFloat(given, 64); plain == nil {
		return "write it without quotes: " + given
	}
	if err == nil && strings.HasSuffix(field, "_mb") {
		return fmt.Sprintf("write the number of MiB: %d", int64(memory))
	}
	return "write a number without quotes"
}

// cutLast cuts the last name off a location.
func cutLast(location string) (above, name string) {
	at := strings.LastIndexByte(location, '.')
	return location[:max(at, 0)], location[at+1:]
}

// below suggests a field of an object in the object at a location, where a field of that
// name, or one that begins with it, is missing: {"memory_mb": 1} where it belongs under lease.
func (t taken) below(location, word string) string {
	at := t.at(location)
	if at == nil {
		return ""
	}
	for _, exact := range []bool{true, false} {
		for _, name := range slices.Sorted(maps.Keys(at.Properties)) {
			inner := t.whole(at.Properties[name])
			if inner == nil {
				continue
			}
			for _, field := range slices.Sorted(maps.Keys(inner.Properties)) {
				if exact && field == word || !exact && strings.HasPrefix(field, word+"_") {
					return fmt.Sprintf("it belongs under %s: write {%q: {%q: …}}", name, name, field)
				}
			}
		}
	}
	return ""
}

// fields returns the names of the fields of the object at a location of the body.
func (t taken) fields(location string) []string {
	if at := t.at(location); at != nil {
		return slices.Collect(maps.Keys(at.Properties))
	}
	return nil
}

// example says how to write a field.
func (t taken) example(location string) string {
	_, name := cutLast(location)
	value := `"…"`
	if at := t.at(location); at != nil {
		switch at.Type {
		case huma.TypeInteger, huma.TypeNumber:
			value = "1"
			if strings.HasSuffix(name, "_mb") {
				value = "4096"
			}
		case huma.TypeBoolean:
			value = "true"
		case huma.TypeArray:
			value = `["…"]`
		case huma.TypeObject:
			value = "{…}"
		}
	}
	return fmt.Sprintf("write %q: %s", name, value)
}

// at returns the schema of the part of the body at a location; nil if there is none.
func (t taken) at(location string) *huma.Schema {
	found := t.whole(t.body)
	for _, name := range strings.Split(location, ".")[1:] { // the first is body
		name, index, _ := strings.Cut(name, "[")
		if found == nil {
			return nil
		}
		if found = t.whole(found.Properties[name]); found != nil && index != "" {
			found = t.whole(found.Items)
		}
	}
	return found
}

// whole returns a schema, or the one that it refers to.
func (t taken) whole(s *huma.Schema) *huma.Schema {
	if s != nil && s.Ref != "" {
		return t.schemas.SchemaFromRef(s.Ref)
	}
	return s
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
		return "The body does not have the form that this path takes. Send one whole JSON object; /openapi.json describes it."
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
