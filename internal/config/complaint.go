package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Complaint is one thing that is wrong.
type Complaint struct {
	Source string // file name, "environment BERTH_…", "flag --…"; empty for the body of a request
	Line   int    // in a file; 0 if there are no lines
	Field  string // dotted name; empty if the complaint is about the whole text
	Reason string // what is wrong and what would be right
}

func (c Complaint) String() string {
	where := c.Source
	if c.Line > 0 {
		where += ":" + strconv.Itoa(c.Line)
	}
	var parts []string
	for _, part := range []string{where, c.Field, c.Reason} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// Error lists everything that is wrong.
type Error struct {
	Complaints []Complaint
}

func (e *Error) Error() string {
	if len(e.Complaints) == 1 {
		return "configuration refused: " + e.Complaints[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "configuration refused, %d settings are wrong:", len(e.Complaints))
	for _, c := range e.Complaints {
		b.WriteString("\n  " + c.String())
	}
	return b.String()
}

// allSettings says where to find all settings, if none resembles an unknown one.
const allSettings = "there is none like it; berth config lists all of them"

// maxComplaints is more than anybody reads, and keeps the answer to a hostile
// document small.
const maxComplaints = 100

// complaints collects complaints, up to the limit.
type complaints []Complaint

func (c *complaints) full() bool { return len(*c) >= maxComplaints }

func (c *complaints) add(more ...Complaint) {
	*c = append(*c, more[:min(len(more), maxComplaints-len(*c))]...)
	if c.full() {
		(*c)[maxComplaints-1] = Complaint{Reason: "and more: these come first"}
	}
}

func (c complaints) err() error {
	if len(c) == 0 {
		return nil
	}
	// Sort by source, in the order of reading, and then by line, because some complaints
	// are found when a value is read and others when it is compared.
	order := map[string]int{}
	for _, each := range c {
		if _, known := order[each.Source]; !known {
			order[each.Source] = len(order)
		}
	}
	slices.SortStableFunc(c, func(a, b Complaint) int {
		return cmp.Or(cmp.Compare(order[a.Source], order[b.Source]), cmp.Compare(a.Line, b.Line))
	})
	return &Error{Complaints: c}
}
