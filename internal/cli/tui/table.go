package tui

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
)

// column is one column of a list, mostly one that the lists of commands have too.
type column[T any] struct {
	title       string // of the column in package view
	name        string // shown instead of the title; empty for the title
	least, most int    // limits of its width
	drop        int    // columns with the highest number go first if there is no room; 0 to keep it always
	right       bool
	first       bool                        // it has ids, and gets what it can use before the others grow
	fitted      bool                        // it grows no wider than its rows need
	whole       int                         // it is never cut to less than its rows need, up to so many columns
	tone        tone                        // of what has no colour of its own
	cell        func(row T, width int) line // nil for the cell of the column in package view
}

// columnsOf completes the columns of a list with those of package view that have their
// titles. A row without what these are about has empty cells there.
func columnsOf[T, V any](rows []T, all []view.Column[V], about func(T) (V, bool), list []column[T]) []column[T] {
	for i := range list {
		c := &list[i]
		if at := slices.IndexFunc(all, func(v view.Column[V]) bool { return v.Title == c.title }); at >= 0 && c.cell == nil {
			c.right = c.right || all[at].Right
			c.cell = func(row T, width int) line {
				what, has := about(row)
				if !has {
					return nil
				}
				said := all[at].Cell(what)
				text := plain(said.Text)
				if c.first {
					text = idCut(text, width)
				}
				return line{{text, toneOf(said.Colour, c.tone)}}
			}
		}
		if c.whole > 0 {
			c.least = widest(rows, c.least, c.whole, c.cell)
		}
		if c.first || c.fitted {
			c.most = widest(rows, c.least, cmp.Or(c.most, longestID), c.cell)
		}
	}
	return list
}

// longestID is the width from which on ids are cut even if there is room.
const longestID = 64

// itself returns a row that is what its columns are about.
func itself[T any](row T) (T, bool) { return row, true }

// toneOf returns the tone of a colour of a table, and t for none.
func toneOf(c term.Colour, t tone) tone {
	switch c {
	case term.Red:
		return bad
	case term.Yellow:
		return warning
	case term.Green:
		return good
	case term.Dim:
		return faint
	}
	return t
}

// widest returns the width that a column needs for all rows, between least and most.
func widest[T any](rows []T, least, most int, cell func(T, int) line) int {
	width := least
	for _, r := range rows {
		if width = max(width, cell(r, most).columns()); width >= most {
			return most
		}
	}
	return width
}

// sized is a column that fits, with its width.
type sized[T any] struct {
	column[T]
	width int
}

// choose returns the columns that fit. Space that is left widens first the columns that
// come first, and then, evenly, those that can use it. Columns that matter little make
// room for those that come first.
func choose[T any](all []column[T], width int) []sized[T] {
	var kept []sized[T]
	total := -1
	for _, c := range all {
		kept = append(kept, sized[T]{c, c.least})
		total += c.least + 1
	}
	wanted := 0 // by the columns that come first, beyond their least
	for _, c := range kept {
		if c.first {
			wanted += max(0, c.most-c.least)
		}
	}
	const little = 5 // the number of a column that matters little
	for total+wanted > width {
		worst := -1
		for i, c := range kept {
			if c.drop > 0 && !c.first && (worst < 0 || c.drop >= kept[worst].drop) {
				worst = i
			}
		}
		if worst < 0 || total <= width && kept[worst].drop < little {
			break
		}
		total -= kept[worst].least + 1
		kept = append(kept[:worst:worst], kept[worst+1:]...)
	}
	for i := range kept {
		if c := &kept[i]; c.first {
			more := max(0, min(c.most-c.width, width-total))
			c.width, total = c.width+more, total+more
		}
	}
	for grown := true; grown && total < width; {
		grown = false
		for i := range kept {
			if kept[i].width < kept[i].most && total < width {
				kept[i].width++
				total++
				grown = true
			}
		}
	}
	return kept
}

// headings returns the headings of columns, with mark after the one that the rows are
// sorted by.
func headings[T any](columns []sized[T], sorted, mark string, t tone) line {
	return across(columns, func(c sized[T]) line {
		if c.title == sorted {
			return line{{cmp.Or(c.name, c.title) + mark, t}}
		}
		return line{{cmp.Or(c.name, c.title), t}}
	})
}

// cells returns the cells of a row.
func cells[T any](columns []sized[T], row T) line {
	return across(columns, func(c sized[T]) line { return c.cell(row, c.width) })
}

// across returns a cell for each column, side by side.
func across[T any](columns []sized[T], of func(sized[T]) line) line {
	var l line
	for i, c := range columns {
		cell := of(c)
		if c.right {
			cell = cell.right(c.width)
		}
		if i > 0 {
			l = append(l, span{" ", ordinary})
		}
		l = append(l, cell.fit(c.width)...)
	}
	return l
}

// rule returns a heading followed by a rule that fills the width.
func rule(head line, width int, t tone) line {
	if missing := width - head.columns() - 1; missing > 0 {
		return join(head, line{{" " + strings.Repeat("─", missing), t}})
	}
	return head.fit(width)
}
