package pipeline

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits on a command, far below those of the system.
const (
	maxCommand = 8 << 10 // bytes of a text, or of one word
	maxWords   = 500
)

// command reads what runs a pipeline: a list of words, or one text for a
// shell. Whoever compiles the file has no use for it.
func (r *reader) command(n *yaml.Node, at place) []string {
	if !r.usable(n, at) {
		return nil
	}
	if n.Kind == yaml.ScalarNode {
		if isNull(n) || strings.TrimSpace(n.Value) == "" {
			r.add(at, BadValue, "command is empty", commandForms)
			return nil
		}
		return []string{"sh", "-c", r.word(n, at)}
	}
	items, ok := r.list(n, at, "command", "the words of the command, or one text for a shell")
	switch {
	case !ok:
		return nil
	case len(items) > maxWords:
		r.add(at, BadValue, fmt.Sprintf("command has %d words, and more than %d are not taken", len(items), maxWords), "put it into a script")
		return nil
	}
	var words []string
	for _, item := range items {
		words = append(words, r.word(item, at.on(item)))
	}
	if len(words) == 0 || words[0] == "" {
		r.add(at, BadValue, "command names no program", commandForms)
		return nil
	}
	return words
}

const commandForms = "write command: [python3, analyse.py], or one text for a shell"

// word reads one word of a command: any text that a program can be given.
func (r *reader) word(n *yaml.Node, at place) string {
	switch {
	case !r.usable(n, at):
	case n.Kind != yaml.ScalarNode || isNull(n):
		r.add(at, BadValue, fmt.Sprintf("a word of command must be a single value, not %s", shape(n)), "put it in quotes, if it is meant as a text")
	case len(n.Value) > maxCommand:
		r.add(at, BadValue, fmt.Sprintf("command has a text of %d bytes, and more than %d are not taken", len(n.Value), maxCommand), "put it into a script")
	case strings.ContainsRune(n.Value, 0):
		r.add(at, BadValue, "command has a zero byte", "leave it out: no program can be given one")
	default:
		return n.Value
	}
	return ""
}
