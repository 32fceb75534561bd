package doctor

// Finding is the result of one examination.
type Finding struct {
	Topic string `json:"topic"` // a word or two, as in "driver"
	Grade Grade  `json:"grade"`
	Text  string `json:"text"`           // what was found
	Next  string `json:"next,omitempty"` // what to do about it
}

// Grade says how bad a finding is.
type Grade string

// The grades. A machine without a GPU gets a note: berth runs there too.
const (
	Fine   Grade = "ok"
	Notice Grade = "note"
	Broken Grade = "broken"
)

// Count returns the number of findings with a grade.
func Count(findings []Finding, g Grade) int {
	n := 0
	for _, f := range findings {
		if f.Grade == g {
			n++
		}
	}
	return n
}
