package chart

import (
	"math"
	"slices"
	"strings"
	"time"
)

// frame is the area of the plot in a picture over time.
type frame struct {
	*picture
	span
	axis axis
	at   []place // of the legend
}

func newFrame(t *Time, most float64) frame {
	at, head := layout(t.Series)
	if len(t.Series) == 1 && t.Series[0].Name == "" {
		at, head = nil, 8
	}
	f := frame{picture: begin(t.Title, t.Desc, head+height), span: span{t.From, t.Until}, at: at}
	f.axis = newAxis(max(most, t.Most), head, head+height-foot, t.Unit)
	f.axis.draw(f.picture)
	f.span.draw(f.picture, head, f.axis.bottom)
	return f
}

// Lines draws each series as a line.
func Lines(t Time) string {
	most := 0.0
	for _, s := range t.Series {
		for _, p := range s.Points {
			if known(p.V) {
				most = max(most, p.V)
			}
		}
	}
	f := newFrame(&t, most)
	f.lines(&t, f.x, "h1.5")
	f.legend(t.Series, f.at, true)
	return f.end()
}

// runs returns the ranges of points that follow each other without a gap.
func runs(points []Point, step time.Duration) (list [][2]int) {
	begin := 0
	cut := func(end int) {
		if end > begin {
			list = append(list, [2]int{begin, end})
		}
	}
	for i, p := range points {
		switch {
		case !known(p.V):
			cut(i)
			begin = i + 1
		case i > begin && step > 0 && p.T.Sub(points[i-1].T) > step*3/2:
			cut(i)
			begin = i
		}
	}
	cut(len(points))
	return list
}

// lines writes the line of each series. A single point is the line dot.
func (f *frame) lines(t *Time, x func(time.Time) float64, dot string) {
	for i, s := range t.Series {
		for _, r := range runs(s.Points, t.Step) {
			path := f.path(s.Points[r[0]:r[1]], x)
			if r[1]-r[0] == 1 {
				path += dot
			}
			f.add(`<path class="line %s" d="%s"/>`, s.class(i), path)
		}
	}
}

// path returns the line through points.
func (f *frame) path(run []Point, x func(time.Time) float64) string {
	var b strings.Builder
	for i, p := range run {
		b.WriteString(map[bool]string{true: "M", false: "L"}[i == 0])
		b.WriteString(num(x(p.T)) + " " + num(f.axis.y(p.V)))
	}
	return b.String()
}

// Stack draws series as areas on top of each other, the first at the bottom. Their points
// must be at the same times; an unknown value counts as 0, and a time at which no value
// is known is a gap.
func Stack(t Time) string {
	borders := make([][]Point, len(t.Series)) // the upper border of each series
	var base []Point                          // the lower border of all; NaN where no value is known
	most := 0.0
	for _, p := range longest(t.Series) {
		height, bottom := 0.0, math.NaN()
		for i, s := range t.Series {
			if v, there := valueAt(s.Points, p.T); there {
				height, bottom = height+max(v, 0), 0
			}
			borders[i] = append(borders[i], Point{p.T, height})
		}
		base = append(base, Point{p.T, bottom})
		most = max(most, height)
	}
	f := newFrame(&t, most)
	for _, r := range runs(base, t.Step) {
		below := base[r[0]:r[1]]
		for i, s := range t.Series {
			border := borders[i][r[0]:r[1]]
			f.add(`<path class="area %s" d="%s"/>`, s.class(i), f.band(border, below))
			below = border
		}
	}
	f.legend(t.Series, f.at, false)
	return f.end()
}

// longest returns the points of the longest series, which has all times, in order.
func longest(list []Series) (points []Point) {
	for _, s := range list {
		if len(s.Points) > len(points) {
			points = s.Points
		}
	}
	return points
}

// valueAt returns the value of a series at a time, and false if it is not known.
func valueAt(points []Point, at time.Time) (float64, bool) {
	i, there := slices.BinarySearchFunc(points, at, func(p Point, t time.Time) int { return p.T.Compare(t) })
	if !there || !known(points[i].V) {
		return 0, false
	}
	return points[i].V, true
}

// band returns the outline of the area between two borders.
func (f *frame) band(above, below []Point) string {
	back := slices.Clone(below)
	slices.Reverse(back)
	return f.path(slices.Concat(above, back), f.x) + "Z"
}

// Spark draws one series as a small line without axes, for a cell of a table. The
// value most is at the top.
func Spark(t Time) string {
	const wide, high = 120.0, 24.0
	f := frame{picture: &picture{}, span: span{t.From, t.Until}}
	f.axis = axis{most: max(t.Most, 1e-9), top: 2, bottom: high - 2}
	f.add(`<svg class="spark" viewBox="0 0 %s %s" role="img" xmlns="http://www.w3.org/2000/svg"><title>%s</title>`, num(wide), num(high), Escape(t.Title))
	f.add(`<line class="grid" x1="0" x2="%s" y1="%[2]s" y2="%[2]s"/>`, num(wide), num(high-2))
	f.lines(&t, func(at time.Time) float64 { return (f.x(at) - left) / (width - left - right) * wide }, "h1")
	return strings.TrimSpace(f.end())
}
