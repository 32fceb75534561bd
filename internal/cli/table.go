package cli

import "strings"

// cell is one field of a table.
type cell struct {
	text   string
	colour colour
}

// column is how one column of a table looks.
type column struct {
	title string
	right bool // aligned to the right, as numbers are
	least int  // it may be cut to so many columns to make the table fit; 0: never
}

// table lines texts up, however wide their characters are.
type table struct {
	columns []column
	rows    [][]cell
}

const tableGap = 2

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// widths is how wide each column is, with the columns that may be cut made so
// narrow that the table fits into so many columns if it can.
func (t *table) widths(width int) (widths []int, fits bool) {
	total := -tableGap
	for i, c := range t.columns {
		w := columns(c.title)
		for _, row := range t.rows {
			w = max(w, columns(row[i].text))
		}
		widths = append(widths, w)
		total += w + tableGap
	}
	for i, c := range t.columns {
		if c.least == 0 || total <= width {
			continue
		}
		narrower := max(widths[i]-(total-width), min(c.least, widths[i]))
		total -= widths[i] - narrower
		widths[i] = narrower
	}
	return widths, total <= width
}

// lines writes the table, the titles first.
func (t *table) lines(width int, p painter) []string {
	widths, _ := t.widths(width)
	titles := make([]cell, len(t.columns))
	for i, c := range t.columns {
		titles[i] = cell{c.title, dim}
	}
	out := []string{t.line(titles, widths, p)}
	for _, row := range t.rows {
		out = append(out, t.line(row, widths, p))
	}
	return out
}

func (t *table) line(row []cell, widths []int, p painter) string {
	var b strings.Builder
	for i, c := range row {
		text := cut(c.text, widths[i])
		pad := strings.Repeat(" ", widths[i]-columns(text))
		if t.columns[i].right {
			b.WriteString(pad)
		}
		b.WriteString(p.paint(c.colour, text))
		if !t.columns[i].right {
			b.WriteString(pad)
		}
		b.WriteString(strings.Repeat(" ", tableGap))
	}
	return strings.TrimRight(b.String(), " ") // no blanks at the end of a line
}
