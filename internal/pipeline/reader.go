package pipeline

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/berth-gpu/berth/internal/words"
)

// reader takes a tree apart and collects what is wrong with it.
type reader struct {
	problems problems
}

// place is where in a file something is.
type place struct {
	line           int
	pipeline, step string
}

// on is the same place in the line of a node.
func (p place) on(n *yaml.Node) place {
	p.line = n.Line
	return p
}

func (p place) problem(code Code, reason, remedy string) Problem {
	return Problem{Code: code, Line: p.line, Pipeline: p.pipeline, Step: p.step, Reason: reason, Remedy: remedy}
}

func (r *reader) add(at place, code Code, reason, remedy string) {
	r.problems.add(at.problem(code, reason, remedy))
}

// usable refuses what the format does not have, wherever it stands.
func (r *reader) usable(n *yaml.Node, at place) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		r.add(at.on(n), NotReadable, "an alias (*) stands here", "write the value itself; to repeat a pipeline use count")
	case n.Style&yaml.TaggedStyle != 0:
		r.add(at.on(n), NotReadable, "a tag (!) stands here", "write the plain value")
	default:
		return true
	}
	return false
}

// section visits the entries of a node that has to be a mapping, each key
// once. It reports whether the node is one.
func (r *reader) section(n *yaml.Node, at place, what string, keys []string, visit func(key string, value *yaml.Node)) bool {
	if !r.usable(n, at) {
		return false
	}
	if n.Kind != yaml.MappingNode {
		r.add(at.on(n), BadValue, fmt.Sprintf("%s must be a section (key: value), not %s", what, shape(n)), "it can have "+listed(keys))
		return false
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content) && !r.problems.full(); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		line, again := first[key.Value]
		switch {
		case key.Value == "<<":
			r.add(at.on(key), NotReadable, "a merge (<<) stands here", "write the values themselves; to repeat a pipeline use count")
		case key.Kind != yaml.ScalarNode || !slices.Contains(keys, key.Value):
			r.unknown(key, at, what, keys)
		case again:
			r.add(at.on(key), DuplicateName, fmt.Sprintf("%s is given twice, the first time in line %d", key.Value, line), "remove one of them")
		default:
			first[key.Value] = key.Line
			visit(key.Value, value)
		}
	}
	return true
}

// unknown names the key that is nearest, or the place where it belongs.
func (r *reader) unknown(key *yaml.Node, at place, what string, keys []string) {
	word := words.Cut(key.Value, maxName)
	remedy := suggest(word, "it can have", keys)
	for _, other := range []struct {
		owner string
		keys  []string
	}{{"the file", fileKeys}, {"a pipeline", pipelineKeys}, {"a step", stepKeys}} {
		if slices.Contains(other.keys, word) {
			remedy = "it belongs to " + other.owner + ": check how far it is indented"
			break
		}
	}
	r.add(at.on(key), UnknownKey, fmt.Sprintf("%s has no key %q", what, word), remedy)
}

// required complains about keys that are not there.
func (r *reader) required(n *yaml.Node, at place, what string, keys ...string) {
	for _, key := range keys {
		there := false
		for i := 0; i < len(n.Content); i += 2 {
			there = there || n.Content[i].Value == key
		}
		if !there {
			r.add(at, MissingKey, what+" has no "+key, remedies[key])
		}
	}
}

// remedies say how to write what is required.
var remedies = map[string]string{
	"name":   "add a name that is not used twice, such as name: denoise",
	"steps":  "add at least one, such as steps: [{name: load, input: numpy, output: numpy}]",
	"input":  "add the memory type that it takes, such as input: numpy",
	"output": "add the memory type that it gives, such as output: numpy",
}

// list returns the entries of a node that has to be a list.
func (r *reader) list(n *yaml.Node, at place, key, form string) ([]*yaml.Node, bool) {
	if !r.usable(n, at) {
		return nil, false
	}
	if n.Kind != yaml.SequenceNode {
		r.add(at.on(n), BadValue, fmt.Sprintf("%s must be a list, not %s", key, shape(n)), "write "+form)
		return nil, false
	}
	return n.Content, true
}

// text reads a single value; it is empty if there was a problem.
func (r *reader) text(n *yaml.Node, at place, key string) string {
	if !r.usable(n, at) {
		return ""
	}
	if n.Kind != yaml.ScalarNode || isNull(n) || strings.TrimSpace(n.Value) == "" {
		r.add(at, BadValue, fmt.Sprintf("%s must be a single value, not %s", key, emptyOr(shape(n))), "write "+key+": and the value")
		return ""
	}
	if reason := unprintable(n.Value); reason != "" {
		r.add(at, BadValue, fmt.Sprintf("%s %s", key, reason), fmt.Sprintf("use at most %d bytes of printable text", maxName))
		return ""
	}
	return n.Value
}

func emptyOr(shape string) string {
	if shape == "a single value" {
		return "an empty one"
	}
	return shape
}

// unprintable says what is wrong with a text; empty if nothing is.
func unprintable(s string) string {
	switch {
	case len(s) > maxName:
		return fmt.Sprintf("has %d bytes", len(s))
	case strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }):
		return "has characters that cannot be printed"
	}
	return ""
}

// name reads the name of a pipeline or step. name[3] is how the runs of a
// repeated pipeline are called, so no name may look like that.
func (r *reader) name(n *yaml.Node, at place) string {
	name := r.text(n, at, "name")
	if at.step != "" || !strings.HasSuffix(name, "]") {
		return name
	}
	open := strings.LastIndexByte(name, '[')
	if _, err := strconv.Atoi(name[open+1 : len(name)-1]); open >= 0 && err == nil {
		r.add(at, BadValue, fmt.Sprintf("the name ends in %s", name[open:]), "leave that out: the runs of a pipeline with count are named so")
	}
	return name
}

// whole reads a whole number; it is zero if there was a problem.
func (r *reader) whole(n *yaml.Node, at place, key string, least, most int) int {
	text := r.text(n, at, key)
	if text == "" {
		return 0
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < least || value > most {
		r.add(at, BadValue, fmt.Sprintf("%s: %q is not a whole number from %d to %d", key, text, least, most), "write such a number")
		return 0
	}
	return value
}

// words reads a list of single values, or just one.
func (r *reader) words(n *yaml.Node, at place, key string) []string {
	if n.Kind != yaml.SequenceNode {
		if word := r.text(n, at, key); word != "" {
			return []string{word}
		}
		return nil
	}
	if !r.usable(n, at) {
		return nil
	}
	if len(n.Content) > maxSteps {
		r.add(at, BadValue, fmt.Sprintf("%s has %d entries, and more than %d are not read", key, len(n.Content), maxSteps), "name only those that are needed")
		return nil
	}
	var all []string
	for _, item := range n.Content {
		word := r.text(item, at.on(item), key)
		if word != "" && !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	return all
}
