// Package document reads YAML and JSON from files and request bodies, with the
// line number of every value.
//
// It is strict, so that it never misreads a text: it refuses an unknown key and
// names the nearest known one, a key that is set twice, anchors, aliases, merge
// keys and tags, a second document, and a text that is too large or nested too
// deeply. It expands nothing, so a small text cannot become a large document.
//
// Parse makes a tree of [Node] from a text. The caller walks it with
// [Node.Entries] and [Node.All], which report mistakes and go on, so that
// people see all their mistakes at once.
//
// Pure: no clock, no I/O.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Format says what a text may be.
type Format struct {
	Noun  string // what messages call the text: "the file", "the body"
	Bytes int    // maximum size of a text
	JSON  bool   // the text must be JSON; otherwise it may be YAML
}

// maxDepth is deeper than any document of berth goes. Parse ignores what lies below.
const maxDepth = 16

// Parse reads one document. The root of an empty YAML text is Nothing. The problem is
// nil, or says why Parse could read nothing.
func Parse(text []byte, f Format) (*Node, *Problem) {
	if len(text) > f.Bytes {
		return nil, &Problem{
			Code: TooLarge, Reason: fmt.Sprintf("%s is larger than %s, and is not read", f.Noun, size(f.Bytes)),
			Remedy: "split it, or leave out what is not needed",
		}
	}
	if line := notText(text); line > 0 {
		return nil, &Problem{
			Code: NotReadable, Line: line, Reason: f.Noun + " has bytes that are not UTF-8, or control characters",
			Remedy: "write plain text",
		}
	}
	if f.JSON || json.Valid(text) {
		return parseJSON(text, f)
	}
	return parseYAML(text, f)
}

func size(n int) string {
	if n >= 1<<20 {
		return strconv.Itoa(n>>20) + " MiB"
	}
	return strconv.Itoa(n>>10) + " KiB"
}

// notText returns the first line with something that is not text, or 0. The parsers
// refuse it too, but do not name the line.
func notText(text []byte) int {
	for i := 0; i < len(text); {
		if c := text[i]; c >= ' ' && c < 0x7f {
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		control := unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\u0085", r)
		if r == utf8.RuneError && size == 1 || control {
			return 1 + bytes.Count(text[:i], []byte("\n"))
		}
		i += size
	}
	return 0
}

// bytesOfMark is how many bytes a YAML text of full size has at least for each mark.
const bytesOfMark = 8

// marks counts what may begin a node of a YAML text: each takes hundreds of bytes of memory.
func marks(text []byte) (n int) {
	for i, c := range text {
		switch c {
		case ',', ':', '[', '{', '?':
			n++
		case '-':
			if i+1 == len(text) || text[i+1] <= ' ' {
				n++
			}
		}
	}
	return n
}

func parseYAML(text []byte, f Format) (*Node, *Problem) {
	if most := f.Bytes / bytesOfMark; marks(text) > most {
		return nil, &Problem{
			Code: TooLarge, Reason: fmt.Sprintf("%s has more than %d marks of YAML, such as colons and commas, and is not read", f.Noun, most),
			Remedy: "split it, or leave out what is not needed",
		}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc, second yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return &Node{Line: 1}, nil
	} else if err != nil {
		return nil, notYAML(err, f)
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, &Problem{
			Code: NotReadable, Line: second.Line, Reason: "a second document begins here",
			Remedy: "remove the line --- and put everything into one document",
		}
	} else if !errors.Is(err, io.EOF) {
		return nil, notYAML(err, f)
	}
	return fromYAML(doc.Content[0], 0), nil
}

func notYAML(err error, f Format) *Problem {
	reason := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1 // the parser does not name the first line
	if after, found := strings.CutPrefix(reason, "line "); found {
		if number, rest, found := strings.Cut(after, ": "); found {
			if n, err := strconv.Atoi(number); err == nil {
				line, reason = n, rest
			}
		}
	}
	remedy := "look for a missing colon, quote or bracket here and in the lines around it, and for tabs: YAML is indented with blanks"
	if strings.HasPrefix(reason, "mapping values are not allowed") {
		reason, remedy = "a value has a colon and a blank in it, or the line is indented too far", "write such a value between quotes, as in title: 'one: two'"
	}
	// The parser names the line where the broken block began.
	return &Problem{Code: NotReadable, Line: line, Reason: f.Noun + " is not YAML: " + reason, Remedy: remedy}
}

func fromYAML(y *yaml.Node, depth int) *Node {
	n := &Node{Line: y.Line, fault: faultOf(y, depth)}
	switch {
	case n.fault != none && n.fault != anchored:
		n.Shape = Refused
	case y.Kind == yaml.SequenceNode:
		n.Shape = List
		for _, item := range y.Content {
			n.add(fromYAML(item, depth+1))
		}
	case y.Kind == yaml.MappingNode:
		n.Shape = Section
		for i := 0; i+1 < len(y.Content); i += 2 {
			key, value := y.Content[i], fromYAML(y.Content[i+1], depth+1)
			value.Key, value.KeyLine = key.Value, key.Line
			switch {
			case key.Kind != yaml.ScalarNode || key.Style&yaml.TaggedStyle != 0:
				value.fault = complexKey
			case key.ShortTag() == "!!merge":
				value.fault = mergeKey
			case value.fault == none && key.Anchor != "":
				value.fault = anchored
			}
			n.add(value)
		}
	case y.ShortTag() != "!!null":
		n.Shape, n.Text = Single, y.Value
		switch y.ShortTag() {
		case "!!str":
		case "!!int", "!!float":
			n.Type = Number
		default:
			n.Type = Other
		}
	}
	return n
}

// faultOf returns the feature of a YAML node that this format does not have.
func faultOf(y *yaml.Node, depth int) fault {
	switch {
	case y.Kind == yaml.AliasNode:
		return alias
	case y.Style&yaml.TaggedStyle != 0:
		return tagged
	case depth > maxDepth:
		return deep
	case y.Anchor != "":
		return anchored
	}
	return none
}

func (n *Node) add(item *Node) {
	item.Parent, item.Index = n, len(n.Items)
	n.Items = append(n.Items, item)
}

// jsonReader reads JSON token by token, because that shows duplicate keys and
// line numbers.
type jsonReader struct {
	text    []byte
	decoder *json.Decoder
	line    int
	counted int64 // bytes of text whose lines are in line
}

func parseJSON(text []byte, f Format) (*Node, *Problem) {
	var whole json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		p := &Problem{
			Code: NotReadable, Reason: f.Noun + " is not JSON: " + err.Error(),
			Remedy: "look for a missing comma, quote or bracket here or just before",
		}
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			p.Line = 1 + bytes.Count(text[:min(int(syntax.Offset), len(text))], []byte("\n"))
		}
		return nil, p
	}
	r := &jsonReader{text: text, decoder: json.NewDecoder(bytes.NewReader(text)), line: 1}
	r.decoder.UseNumber()
	return r.value(0), nil
}

// token returns the next token, and counts the lines up to its end.
func (r *jsonReader) token() json.Token {
	token, _ := r.decoder.Token()
	r.count()
	return token
}

func (r *jsonReader) count() {
	end := r.decoder.InputOffset()
	r.line += bytes.Count(r.text[r.counted:end], []byte("\n"))
	r.counted = end
}

// value reads a value. The text is known to be valid, so there are no errors.
func (r *jsonReader) value(depth int) *Node {
	if depth > maxDepth {
		n := &Node{Line: r.line, Shape: Refused, fault: deep}
		var skipped json.RawMessage
		_ = r.decoder.Decode(&skipped)
		r.count()
		return n
	}
	token := r.token()
	n := &Node{Line: r.line}
	switch value := token.(type) {
	case json.Delim:
		n.Shape = List
		if value == '{' {
			n.Shape = Section
		}
		for r.decoder.More() {
			if n.Shape == List {
				n.add(r.value(depth + 1))
				continue
			}
			key, _ := r.token().(string)
			line := r.line
			item := r.value(depth + 1)
			item.Key, item.KeyLine = key, line
			n.add(item)
		}
		r.token() // the closing bracket
	case string:
		n.Shape, n.Text = Single, value
	case json.Number:
		n.Shape, n.Text, n.Type = Single, value.String(), Number
	case bool:
		n.Shape, n.Text, n.Type = Single, strconv.FormatBool(value), Other
	}
	return n
}
