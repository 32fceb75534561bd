package chart

import (
	"math"
	"slices"
	"time"
)

// Cell is a piece of a strip, with the share of its time that each state took.
type Cell struct {
	From, Until time.Time
	Shares      []float64 // one for each state
}

// Strip shows the states of one thing over time.
type Strip struct {
	Name  string
	Cells []Cell
}

// StripPlot describes strips of states, one below another.
type StripPlot struct {
	Title, Desc string
	From, Until time.Time
	States      []Series // the names of the states, without points
	Strips      []Strip
}

const stripHeight = 20.0

// Strips draws each strip as a row of columns, in which each state has its share of the
// height, with the last state on top. It draws nothing where there is no cell.
func Strips(s StripPlot) string {
	at, head := layout(s.States)
	bottom := head + stripHeight*float64(len(s.Strips))
	p := begin(s.Title, s.Desc, bottom+foot)
	over := span{s.From, s.Until}
	over.draw(p, head, bottom)
	for i, strip := range s.Strips {
		y := head + stripHeight*float64(i)
		p.add(`<text x="%s" y="%s" text-anchor="end">`, num(left-6), num(y+13))
		p.name(strip.Name, 8)
		p.add(`<rect class="empty" x="%s" y="%s" width="%s" height="14"/>`, num(left), num(y+2), num(width-left-right))
		for _, c := range joined(strip.Cells) {
			x, low := over.x(c.From), y+16
			for k, share := range c.Shares {
				if !known(share) || share <= 0 || k >= len(s.States) {
					continue
				}
				high := min(max(share*14, 1), low-y-2)
				p.add(`<rect class="area %s" x="%s" y="%s" width="%s" height="%s"/>`, s.States[k].class(k), num(x), num(low-high), num(max(over.x(c.Until)-x, 0.5)), num(high))
				low -= high
			}
		}
	}
	p.legend(s.States, at, false)
	return p.end()
}

// joined merges equal cells that follow each other.
func joined(cells []Cell) (list []Cell) {
	for _, c := range cells {
		if n := len(list); n > 0 && list[n-1].Until.Equal(c.From) && alike(list[n-1].Shares, c.Shares) {
			list[n-1].Until = c.Until
			continue
		}
		list = append(list, c)
	}
	return list
}

func alike(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return !(math.Abs(x-y) > 0.01) })
}
