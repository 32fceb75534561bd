package chart

import "cmp"

// Bar is a row of a picture of bars.
type Bar struct {
	Name  string
	Parts []float64 // one for each name of a part
	Note  string    // text after the bar
}

// BarPlot describes bars, one below another.
type BarPlot struct {
	Title, Desc string
	Unit        string
	Parts       []Series // the names of the parts, without points
	Bars        []Bar
}

const (
	rowHeight = 21.0
	nameWidth = 150.0
	noteWidth = 200.0
)

// Bars draws each row as a bar of its parts.
func Bars(b BarPlot) string {
	at, head := layout(b.Parts)
	if len(b.Parts) < 2 {
		at, head = nil, 4
	}
	most := 0.0
	for _, row := range b.Bars {
		most = max(most, sum(row.Parts))
	}
	p := begin(b.Title, b.Desc, head+rowHeight*float64(len(b.Bars))+4)
	room := width - right - nameWidth - noteWidth
	for i, row := range b.Bars {
		y := head + rowHeight*float64(i)
		p.add(`<text x="%s" y="%s" text-anchor="end">`, num(nameWidth-8), num(y+14))
		p.name(row.Name, 22)
		x := nameWidth
		for k, v := range row.Parts {
			if !known(v) || v <= 0 || most <= 0 {
				continue
			}
			wide := v / most * room
			p.add(`<rect class="area %s" x="%s" y="%s" width="%s" height="13"><title>%s</title></rect>`,
				b.Parts[k].class(k), num(x), num(y+3), num(wide), Escape(cmp.Or(b.Parts[k].Name, row.Name)+": "+number(v, nice(max(v, 1e-6)/100))+b.Unit))
			x += wide
		}
		p.add(`<text x="%s" y="%s">%s</text>`, num(x+6), num(y+14), Escape(short(row.Note, 34)))
	}
	p.legend(b.Parts, at, false)
	return p.end()
}

func sum(list []float64) float64 {
	all := 0.0
	for _, v := range list {
		if known(v) && v > 0 {
			all += v
		}
	}
	return all
}
