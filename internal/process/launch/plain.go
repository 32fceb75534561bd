package launch

import (
	"strings"
)

// A launch that begins before Go does (package cexec) sends the daemon what
// was typed, and gets back what to change in the environment. Both are lists of
// texts, each with a letter before it that says what it is and a zero byte after
// it. The answer ends with a dot, so that one that was cut off is not taken for
// whole.

// Question is what was typed.
type Question struct {
	Flags   []string // before the --
	Command []string // after it, the first words
	Environ []string // what is in the environment already, of what matters here
	Torch   string   // version of PyTorch, if there is one
}

// ReadQuestion reads a question; false if it is none.
func ReadQuestion(text []byte) (Question, bool) {
	var q Question
	rest, whole := strings.CutSuffix(string(text), "\x00")
	if !whole {
		return q, false
	}
	for part := range strings.SplitSeq(rest, "\x00") {
		if part == "" {
			return q, false
		}
		switch kind, value := part[0], part[1:]; kind {
		case 'f':
			q.Flags = append(q.Flags, value)
		case 'c':
			q.Command = append(q.Command, value)
		case 'e':
			q.Environ = append(q.Environ, value)
		case 't':
			q.Torch = value
		default:
			return q, false
		}
	}
	return q, len(q.Command) > 0
}

// Answer writes what to do: say something, and make these changes; see Changes.
func Answer(say string, changes []string) []byte {
	var b strings.Builder
	add := func(kind, text string) {
		// Nothing that the daemon says holds a zero byte.
		b.WriteString(kind + strings.ReplaceAll(text, "\x00", "") + "\x00")
	}
	if say != "" {
		add("m", say)
	}
	for _, c := range changes {
		if strings.Contains(c, "=") {
			add("s", c)
		} else {
			add("u", c)
		}
	}
	b.WriteString(".\x00")
	return []byte(b.String())
}
