package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/words"
)

// reader takes values out of YAML and collects complaints instead of stopping
// at the first. It works on nodes, because only these know their line, and
// because nothing is expanded: an alias is a complaint, not a bomb.
type reader struct {
	file       string
	complaints []complaint
}

type complaint struct {
	line int
	text string
}

// field is a key that a mapping may have, and what reads its value.
type field struct {
	key  string
	read func(*yaml.Node)
}

func (r *reader) complain(n *yaml.Node, format string, args ...any) {
	r.complaints = append(r.complaints, complaint{n.Line, fmt.Sprintf(format, args...)})
}

// err is every complaint, in the order of the lines; nil if there is none.
func (r *reader) err() error {
	const most = 20
	slices.SortStableFunc(r.complaints, func(a, b complaint) int { return a.line - b.line })
	var list []error
	for i, c := range r.complaints {
		if i == most {
			list = append(list, fmt.Errorf("%s: and %d more", r.file, len(r.complaints)-most))
			break
		}
		list = append(list, fmt.Errorf("%s:%d: %s", r.file, c.line, c.text))
	}
	return errors.Join(list...)
}

var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`)

// document parses a file of one document; nil if it cannot.
func (r *reader) document(text []byte) *yaml.Node {
	var doc, more yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	err := dec.Decode(&doc)
	if err == io.EOF || err == nil && doc.Content[0].Tag == "!!null" {
		r.complain(&yaml.Node{Line: 1}, `the file is empty; the shortest scenario is "devices: 4"`)
		return nil
	}
	if err == nil {
		err = dec.Decode(&more)
	}
	if err == io.EOF {
		return doc.Content[0]
	}
	if err == nil {
		r.complain(&more, "the file must hold one scenario, without another one after ---")
		return nil
	}
	at, reason := 1, err.Error()
	if m := yamlError.FindStringSubmatch(reason); m != nil {
		if line, err := strconv.Atoi(m[1]); err == nil {
			at = line
		}
		reason = m[2]
	}
	r.complain(&yaml.Node{Line: at}, "this is not YAML: %s", reason)
	return nil
}

// mapping reads the values of the keys it knows and complains about the rest. It
// reports whether n is a mapping at all.
func (r *reader) mapping(n *yaml.Node, what string, fields []field) bool {
	if n.Kind != yaml.MappingNode {
		r.complain(n, "%s must have keys and values, got %s", what, show(n))
		return false
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := slices.IndexFunc(fields, func(f field) bool { return key.Kind == yaml.ScalarNode && f.key == key.Value })
		if at < 0 {
			r.complain(key, "unknown key %s; %s", show(key), suggest(key.Value, what, fields))
			continue
		}
		if line := seen[key.Value]; line > 0 {
			r.complain(key, "%s: already said on line %d", key.Value, line)
			continue
		}
		seen[key.Value] = key.Line
		fields[at].read(value)
	}
	return true
}

// suggest names the key that was meant, or all there are.
func suggest(word, what string, fields []field) string {
	var keys []string
	for _, f := range fields {
		keys = append(keys, f.key)
	}
	if near, found := words.Nearest(word, keys); found {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return what + " may have " + strings.Join(keys, ", ")
}

// has reports whether a mapping has a key.
func has(n *yaml.Node, key string) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return true
		}
	}
	return false
}

// number reads a number between two ends.
func (r *reader) number(n *yaml.Node, key string, low, high float64, unit string) float64 {
	var v float64
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Decode(&v) != nil || !(v >= low && v <= high) {
		r.complain(n, "%s: expected a number from %s to %s (%s), got %s", key, plain(low), plain(high), unit, show(n))
		return low
	}
	return v
}

// whole is number without fractions.
func (r *reader) whole(n *yaml.Node, key string, low, high int, unit string) int {
	v := r.number(n, key, float64(low), float64(high), unit)
	if v != math.Trunc(v) {
		r.complain(n, "%s: expected a whole number, got %s", key, show(n))
		return low
	}
	return int(v)
}

func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// duration reads "90s", "1m30s", or a plain number of seconds.
func (r *reader) duration(n *yaml.Node, key string, shortest time.Duration) time.Duration {
	var d time.Duration
	seconds, err := strconv.ParseFloat(n.Value, 64)
	if err == nil && seconds >= 0 && seconds <= longest.Seconds() {
		d = time.Duration(seconds * float64(time.Second))
	} else {
		d, err = time.ParseDuration(n.Value)
	}
	if n.Kind != yaml.ScalarNode || err != nil || d < shortest || d > longest {
		r.complain(n, "%s: expected a duration such as 90s or 2m30s, at least %v and at most a year, got %s", key, shortest, show(n))
		return shortest
	}
	return d
}

// memory reads an amount of memory, which may be none.
func (r *reader) memory(n *yaml.Node, key string) float64 {
	if n.Kind == yaml.ScalarNode && n.Value == "0" {
		return 0
	}
	amount, err := gpu.ParseMiB(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		r.complain(n, "%s: expected an amount of memory such as 2048 (MiB) or 4GiB, got %s", key, show(n))
	}
	return float64(amount)
}

// text reads a plain word or sentence.
func (r *reader) text(n *yaml.Node, key, what string) string {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		r.complain(n, "%s: expected %s, got %s", key, what, show(n))
		return ""
	}
	return n.Value
}

// yes reads a switch that can only be on: to have it off, leave it out.
func (r *reader) yes(n *yaml.Node, key string) bool {
	if n.Kind != yaml.ScalarNode || n.Value != "true" {
		r.complain(n, "%s: expected true, got %s (say how long with for)", key, show(n))
	}
	return true
}

// show says what is there instead of what was expected.
func show(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "keys and values"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias, which scenarios do not have"
	case n.Tag == "!!null":
		return "nothing"
	}
	return strconv.Quote(clip(n.Value))
}
