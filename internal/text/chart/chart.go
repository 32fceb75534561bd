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

// Mark is a line across a picture, such as a threshold.
type Mark struct {
	Name  string
	Value float64
}

// Time describes a picture over time.
type Time struct {
	Title, Desc string // for people who cannot see the picture
	From, Until time.Time
	Step        time.Duration // between two points; a longer distance is a gap
	Unit        string        // text after the numbers of the axis, such as " GiB"
	Most        float64       // minimum of the upper end of the axis; 0 lets the numbers decide
	Series      []Series
	Marks       []Mark
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
