package cli

import "github.com/berth-gpu/berth/internal/term"

// Finding is one thing that doctor looked at.
type Finding struct {
	Topic string `json:"topic"` // a word or two, as in "driver"
	Grade Grade  `json:"grade"`
	Text  string `json:"text"`           // what was found
	Next  string `json:"next,omitempty"` // what to do about it
}

// Grade is how a finding is to be taken.
type Grade string

// The grades. A machine without a GPU gets a note: berth runs there too.
const (
	Fine   Grade = "ok"
	Notice Grade = "note"
	Broken Grade = "broken"
)

func (g Grade) mark() (string, term.Colour) {
	switch g {
	case Fine:
		return "✓", term.Green
	case Notice:
		return "!", term.Yellow
	}
	return "✗", term.Red
}
