package pipeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxFile is how many bytes a pipeline file may have: room for more than ten
// thousand steps. A YAML tree takes a hundred times the memory of its text, so
// the limit is what keeps a hostile file from costing more than a fraction of a
// second.
const MaxFile = 1 << 20

// document reads the text into one tree, whether it is YAML or JSON. Aliases
// stay what they are, so however much they would stand for, they cost nothing.
func document(name string, text []byte) (*yaml.Node, *Problem) {
	if len(text) > MaxFile {
		return nil, &Problem{
			Code:   NotReadable,
			Reason: fmt.Sprintf("the file is larger than %d MiB, and is not read", MaxFile>>20),
			Remedy: "use count to repeat a pipeline instead of writing it again, or split the file",
		}
	}
	var root *yaml.Node
	var problem *Problem
	if strings.HasSuffix(strings.ToLower(name), ".json") || json.Valid(text) {
		root, problem = fromJSON(text)
	} else {
		root, problem = fromYAML(text)
	}
	if problem == nil && (root == nil || isNull(root)) {
		return nil, &Problem{Code: MissingKey, Reason: "the file is empty", Remedy: example}
	}
	return root, problem
}

const example = "a file begins with pipelines: and a list; each entry has a name and steps"

func fromYAML(text []byte) (*yaml.Node, *Problem) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc, second yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, yamlProblem(err)
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, &Problem{
			Code: NotReadable, Line: second.Line, Reason: "a second document begins here",
			Remedy: "remove the line --- and put all pipelines under one pipelines:",
		}
	} else if !errors.Is(err, io.EOF) {
		return nil, yamlProblem(err)
	}
	return doc.Content[0], nil
}

var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

func yamlProblem(err error) *Problem {
	p := &Problem{
		Code: NotReadable, Reason: "this is not YAML: " + yamlError.ReplaceAllString(err.Error(), ""),
		Remedy: "look for a missing colon, quote or bracket here or just above, and for tabs: YAML is indented with blanks",
	}
	if m := yamlError.FindStringSubmatch(err.Error()); m != nil {
		p.Line, _ = strconv.Atoi(m[1]) // empty where the parser names no line
	}
	return p
}

// jsonTree builds the tree that YAML would give. It reads token by token,
// because that is what shows duplicate keys and line numbers.
type jsonTree struct {
	text    []byte
	decoder *json.Decoder
	line    int
	counted int64 // bytes of text whose lines are in line
}

func fromJSON(text []byte) (*yaml.Node, *Problem) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	var whole json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		p := &Problem{
			Code: NotReadable, Reason: "this is not JSON: " + err.Error(),
			Remedy: "look for a missing comma, quote or bracket here or just before",
		}
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			p.Line = 1 + bytes.Count(text[:min(int(syntax.Offset), len(text))], []byte("\n"))
		}
		return nil, p
	}
	tree := &jsonTree{text: text, decoder: json.NewDecoder(bytes.NewReader(text)), line: 1}
	tree.decoder.UseNumber()
	return tree.next(), nil
}

// next reads a value. The text is known to be valid, so there are no errors.
func (t *jsonTree) next() *yaml.Node {
	token, _ := t.decoder.Token()
	end := t.decoder.InputOffset()
	t.line += bytes.Count(t.text[t.counted:end], []byte("\n"))
	t.counted = end
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: t.line}
	switch value := token.(type) {
	case json.Delim:
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		if value == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for t.decoder.More() {
			n.Content = append(n.Content, t.next())
		}
		_, _ = t.decoder.Token() // the closing bracket
	case string:
		n.Tag, n.Value = "!!str", value
	case json.Number:
		n.Tag, n.Value = "!!float", value.String()
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(value)
	default:
		n.Tag = "!!null"
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// shape is what a node is, for people.
func shape(n *yaml.Node) string {
	switch {
	case isNull(n):
		return "nothing"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "a section"
	}
	return "a single value"
}
