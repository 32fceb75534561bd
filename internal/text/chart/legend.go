package chart

import "unicode"

// place is the position of an entry in a legend.
type place struct{ x, y float64 }

// layout puts the entries of a legend into lines, and returns their height.
func layout(series []Series) ([]place, float64) {
	list := make([]place, len(series))
	at := place{left, line - 5}
	for i, s := range series {
		wide := 30 + textWidth(short(s.Name, mostLetters))
		if at.x > left && at.x+wide > width-right {
			at = place{left, at.y + line}
		}
		list[i] = at
		at.x += wide
	}
	if len(series) == 0 {
		return nil, 6
	}
	return list, at.y + 10
}

// textWidth estimates the width of a text, because each browser has its own fonts.
func textWidth(text string) float64 {
	wide := 0.0
	for _, r := range text {
		switch {
		case unicode.IsUpper(r):
			wide += 7.8
		case r > 0x2e80:
			wide += 12
		default:
			wide += 6.2
		}
	}
	return wide
}

const mostLetters = 32 // of a name in a legend

// legend writes the names of the series that have a place, with a sample of each.
func (p *picture) legend(list []Series, at []place, lines bool) {
	for i := range at {
		s, x, y := &list[i], at[i].x, at[i].y
		if lines {
			p.add(`<line class="line %s" x1="%s" x2="%s" y1="%[4]s" y2="%[4]s"/>`, s.class(i), num(x), num(x+16), num(y-4))
		} else {
			p.add(`<rect class="area %s" x="%s" y="%s" width="12" height="10"/>`, s.class(i), num(x), num(y-9))
		}
		p.add(`<text x="%s" y="%s">`, num(x+20), num(y))
		p.name(s.Name, mostLetters)
	}
}

// name writes a name and the end of its text. If it cuts the name, it adds the whole name
// as a title.
func (p *picture) name(name string, most int) {
	if cut := short(name, most); cut != name {
		p.add(`<title>%s</title>%s</text>`, Escape(name), Escape(cut))
	} else {
		p.add(`%s</text>`, Escape(name))
	}
}
