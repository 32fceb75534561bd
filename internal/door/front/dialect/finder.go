package dialect

import (
	"bytes"
	"encoding/json"
)

// LongestName is the longest name of a model, in bytes, as it is written in a request.
const LongestName = 512

// Finder finds the model in the JSON object of a request: the first string with the key
// model in the object itself. It reads the text in pieces of any size, each byte once, and
// keeps none of it but one short string. The zero value is ready to use.
//
// It does not check the rest of the text: that is the server's task.
type Finder struct {
	state  finderState
	depth  int
	part   part   // what comes next in the object itself
	quoted bool   // inside a string
	escape bool   // after a backslash
	text   []byte // the string so far, if it is a key or the name
	long   bool   // the string is longer than LongestName
	name   string
}

// finderState says how far a Finder is.
type finderState int

const (
	searching finderState = iota
	found
	nowhere // the object ended without a model
	wrong   // this is no object, or its model is no name
)

// part is a part of a member of the object.
type part int

const (
	beforeKey part = iota
	beforeColon
	beforeName  // the value of model
	beforeOther // the value of another key
)

// Done reports whether the text that follows does not matter any more.
func (f *Finder) Done() bool { return f.state != searching }

// Name returns the name of the model, once it is found.
func (f *Finder) Name() (name string, ok bool) { return f.name, f.state == found }

// Write reads the next piece of the text. It always takes all of it.
func (f *Finder) Write(piece []byte) (int, error) {
	for _, c := range piece {
		if f.state != searching {
			break
		}
		if f.quoted {
			f.inside(c)
		} else {
			f.outside(c)
		}
	}
	return len(piece), nil
}

// inside reads a byte of a string.
func (f *Finder) inside(c byte) {
	switch {
	case f.escape:
		f.escape = false
	case c == '\\':
		f.escape = true
	case c == '"':
		f.quoted = false
		f.endString()
		return
	}
	if f.depth != 1 || f.part != beforeKey && f.part != beforeName {
		return
	}
	if f.long = f.long || len(f.text) >= LongestName; !f.long {
		f.text = append(f.text, c)
	}
}

// endString reads the end of a string.
func (f *Finder) endString() {
	if f.depth != 1 {
		return
	}
	switch f.part {
	case beforeKey:
		f.part = beforeColon
	case beforeName:
		if name, ok := f.string(); ok && name != "" {
			f.name, f.state = name, found
		} else {
			f.state = wrong
		}
	}
}

// string returns the string that was read, without its escapes.
func (f *Finder) string() (string, bool) {
	if !f.long && !bytes.ContainsFunc(f.text, func(c rune) bool { return c < ' ' || c > '~' || c == '\\' }) {
		return string(f.text), true
	}
	var text string
	if f.long || json.Unmarshal([]byte(`"`+string(f.text)+`"`), &text) != nil {
		return "", false
	}
	return text, true
}

// outside reads a byte that is not in a string.
func (f *Finder) outside(c byte) {
	switch c {
	case ' ', '\t', '\r', '\n':
		return
	case '"':
		f.quoted, f.long, f.text = true, false, f.text[:0]
		if f.depth == 0 {
			f.state = wrong
		}
		return
	case '{', '[':
		if f.depth == 0 && c != '{' || f.depth == 1 && f.part != beforeOther {
			f.state = wrong
			return
		}
		f.depth++
		return
	case '}', ']':
		if f.depth--; f.depth == 0 {
			f.state = nowhere
		}
		return
	}
	switch {
	case f.depth == 0:
		f.state = wrong
	case f.depth > 1:
	case c == ':' && f.part == beforeColon:
		f.part = beforeOther
		if key, ok := f.string(); ok && key == "model" {
			f.part = beforeName
		}
	case c == ',' && f.part == beforeOther:
		f.part = beforeKey
	case f.part != beforeOther:
		f.state = wrong
	}
}
