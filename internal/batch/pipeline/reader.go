package pipeline

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/berth-gpu/berth/internal/text/document"
	"github.com/berth-gpu/berth/internal/text/words"
)

// MaxFile is the most bytes that a pipeline file may have: room for more than ten
// thousand steps. A YAML tree takes a hundred times the memory of its text, so the limit
// keeps a hostile file from costing more than a fraction of a second.
const MaxFile = 1 << 20

const example = "a file begins with pipelines: and a list; each entry has a name and steps"

// reader parses a file and collects what is wrong with it.
type reader struct {
	problems problems
}

// place is a position in a file.
type place struct {
	line           int
	pipeline, step string
}

// placeOf returns the place of a node. Its pipeline and its step are the nodes above it
// that are elements of a list of pipelines or steps.
func placeOf(n *document.Node) place {
	at := place{line: n.Line}
	for ; n.Parent != nil; n = n.Parent {
		switch {
		case n.Parent.Shape != document.List:
		case n.Parent.Key == "pipelines":
			at.pipeline = nameOf(n)
		case n.Parent.Key == "steps":
			at.step = nameOf(n)
		}
	}
	return at
}

// nameOf returns the name of a pipeline or step, for messages, or its number if it has no
// name.
func nameOf(n *document.Node) string {
	if name := n.Entry("name"); name != nil && name.Text != "" {
		return words.Cut(name.Text, maxName)
	}
	return "#" + strconv.Itoa(1+n.Index)
}

func (p place) problem(code Code, reason, remedy string) Problem {
	return Problem{Code: code, Line: p.line, Pipeline: p.pipeline, Step: p.step, Reason: reason, Remedy: remedy}
}

func (r *reader) add(at place, code Code, reason, remedy string) {
	r.problems.add(at.problem(code, reason, remedy))
}

// document reads the text into one tree. It returns nil if that fails.
func (r *reader) document(name string, text []byte) *document.Node {
	isJSON := strings.HasSuffix(strings.ToLower(name), ".json")
	if isJSON && len(bytes.TrimSpace(text)) == 0 {
		isJSON = false // an empty file is not JSON, and has a better message
	}
	root, problem := document.Parse(text, document.Format{Noun: "the file", Bytes: MaxFile, JSON: isJSON})
	switch {
	case problem != nil:
		r.report(*problem)
		return nil
	case root.Shape == document.Nothing:
		r.add(place{}, MissingKey, "the file is empty", example)
		return nil
	}
	return root
}

// report adds a problem of the document, and returns whether there is room for more.
func (r *reader) report(p document.Problem) (more bool) {
	at := place{}
	if p.Node != nil {
		at = placeOf(p.Node)
		p.Reason = subject(p) + " " + p.Reason
	}
	at.line = p.Line
	code := map[document.Code]Code{
		document.UnknownKey: UnknownKey, document.SetTwice: DuplicateName, document.WrongShape: BadValue,
	}[p.Code]
	switch p.Code {
	case document.TooLarge:
		p.Remedy = "use count to repeat a pipeline instead of writing it again, or split the file"
	case document.Repeated:
		p.Remedy += "; to repeat a pipeline use count"
	}
	if code == "" {
		code = NotReadable
	}
	r.problems.add(at.problem(code, p.Reason, p.Remedy))
	return !r.problems.full()
}

// subject returns the name of the node of a problem, for messages.
func subject(p document.Problem) string {
	switch n := p.Node; {
	case p.Code == document.UnknownKey:
		return strconv.Quote(words.Cut(n.Key, maxName))
	case n.Parent == nil:
		return "the file"
	case n.Parent.Shape == document.Section:
		return n.Key
	case n.Parent.Key == "pipelines":
		return "a pipeline"
	case n.Parent.Key == "steps":
		return "a step"
	default:
		return "an entry of " + n.Parent.Key
	}
}

// keysOf returns the keys of a part of the file. A key that another part has may be
// indented wrongly.
func keysOf(what string, known []string) document.Keys {
	return document.Keys{What: "a key of " + what, Known: known, Elsewhere: func(key string) string {
		for _, other := range []struct {
			owner string
			keys  []string
		}{{"the file", fileKeys}, {"a pipeline", pipelineKeys}, {"a step", stepKeys}} {
			if slices.Contains(other.keys, key) {
				return "it belongs to " + other.owner + ": check how far it is indented"
			}
		}
		return ""
	}}
}

// required reports the keys that a section lacks.
func (r *reader) required(n *document.Node, what string, keys ...string) {
	for _, key := range keys {
		if n.Shape == document.Section && n.Entry(key) == nil {
			r.add(placeOf(n), MissingKey, what+" has no "+key, remedies[key])
		}
	}
}

// remedies maps a required key to how to write it.
var remedies = map[string]string{
	"name":   "add a name that is not used twice, such as name: denoise",
	"steps":  "add at least one, such as steps: [{name: load, input: numpy, output: numpy}]",
	"input":  "add the memory type that it takes, such as input: numpy",
	"output": "add the memory type that it gives, such as output: numpy",
}

// text reads a single value. It returns "" if there is a problem.
func (r *reader) text(n *document.Node, key string) string {
	if n.Shape != document.Single || strings.TrimSpace(n.Text) == "" {
		found := n.Shape.String()
		if n.Shape == document.Single {
			found = "an empty one"
		}
		r.add(placeOf(n), BadValue, fmt.Sprintf("%s must be a single value, not %s", key, found), "write "+key+": and the value")
		return ""
	}
	if reason := unprintable(n.Text); reason != "" {
		r.add(placeOf(n), BadValue, fmt.Sprintf("%s %s", key, reason), fmt.Sprintf("use at most %d bytes of printable text", maxName))
		return ""
	}
	return n.Text
}

// unprintable returns what is wrong with a text, or "" if nothing is.
func unprintable(s string) string {
	switch {
	case len(s) > maxName:
		return fmt.Sprintf("has %d bytes", len(s))
	case strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }):
		return "has characters that cannot be printed"
	}
	return ""
}

// whole reads a whole number. It returns 0 if there is a problem.
func (r *reader) whole(n *document.Node, key string, least, most int) int {
	text := r.text(n, key)
	if text == "" {
		return 0
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < least || value > most {
		r.add(placeOf(n), BadValue, fmt.Sprintf("%s: %q is not a whole number from %d to %d", key, text, least, most), "write such a number")
		return 0
	}
	return value
}

// words reads a list of single values, or just one.
func (r *reader) words(n *document.Node, key string) []string {
	switch {
	case n.Shape != document.List:
		if word := r.text(n, key); word != "" {
			return []string{word}
		}
		return nil
	case len(n.Items) > maxSteps:
		r.add(placeOf(n), BadValue, fmt.Sprintf("%s has %d entries, and more than %d are not read", key, len(n.Items), maxSteps), "name only those that are needed")
		return nil
	}
	var all []string
	for item := range n.All("", r.report) {
		word := r.text(item, key)
		if word != "" && !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	return all
}
