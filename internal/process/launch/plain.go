package launch

import (
	"strings"
)

// A launch that begins before Go does (package cexec) sends the daemon what was typed,
// and receives the changes to the environment. Both are lists of texts, each with a
// letter before it that says what it is and a zero byte after it. The answer ends with a
// dot, so that a cut-off answer is not taken for a complete one.

// Question holds what was typed.
type Question struct {
	Flags   []string // before the --
	Command []string // after it, the first words
	Environ []string // the relevant part of the environment
	Torch   string   // version of PyTorch, if there is one
}

// ReadQuestion reads a question. It returns false if text is not a question.
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

// Answer returns the answer to a question: a text to print, and changes to make, see
// Changes.
func Answer(say string, changes []string) []byte {
	var b strings.Builder
	add := func(kind, text string) {
		// No text of the daemon holds a zero byte.
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
