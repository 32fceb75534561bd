package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// lineWidth is the most columns of a line of an error.
const lineWidth = 80

// Code names a kind of problem. Codes are stable.
type Code string

// What can be wrong with a file by itself.
const (
	NotReadable       Code = "not_readable"        // too large, neither YAML nor JSON, or with unsupported features
	UnknownKey        Code = "unknown_key"         // a key that has no meaning here
	MissingKey        Code = "missing_key"         // a required key is missing
	BadValue          Code = "bad_value"           // a value that makes no sense
	DuplicateName     Code = "duplicate_name"      // two pipelines, steps or keys of the same name
	UnknownMemoryType Code = "unknown_memory_type" // an input or output that is no memory type
	UnknownStep       Code = "unknown_step"        // after names a step that does not exist
	Cycle             Code = "cycle"               // steps wait for each other in a circle
)

// What can be wrong with a file in the world it is compiled for.
const (
	NoGPU            Code = "no_gpu"              // it needs a GPU, and the machine has none
	NoSuchDevice     Code = "no_such_device"      // no device matches what it asks for
	TooMuchMemory    Code = "too_much_memory"     // more than any device has
	TooManySlots     Code = "too_many_slots"      // more than any device has
	NoFit            Code = "no_fit"              // each device fails for another reason
	ProbeFailed      Code = "probe_failed"        // the interpreter could not be asked what it can import
	MissingLibrary   Code = "missing_library"     // a library is not installed
	BrokenLibrary    Code = "broken_library"      // a library is installed and cannot be imported
	LibrarySeesNoGPU Code = "library_sees_no_gpu" // a library is installed and cannot use the GPUs
)

// Problem is a problem of a file, with its remedy.
type Problem struct {
	Code     Code   `json:"code"`
	Line     int    `json:"line,omitempty" doc:"In the file."`
	Pipeline string `json:"pipeline,omitempty"`
	Step     string `json:"step,omitempty"`
	Reason   string `json:"reason" doc:"What is wrong."`
	Remedy   string `json:"remedy,omitempty" doc:"What to do."`
}

// write writes the problem in lines, and the remedy below it.
func (p *Problem) write(b *strings.Builder) {
	var where []string
	if p.Line > 0 {
		where = append(where, fmt.Sprintf("line %d", p.Line))
	}
	switch {
	case p.Step != "":
		where = append(where, fmt.Sprintf("pipeline %q, step %q", p.Pipeline, p.Step))
	case p.Pipeline != "":
		where = append(where, fmt.Sprintf("pipeline %q", p.Pipeline))
	}
	lines := term.Paragraph("  ", "    ", strings.Join(append(where, p.Reason), ": "), lineWidth)
	if p.Remedy != "" {
		lines = append(lines, term.Paragraph("    → ", "      ", p.Remedy, lineWidth)...)
	}
	b.WriteString(strings.Join(lines, "\n") + "\n")
}

// Error lists all problems of a file.
type Error struct {
	Op       string // "read" or "compile"
	File     string // name of the file
	Problems []Problem
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s\n", e.Op, e.File, words.Count(len(e.Problems), "problem"))
	for i := range e.Problems {
		e.Problems[i].write(&b)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// maxProblems is more than anybody reads, and keeps the answer to a hostile file small.
const maxProblems = 100

// problems collects problems, up to the limit.
type problems []Problem

func (p *problems) full() bool { return len(*p) >= maxProblems }

func (p *problems) add(found Problem) {
	if !p.full() {
		*p = append(*p, found)
	}
}

// err returns an *Error with all problems in the order of the file, or nil.
func (p problems) err(op, file string) error {
	if len(p) == 0 {
		return nil
	}
	slices.SortStableFunc(p, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	if len(p) == maxProblems {
		p = append(p, Problem{Code: p[0].Code, Reason: "and more", Remedy: "mend these first"})
	}
	return &Error{Op: op, File: file, Problems: p}
}

// suggest returns which of the known words was perhaps meant, or else lists them.
func suggest(word, noun string, known []string) string {
	return words.Suggest(word, known, noun+": "+listed(known))
}

// listed joins names with commas. Of many, it lists the first few.
func listed(list []string) string { return words.Few(list, 12) }
