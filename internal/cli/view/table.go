package view

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-gpu/berth/internal/text/term"
)

// Column is one column of the lists of one kind of thing, and what it says of a row. The
// lists of commands and those of berth top choose among the columns of their kind, and
// say how wide these may be.
type Column[T any] struct {
	term.Column
	Cell func(T) term.Cell
}

// tableOf returns the table of rows without some of its columns.
func tableOf[T any](rows []T, columns []Column[T], without ...string) *term.Table {
	columns = slices.DeleteFunc(columns, func(c Column[T]) bool { return c.Title != "" && slices.Contains(without, c.Title) })
	t := new(term.Table)
	for _, c := range columns {
		t.Columns = append(t.Columns, c.Column)
	}
	for _, r := range rows {
		cells := make([]term.Cell, len(columns))
		for i, c := range columns {
			cells[i] = c.Cell(r)
		}
		t.Add(cells...)
	}
	return t
}

// when returns the title of a column on a condition, and else "", which is the title of none.
func when(is bool, title string) string {
	if is {
		return title
	}
	return ""
}

// layout is a form of a table.
type layout struct {
	without    []string       // columns that it lacks
	least      map[string]int // to how many columns others may be folded or cut
	bar, curve int            // columns of bars and of curves; 0 for none
}

// tableIn returns the table of rows in a layout.
func tableIn[T any](l layout, rows []T, columns []Column[T]) *term.Table {
	for i, c := range columns {
		columns[i].Least = cmp.Or(l.least[c.Title], c.Least)
	}
	return tableOf(rows, columns, l.without...)
}

// richest returns the table in the first layout that fits the width, or else in the last.
func richest(width int, layouts []layout, in func(layout) *term.Table) (t *term.Table) {
	for _, l := range layouts {
		if t = in(l); t.Fits(width) {
			break
		}
	}
	return t
}

// chosen returns the columns with these titles, in this order.
func chosen[T any](all []Column[T], titles ...string) []Column[T] {
	some := make([]Column[T], 0, len(titles))
	for _, title := range titles {
		if at := slices.IndexFunc(all, func(c Column[T]) bool { return c.Title == title }); at >= 0 {
			some = append(some, all[at])
		}
	}
	return some
}

// counted writes how many things are in each state, in the order of the states. It leaves out
// states in which there are none.
func counted[S ~string](counts map[S]int, states ...S) (texts []string) {
	for _, state := range states {
		if counts[state] > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", counts[state], state))
		}
	}
	return texts
}
