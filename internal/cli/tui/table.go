package tui

import (
	"cmp"
	"strings"
)

// column is one column of a list.
type column[T any] struct {
	heading     string
	name        string // shown instead of the heading; empty for the heading
	least, most int    // limits of its width
	drop        int    // columns with the highest number go first if there is no room; 0 to keep it always
	right       bool
	first       bool // it gets what it can use before the others grow
	cell        func(row T, width int) line
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
		if c.heading == sorted {
			return line{{cmp.Or(c.name, c.heading) + mark, t}}
		}
		return line{{cmp.Or(c.name, c.heading), t}}
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
