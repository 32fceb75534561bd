package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/berth-gpu/berth/internal/text/chart"
	"github.com/berth-gpu/berth/internal/text/words"
)

// The shape of a picture, in the units of its viewBox.
const (
	width, height = 720.0, 330.0
	left, right   = 62.0, 26.0
	head, foot    = 14.0, 40.0
	legend        = 18.0 // a line of it
)

// draw draws curves with logarithmic axes, as SVG that can stand alone. It has colours for
// light and dark pages; where a style is refused, it is a light picture.
func draw(s subject, curves []curve, where string) string {
	var b strings.Builder
	top := head + legend*float64(len(curves)) + 8
	f := frame{top: top, bottom: top + height - foot - head}
	f.fit(curves)
	all := f.bottom + foot
	fmt.Fprintf(&b, `<svg class="chart" viewBox="0 0 %g %g" width="%g" height="%g" role="img" xmlns="http://www.w3.org/2000/svg">`, width, all, width, all)
	fmt.Fprintf(&b, "\n<title>The cost of growth: %s</title>\n<style>%s.paper{fill:var(--paper)}.dot{fill:var(--ink)}</style>\n", chart.Escape(s.axis), chart.Style)
	fmt.Fprintf(&b, `<rect class="paper" width="%g" height="%g" fill="#fff"/>`+"\n", width, all)
	f.grid(&b)
	fmt.Fprintf(&b, `<text x="%g" y="%g" text-anchor="middle" fill="#1d2329">%s</text>`+"\n", (left+width-right)/2, all-6, chart.Escape(s.axis))
	fmt.Fprintf(&b, `<text x="%g" y="%g" text-anchor="end" fill="#5d6873">%s</text>`+"\n", width-right, head, chart.Escape(where))
	for i, c := range curves {
		f.curve(&b, i, c)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// colours are those of chart.Style for light pages, where that is refused.
var colours = [...]string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d00", "#6b6f76"}

// frame is the area of the curves. Its ends are decades.
type frame struct {
	top, bottom          float64
	most                 int // of the number: 10^most
	leastCost, greatCost int // of the cost in seconds: 10^leastCost to 10^greatCost
}

func (f *frame) fit(curves []curve) {
	least, great := math.Inf(1), math.Inf(-1)
	most := 10.0
	for _, c := range curves {
		for _, p := range c.points {
			most = max(most, p.n)
			if p.cost > 0 {
				least, great = min(least, p.cost.Seconds()), max(great, p.cost.Seconds())
			}
		}
	}
	f.most = int(math.Ceil(math.Log10(most) - 1e-9))
	f.leastCost, f.greatCost = int(math.Floor(math.Log10(least)+1e-9)), int(math.Ceil(math.Log10(great)-1e-9))
	if math.IsInf(least, 1) {
		f.leastCost, f.greatCost = -6, -5
	}
	f.greatCost = max(f.greatCost, f.leastCost+1)
}

func (f *frame) x(n float64) float64 {
	return left + (width-right-left)*math.Log10(n)/float64(f.most)
}

func (f *frame) y(seconds float64) float64 {
	return f.bottom - (f.bottom-f.top)*(math.Log10(seconds)-float64(f.leastCost))/float64(f.greatCost-f.leastCost)
}

func (f *frame) grid(b *strings.Builder) {
	for d := 0; d <= f.most; d++ {
		n := math.Pow10(d)
		fmt.Fprintf(b, `<path class="grid" fill="none" stroke="#dfe3e7" d="M%.1f %.1fV%.1f"/><text x="%.1f" y="%.1f" text-anchor="middle" fill="#5d6873">%s</text>`+"\n",
			f.x(n), f.top, f.bottom, f.x(n), f.bottom+16, words.Thousands(int64(n)))
	}
	for d := f.leastCost; d <= f.greatCost; d++ {
		seconds := math.Pow10(d)
		fmt.Fprintf(b, `<path class="grid" fill="none" stroke="#dfe3e7" d="M%g %.1fH%g"/><text x="%g" y="%.1f" text-anchor="end" fill="#5d6873">%s</text>`+"\n",
			left, f.y(seconds), width-right, left-6, f.y(seconds)+4, cost(seconds))
	}
}

// cost writes a decade of time with its unit.
func cost(seconds float64) string {
	for _, u := range []struct {
		of   float64
		unit string
	}{{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}} {
		if seconds > u.of*0.99 {
			return fmt.Sprintf("%.0f %s", seconds/u.of, u.unit)
		}
	}
	return time.Duration(seconds * 1e9).String()
}

func (f *frame) curve(b *strings.Builder, i int, c curve) {
	colour := colours[i%len(colours)]
	var path strings.Builder
	verb := "M"
	for _, p := range c.points {
		if p.cost <= 0 {
			verb = "M"
			continue
		}
		x, y := f.x(p.n), f.y(p.cost.Seconds())
		fmt.Fprintf(&path, "%s%.1f %.1f", verb, x, y)
		fmt.Fprintf(b, `<circle class="dot" cx="%.1f" cy="%.1f" r="2.5" fill="#1d2329"/>`, x, y)
		verb = "L"
	}
	name := c.name
	if e, known := exponent(c.points); known {
		name += fmt.Sprintf(", n^%.2f", e)
	}
	at := head + legend*float64(i)
	fmt.Fprintf(b, `<path class="line c%d" fill="none" stroke="%s" d="%s"/>`, i%len(colours), colour, path.String())
	fmt.Fprintf(b, `<path class="line c%d" fill="none" stroke="%s" d="M%g %gh28"/><text x="%g" y="%g" fill="#1d2329">%s</text>`+"\n",
		i%len(colours), colour, left, at-4, left+36, at, chart.Escape(name))
}
