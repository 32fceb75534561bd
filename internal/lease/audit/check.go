package audit

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
)

// File is one file of the log.
type File struct {
	Name string
	Text []byte
}

// Order sorts the names of files by age, the oldest first, and leaves out the names of
// other files.
func Order(names []string) []string {
	ours := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, rotated := Rotated.Of(name)
		return !rotated && name != CurrentName
	})
	slices.Sort(ours) // CurrentName comes after all others: a dot comes after a dash
	return ours
}

// Checker checks a log, file after file. The zero value is ready.
type Checker struct {
	verdict api.AuditVerdict

	mark   Mark   // what the journal names
	marked bool   // the marked entry was found, whole
	oldest uint64 // the oldest entry that is kept, as the newest Rotate says

	file string
	line int

	prev    string             // hash of the line before
	seq     uint64             // of the entry before
	whole   string             // hash of the entry before
	begun   bool               // there was a line
	suspect []api.AuditProblem // lines before this one that are no entries
}

// NewChecker returns a checker that also looks for the entry that the journal names. A
// zero mark means that it names none.
func NewChecker(mark Mark) *Checker { return &Checker{mark: mark} }

// Read checks the lines of the next file.
func (c *Checker) Read(f File) {
	c.verdict.Files = append(c.verdict.Files, f.Name)
	c.file, c.line = f.Name, 0
	first, rotated := Rotated.Of(f.Name)
	for line := range bytes.Lines(f.Text) {
		c.line++
		if !bytes.HasSuffix(line, []byte("\n")) && !rotated {
			if _, whole := Parse(line); !whole {
				break // the daemon was stopped while it wrote the line, and completes it at its next start
			}
		}
		e, is := Parse(line)
		if c.line == 1 && rotated && is && e.Seq != first {
			c.complain(e.Seq, "The file begins with entry %d, and its name says %d: it was renamed, or its beginning is missing.", e.Seq, first)
		}
		c.next(e, is, Hash(line))
	}
}

// next checks one line.
func (c *Checker) next(e api.AuditEntry, is bool, hash string) {
	if !is {
		// A crash may have cut the line off. Then the next entry says so.
		c.suspect = append(c.suspect, api.AuditProblem{File: c.file, Line: c.line, Text: "The line is not an entry: it was changed."})
		c.prev, c.begun = hash, true
		return
	}
	if e.What == Torn && e.Prev == c.prev && e.After[Whole] == c.whole {
		c.suspect = nil
	}
	c.settle()
	c.verdict.Entries++
	if c.verdict.First == 0 {
		c.verdict.First = e.Seq
	}
	switch {
	case !c.begun:
	case e.Seq > c.seq+1:
		c.complain(e.Seq, "%s before entry %d.", missing(c.seq+1, e.Seq-1), e.Seq)
	case e.Seq <= c.seq:
		c.complain(e.Seq, "Entry %d follows entry %d: lines or files were exchanged.", e.Seq, c.seq)
	case e.Prev != c.prev:
		c.complain(e.Seq, "Entry %d does not carry the hash of the line before it: one of the two was changed.", e.Seq)
	}
	if !c.begun && e.Seq == 1 && e.Prev != "" {
		c.complain(e.Seq, "The first entry of all names a line before it: it was changed.")
	}
	switch e.What {
	case Lost:
		c.complain(e.Seq, "At %s the daemon found this: %s", e.Time.Format(time.RFC3339), e.Why)
	case Rotate:
		c.oldest = OldestOf(&e)
	}
	if e.Seq == c.mark.Seq {
		c.marked = hash == c.mark.Hash
		if !c.marked {
			c.complain(e.Seq, "Entry %d is not the one that the journal names: it was changed.", e.Seq)
		}
	}
	c.seq, c.prev, c.whole, c.begun = e.Seq, hash, hash, true
}

// OldestOf returns the number of the oldest entry that is kept, as a Rotate entry says; 0
// if e is not a Rotate entry.
func OldestOf(e *api.AuditEntry) uint64 {
	oldest, err := strconv.ParseUint(e.After[Oldest], 10, 64)
	if e.What != Rotate || err != nil {
		return 0
	}
	return oldest
}

// settle reports the lines that are no entries and that nothing explains.
func (c *Checker) settle() {
	c.verdict.Problems = append(c.verdict.Problems, c.suspect...)
	c.suspect = nil
}

// missing says which entries are missing.
func missing(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("Entry %d is missing", from)
	}
	return fmt.Sprintf("Entries %d to %d are missing", from, to)
}

func (c *Checker) complain(seq uint64, format string, args ...any) {
	c.verdict.Problems = append(c.verdict.Problems, api.AuditProblem{File: c.file, Line: c.line, Seq: seq, Text: fmt.Sprintf(format, args...)})
}

// Verdict returns the result of the check. Call it after the last file.
func (c *Checker) Verdict() api.AuditVerdict {
	if n := len(c.suspect); n > 0 && c.file == CurrentName {
		c.suspect = c.suspect[:n-1] // the last line of all: the next start says that it was cut off
	}
	c.settle()
	v := c.verdict
	oldest := max(c.oldest, 1)
	if v.First > oldest {
		v.Problems = append(v.Problems, api.AuditProblem{Seq: v.First, Text: fmt.Sprintf(
			"%s: a file was removed. The log should begin with entry %d.", missing(oldest, v.First-1), oldest)})
	}
	v.Last, v.Marked = c.seq, c.mark.Seq
	if c.mark.Seq > c.seq {
		v.Problems = append(v.Problems, api.AuditProblem{Seq: c.mark.Seq, Text: fmt.Sprintf(
			"The log ends with entry %d, and the journal names entry %d. %s at its end.", c.seq, c.mark.Seq, missing(c.seq+1, c.mark.Seq))})
	}
	if v.Files == nil {
		v.Files = []string{}
	}
	if v.Problems == nil {
		v.Problems = []api.AuditProblem{}
	}
	v.Sound = len(v.Problems) == 0
	return v
}
