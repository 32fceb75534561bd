// Package chart draws pictures of numbers over time as SVG: lines, stacked
// areas, bars and strips of states.
//
// The pictures have no colours of their own. They name classes, and Style has
// the rules for light, dark and printed pages. Names and titles may come from
// anybody: the package escapes them.
//
// Pure: no clock, no I/O.
package chart

import (
	"fmt"
	"html"
	"math"
	"strings"
	"time"
	"unicode"
)

// Point is a value at a time. NaN is a gap.
type Point struct {
	T time.Time
	V float64
}

// Series is a curve with a name.
type Series struct {
	Name   string
	Class  string // class in Style, such as "state-critical"; empty means the next colour
	Points []Point
}

// Time describes a picture over time.
type Time struct {
	Title, Desc string // for people who cannot see the picture
	From, Until time.Time
	Step        time.Duration // between two points; a longer distance is a gap
	Unit        string        // text after the numbers of the axis, such as " GiB"
	Most        float64       // minimum of the upper end of the axis; 0 lets the numbers decide
	Series      []Series
}

// The shape of a picture, in the units of its viewBox.
const (
	width  = 720.0
	height = 190.0 // of the plot, with its time axis
	left   = 52.0  // room for numbers
	right  = 14.0
	foot   = 20.0 // room for times
	line   = 17.0 // height of a line of a legend
)

// Colours is the number of series that have a colour of their own.
const Colours = 8

// picture collects the parts of an SVG.
type picture struct {
	strings.Builder
}

func (p *picture) add(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// begin writes the head of a picture, with its title and description.
func begin(title, desc string, height float64) *picture {
	p := &picture{}
	p.add(`<svg class="chart" viewBox="0 0 %s %s" role="img" xmlns="http://www.w3.org/2000/svg">`, num(width), num(height))
	p.add(`<title>%s</title>`, Escape(title))
	if desc != "" {
		p.add(`<desc>%s</desc>`, Escape(desc))
	}
	return p
}

func (p *picture) end() string {
	p.WriteString("</svg>\n")
	return p.String()
}

// Escape makes a name safe for HTML and SVG. It replaces characters that control a screen
// or reverse the direction of text.
func Escape(text string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return unicode.ReplacementChar
		}
		return r
	}, text))
}

// short cuts a name to most letters.
func short(name string, most int) string {
	if letters := []rune(name); len(letters) > most {
		return string(letters[:most-1]) + "…"
	}
	return name
}

// num returns a coordinate with at most one decimal.
func num(v float64) string {
	text := fmt.Sprintf("%.1f", v)
	text = strings.TrimSuffix(text, ".0")
	if text == "-0" {
		return "0"
	}
	return text
}

// class returns the class of the i-th series.
func (s *Series) class(i int) string {
	if s.Class != "" {
		return s.Class
	}
	return fmt.Sprintf("c%d", i%Colours)
}

// known reports whether a value can be drawn.
func known(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Style has the rules for the classes that pictures name. Okabe and Ito chose its colours
// for people who do not tell red from green. Lines differ in their dashes, too.
const Style = `:root{--ink:#1d2329;--soft:#5d6873;--rule:#dfe3e7;--paper:#fff;--empty:#eef0f2;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#cc79a7;--c4:#e69f00;--c5:#56b4e9;--c6:#8a6d00;--c7:#6b6f76;
--fine:#009e73;--warm:#e69f00;--hot:#d55e00;--bad:#7a0f3d;--gone:#6b6f76;--free:#e3e7ea}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ec;--soft:#9aa5b1;--rule:#333b44;--paper:#14181c;--empty:#20262c;
--c0:#4da3e0;--c1:#ff8a3d;--c2:#2fc79a;--c3:#e59cc4;--c4:#f2b632;--c5:#8ed0f7;--c6:#d1b13c;--c7:#9aa0a8;
--fine:#2fc79a;--warm:#f2b632;--hot:#ff8a3d;--bad:#ff5c8a;--gone:#9aa0a8;--free:#2a3138}}
@media print{:root{--ink:#000;--soft:#444;--rule:#ccc;--paper:#fff;--empty:#f2f2f2;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#cc79a7;--c4:#e69f00;--c5:#56b4e9;--c6:#8a6d00;--c7:#6b6f76;
--fine:#009e73;--warm:#e69f00;--hot:#d55e00;--bad:#7a0f3d;--gone:#6b6f76;--free:#e3e7ea}}
.chart{display:block;width:100%;height:auto}
.chart text{font:11px system-ui,sans-serif;fill:var(--soft)}
.spark{width:120px;height:24px;vertical-align:middle}
.grid,.tick{stroke:var(--rule);stroke-width:1;fill:none}
.line{fill:none;stroke-width:1.6;stroke-linejoin:round;stroke-linecap:round}
.area{stroke:var(--paper);stroke-width:.5}
.empty{fill:var(--empty)}
.line.c0{stroke:var(--c0)}.line.c1{stroke:var(--c1);stroke-dasharray:7 3}.line.c2{stroke:var(--c2);stroke-dasharray:3 3}
.line.c3{stroke:var(--c3);stroke-dasharray:9 3 2 3}.line.c4{stroke:var(--c4)}.line.c5{stroke:var(--c5);stroke-dasharray:5 3}
.line.c6{stroke:var(--c6);stroke-dasharray:2 3}.line.c7{stroke:var(--c7);stroke-dasharray:10 4}
.area.c0{fill:var(--c0)}.area.c1{fill:var(--c1)}.area.c2{fill:var(--c2)}.area.c3{fill:var(--c3)}
.area.c4{fill:var(--c4)}.area.c5{fill:var(--c5)}.area.c6{fill:var(--c6)}.area.c7{fill:var(--c7)}
.area.fine{fill:var(--fine)}.area.warm{fill:var(--warm)}.area.hot{fill:var(--hot)}.area.bad{fill:var(--bad)}
.area.gone{fill:var(--gone)}.area.free{fill:var(--free)}
`
