package pipeline

import (
	"fmt"
	"strings"

	"github.com/berth-gpu/berth/internal/text/document"
)

// Limits on a command, far below those of the system.
const (
	maxCommand = 8 << 10 // bytes of a text, or of one word
	maxWords   = 500
)

// command reads the command of a pipeline: a list of words, or one text for a
// shell. Compile does not use it.
func (r *reader) command(n *document.Node) []string {
	switch {
	case n.Shape == document.Nothing, n.Shape == document.Single && strings.TrimSpace(n.Text) == "":
		r.add(placeOf(n), BadValue, "command is empty", commandForms)
		return nil
	case n.Shape == document.Single:
		return []string{"sh", "-c", r.word(n)}
	case n.Shape == document.List && len(n.Items) > maxWords:
		r.add(placeOf(n), BadValue, fmt.Sprintf("command has %d words, and more than %d are not taken", len(n.Items), maxWords), "put it into a script")
		return nil
	}
	var words []string
	for item := range n.All("write the words of the command, or one text for a shell", r.report) {
		words = append(words, r.word(item))
	}
	if n.Shape == document.List && (len(words) == 0 || words[0] == "") {
		r.add(placeOf(n), BadValue, "command names no program", commandForms)
		return nil
	}
	return words
}

const commandForms = "write command: [python3, analyse.py], or one text for a shell"

// word reads one word of a command: any text that can be passed to a program.
func (r *reader) word(n *document.Node) string {
	switch {
	case n.Shape != document.Single:
		r.add(placeOf(n), BadValue, fmt.Sprintf("a word of command must be a single value, not %s", n.Shape), "put it in quotes, if it is meant as a text")
	case len(n.Text) > maxCommand:
		r.add(placeOf(n), BadValue, fmt.Sprintf("command has a text of %d bytes, and more than %d are not taken", len(n.Text), maxCommand), "put it into a script")
	case strings.ContainsRune(n.Text, 0):
		r.add(placeOf(n), BadValue, "command has a zero byte", "leave it out: no program can be given one")
	default:
		return n.Text
	}
	return ""
}
