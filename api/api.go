// Package api has the types of requests to the daemon and of its answers.
//
// They are the contract with programs in other languages, so a field here never
// changes its name or its meaning.
//
// Pure: no clock, no I/O.
package api

import "fmt"

// Problem is an error of the API: an RFC 9457 problem document with a stable code.
type Problem struct {
	Type   string         `json:"type" doc:"Always about:blank; the code tells problems apart."`
	Title  string         `json:"title" doc:"The HTTP status in words."`
	Status int            `json:"status"`
	Code   string         `json:"code" doc:"Stable name of the problem, for programs."`
	Detail string         `json:"detail" doc:"What is wrong and what to do about it, for people."`
	Fields []FieldProblem `json:"fields,omitempty" doc:"All fields that are wrong."`
	Extra  map[string]any `json:"extra,omitempty" doc:"The numbers behind detail."`
}

// FieldProblem is one wrong field.
type FieldProblem struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

func (p *Problem) Error() string {
	text := p.Detail
	for _, f := range p.Fields {
		text += fmt.Sprintf("\n  %s: %s", f.Field, f.Detail)
	}
	return text
}

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the media type of a problem document.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// More says whether a list continues beyond an answer. GET paths of lists take limit, the
// maximum number of entries in an answer, and after, the value of next in the previous
// answer.
type More struct {
	Next string `json:"next,omitempty" doc:"The list goes on: ask again with after and this text. Absent: this is the end."`
	Note string `json:"note,omitempty" doc:"For people: why the answer does not have everything, although no limit was given."`
}
