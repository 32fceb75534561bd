package term

import (
	"math"
	"slices"
	"strings"
)

// Cell is one field of a table.
type Cell struct {
	Text   string
	Colour Colour
}

// Text returns a cell without a colour.
func Text(text string) Cell { return Cell{Text: text} }

// Painted returns a cell with a colour.
func Painted(text string, c Colour) Cell { return Cell{text, c} }

// Column says how one column of a table looks.
type Column struct {
	Title string
	Right bool // align to the right, as numbers are
	Least int  // the column may shrink to this width to make the table fit; 0 means that it never shrinks
	Fold  bool // fold what does not fit onto more lines instead of cutting it
}

// Table aligns texts, however wide their characters are.
type Table struct {
	Columns []Column
	Rows    [][]Cell
	Indent  int // blanks before every line
}

const tableGap = 2

// Add adds a row. It drops cells without a column, and leaves columns without a cell
// empty.
func (t *Table) Add(cells ...Cell) {
	row := make([]Cell, len(t.Columns))
	copy(row, cells)
	t.Rows = append(t.Rows, row)
}

// Width returns the width of the table if nothing is cut or folded.
func (t *Table) Width() int {
	_, total := t.widths(math.MaxInt)
	return total
}

// Fits reports whether the table fits into width columns when it cuts and folds
// as much as it may.
func (t *Table) Fits(width int) bool {
	_, total := t.widths(width)
	return total <= width
}

// widths returns the width of each column, and their total. If the table is too wide,
// widths folds columns first, from the right, so that names stay whole the longest, and
// then cuts columns from the left.
func (t *Table) widths(width int) (widths []int, total int) {
	total = t.Indent - tableGap
	for i, c := range t.Columns {
		w := Columns(c.Title)
		for _, row := range t.Rows {
			w = max(w, Columns(row[i].Text))
		}
		widths = append(widths, w)
		total += w + tableGap
	}
	narrow := func(i int) {
		if least := t.Columns[i].Least; least > 0 && total > width {
			narrower := max(widths[i]-(total-width), min(least, widths[i]))
			total -= widths[i] - narrower
			widths[i] = narrower
		}
	}
	for i, c := range slices.Backward(t.Columns) {
		if c.Fold {
			narrow(i)
		}
	}
	for i, c := range t.Columns {
		if !c.Fold {
			narrow(i)
		}
	}
	return widths, total
}

// Lines returns the lines of the table, the titles first.
func (t *Table) Lines(width int, p Painter) []string {
	widths, _ := t.widths(width)
	titles := make([]Cell, len(t.Columns))
	for i, c := range t.Columns {
		titles[i] = Cell{c.Title, Dim}
	}
	lines := t.row(make([]string, 0, len(t.Rows)+1), titles, widths, p)
	for _, row := range t.Rows {
		lines = t.row(lines, row, widths, p)
	}
	return lines
}

// row appends the lines of one row.
func (t *Table) row(lines []string, row []Cell, widths []int, p Painter) []string {
	texts := make([][]string, len(row))
	height := 0
	for i, c := range row {
		if t.Columns[i].Fold {
			texts[i] = fold(c.Text, widths[i])
		} else {
			texts[i] = []string{Cut(c.Text, widths[i])}
		}
		height = max(height, len(texts[i]))
	}
	var b strings.Builder
	for at := range height {
		b.Reset()
		b.WriteString(strings.Repeat(" ", t.Indent))
		for i, c := range row {
			text := ""
			if at < len(texts[i]) {
				text = texts[i][at]
			}
			pad := strings.Repeat(" ", widths[i]-Columns(text))
			if t.Columns[i].Right {
				b.WriteString(pad)
			}
			b.WriteString(p.Paint(c.Colour, text))
			if !t.Columns[i].Right {
				b.WriteString(pad)
			}
			b.WriteString(strings.Repeat(" ", tableGap))
		}
		lines = append(lines, strings.TrimRight(b.String(), " ")) // no blanks at the end of a line
	}
	return lines
}
