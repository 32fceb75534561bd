package pipeline

import (
	"slices"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
)

// lineWidth is what a terminal has.
const lineWidth = 80

// grid lines texts up, however wide their characters are.
type grid struct {
	columns []column
	rows    [][]string
}

type column struct {
	title string
	right bool // aligned to the right, as numbers are
	least int  // it may be folded to so many columns to make the line fit; 0: never
}

const gridGap = 2

// add takes a row and drops what there is no column for.
func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells[:len(g.columns)]) }

// widths is how wide each column is, with those that may be folded made as
// narrow as the line needs: first those of prose, from the right, so that names
// stay whole the longest.
func (g *grid) widths() []int {
	widths := make([]int, len(g.columns))
	total := 0
	for i, c := range g.columns {
		widths[i] = columnsOf(c.title)
		for _, row := range g.rows {
			widths[i] = max(widths[i], columnsOf(row[i]))
		}
		total += gridGap + widths[i]
	}
	for i, c := range slices.Backward(g.columns) {
		if c.least > 0 && total > lineWidth {
			narrower := max(widths[i]-(total-lineWidth), min(c.least, widths[i]))
			total -= widths[i] - narrower
			widths[i] = narrower
		}
	}
	return widths
}

func (g *grid) write(b *strings.Builder) {
	widths := g.widths()
	titles := make([]string, len(g.columns))
	for i, c := range g.columns {
		titles[i] = c.title
	}
	for _, row := range append([][]string{titles}, g.rows...) {
		cells := make([][]string, len(row))
		height := 0
		for i, text := range row {
			cells[i] = folded(text, widths[i])
			height = max(height, len(cells[i]))
		}
		for at := range height {
			line := ""
			for i, cell := range cells {
				text := ""
				if at < len(cell) {
					text = cell[at]
				}
				pad := strings.Repeat(" ", widths[i]-columnsOf(text))
				if g.columns[i].right {
					text = pad + text
				} else {
					text += pad
				}
				line += strings.Repeat(" ", gridGap) + text
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
}

// folded breaks a text into lines of so many columns: after blanks, arrows
// and underscores, and a word that is longer than a line anywhere.
func folded(text string, width int) []string {
	var lines []string
	line := ""
	for piece := range strings.SplitSeq(strings.NewReplacer(" ", " \n", "→", "→\n", "_", "_\n").Replace(text), "\n") {
		if line != "" && columnsOf(line+strings.TrimRight(piece, " ")) > width {
			lines, line = append(lines, strings.TrimRight(line, " ")), ""
		}
		for line += piece; columnsOf(strings.TrimRight(line, " ")) > width; {
			head := plainWidth().Truncate(line, width, "")
			lines, line = append(lines, head), line[len(head):]
		}
	}
	return append(lines, strings.TrimRight(line, " "))
}

// wrapped breaks a text into lines, which begin with first, and then with next;
// a word longer than a line stays whole, so that it can be copied.
func wrapped(b *strings.Builder, first, next, text string) {
	line := first
	empty := true
	for word := range strings.FieldsSeq(text) {
		if !empty && columnsOf(line)+1+columnsOf(word) > lineWidth {
			b.WriteString(line + "\n")
			line, empty = next, true
		}
		if !empty {
			line += " "
		}
		line += word
		empty = false
	}
	b.WriteString(line + "\n")
}

// columnsOf counts the columns a text takes on a terminal, the same under
// every locale.
func columnsOf(s string) int { return plainWidth().StringWidth(s) }

func plainWidth() *runewidth.Condition { return &runewidth.Condition{StrictEmojiNeutral: true} }

// clean takes out what a terminal would act on.
func clean(s string) string {
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, s)
}
