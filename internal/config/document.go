package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxDocument is far more than settings for every device of a large machine
// need.
const maxDocument = 1 << 20

// maxDepth is deeper than any setting lies; what is below is not looked at.
const maxDepth = 8

// node is a piece of a document, the same for YAML and JSON.
type node struct {
	line    int
	shape   shape
	scalar  scalar
	items   []node  // of a list
	entries []entry // of an object, in order, duplicates included
	refused string  // why it cannot be used, whatever it is for
}

type entry struct {
	key   string
	line  int
	value node
}

type shape int

const (
	null shape = iota
	single
	listed
	object
)

func (s shape) String() string {
	return [...]string{"nothing", "a value", "a list", "a section"}[s]
}

// parseYAML reads one YAML document; an empty text is a null.
func parseYAML(text []byte) (node, *Complaint) {
	if len(text) > maxDocument {
		return node{}, &Complaint{Reason: fmt.Sprintf("is larger than %d KiB, which no configuration needs", maxDocument>>10)}
	}
	if line := notText(text); line > 0 {
		return node{}, &Complaint{Line: line, Reason: "is not text: bytes that are not UTF-8, or control characters"}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc, second yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return node{}, nil
	} else if err != nil {
		return node{}, yamlComplaint(err)
	}
	if err := decoder.Decode(&second); err == nil {
		return node{}, &Complaint{Line: second.Line, Reason: "a second document begins here, but there can be only one"}
	} else if !errors.Is(err, io.EOF) {
		return node{}, yamlComplaint(err)
	}
	return fromYAML(doc.Content[0], 0), nil
}

// yamlError is compiled where it is needed: hardly ever.
func yamlError() *regexp.Regexp { return regexp.MustCompile(`^yaml: (?:line (\d+): )?`) }

func yamlComplaint(err error) *Complaint {
	message := err.Error()
	line := 1 // the parser leaves out the first one
	if m := yamlError().FindStringSubmatch(message); m != nil && m[1] != "" {
		line, _ = strconv.Atoi(m[1])
	}
	// The parser names the line where the broken block began.
	return &Complaint{Line: line, Reason: "is not YAML, here or in the lines below: " + yamlError().ReplaceAllString(message, "")}
}

// notText is the first line with something that is not text, or 0. The parser
// refuses it too, but does not say where.
func notText(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		control := unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\u0085", r)
		if r == utf8.RuneError && size == 1 || control {
			return 1 + bytes.Count(text[:i], []byte("\n"))
		}
		i += size
	}
	return 0
}

// fromYAML does not follow aliases: settings have no use for them, and a few
// lines of them can stand for gigabytes.
func fromYAML(y *yaml.Node, depth int) node {
	n := node{line: y.Line}
	switch {
	case depth > maxDepth:
		n.refused = "is nested too deeply"
	case y.Kind == yaml.AliasNode:
		n.refused = "is an alias (*), which is not supported: write the value itself"
	case y.Style&yaml.TaggedStyle != 0:
		n.refused = "has a tag (!), which is not supported: write the plain value"
	case y.Kind == yaml.SequenceNode:
		n.shape = listed
		for _, item := range y.Content {
			n.items = append(n.items, fromYAML(item, depth+1))
		}
	case y.Kind == yaml.MappingNode:
		n.shape = object
		for i := 0; i+1 < len(y.Content); i += 2 {
			key, value := y.Content[i], fromYAML(y.Content[i+1], depth+1)
			if key.Kind != yaml.ScalarNode {
				value.refused = "has a key that is not a plain word"
			}
			n.entries = append(n.entries, entry{key.Value, key.Line, value})
		}
	case y.ShortTag() != "!!null":
		n.shape = single
		n.scalar = scalar{y.Value, yamlTag(y.ShortTag())}
	}
	return n
}

func yamlTag(short string) tag {
	switch short {
	case "!!str":
		return quoted
	case "!!int", "!!float":
		return digits
	}
	return other
}

// parseJSON reads one JSON object.
func parseJSON(text []byte) (node, *Complaint) {
	if len(text) > maxDocument {
		return node{}, &Complaint{Reason: fmt.Sprintf("the body is larger than %d KiB", maxDocument>>10)}
	}
	var raw json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return node{}, &Complaint{Reason: "the body is not JSON: " + err.Error()}
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	n := fromJSON(decoder, 0)
	if n.shape != object {
		return node{}, &Complaint{Reason: `the body must be a JSON object such as {"temp_optimal": 60}`}
	}
	return n, nil
}

// fromJSON reads the next value token by token, because that is what shows
// duplicate keys. The text is known to be valid, so there are no errors.
func fromJSON(decoder *json.Decoder, depth int) node {
	var n node
	if depth > maxDepth {
		n.refused = "is nested too deeply"
	}
	token, _ := decoder.Token()
	switch t := token.(type) {
	case json.Delim:
		n.shape = map[json.Delim]shape{'[': listed, '{': object}[t]
		for decoder.More() {
			if n.shape == listed {
				n.items = append(n.items, fromJSON(decoder, depth+1))
				continue
			}
			key, _ := decoder.Token()
			name, _ := key.(string)
			n.entries = append(n.entries, entry{key: name, value: fromJSON(decoder, depth+1)})
		}
		_, _ = decoder.Token() // the closing bracket
	case string:
		n.shape, n.scalar = single, scalar{t, quoted}
	case json.Number:
		n.shape, n.scalar = single, scalar{t.String(), digits}
	case bool:
		n.shape, n.scalar = single, scalar{strconv.FormatBool(t), other}
	}
	return n
}
