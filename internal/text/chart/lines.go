package chart

import (
	"math"
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
	at, head := layout(namesOf(t.Series))
	if len(t.Series) == 1 && t.Series[0].Name == "" {
		at, head = nil, 8
	}
	f := frame{picture: begin(t.Title, t.Desc, head+height), span: span{t.From, t.Until}, at: at}
	f.axis = newAxis(max(most, t.Most), head, head+height-foot, t.Unit)
	f.axis.draw(f.picture)
	f.span.draw(f.picture, head, f.axis.bottom)
	return f
}

func (f *frame) marks(list []Mark) {
	for _, m := range list {
		if !known(m.Value) || m.Value > f.axis.most {
			continue
		}
		y := f.axis.y(m.Value)
		f.add(`<line class="mark" x1="%s" x2="%s" y1="%[3]s" y2="%[3]s"/>`, num(left), num(width-right), num(y))
		f.add(`<text class="mark" x="%s" y="%s" text-anchor="end">%s</text>`, num(width-right), num(y-3), Escape(m.Name))
	}
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
	for _, m := range t.Marks {
		most = max(most, m.Value)
	}
	f := newFrame(&t, most)
	for i, s := range t.Series {
		for _, run := range runs(s.Points, t.Step) {
			f.add(`<path class="line %s" d="%s"/>`, s.class(i), f.path(run))
		}
	}
	f.marks(t.Marks)
	if f.at != nil {
		f.legend(t.Series, f.at, true)
	}
	return f.end()
}

// runs splits points where one is missing.
func runs(points []Point, step time.Duration) (list [][]Point) {
	begin := 0
	cut := func(end int) {
		if end > begin {
			list = append(list, points[begin:end])
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

// path returns the line through points. A single point is a short line.
func (f *frame) path(run []Point) string {
	var b strings.Builder
	for i, p := range run {
		b.WriteString(map[bool]string{true: "M", false: "L"}[i == 0])
		b.WriteString(num(f.x(p.T)) + " " + num(f.axis.y(p.V)))
	}
	if len(run) == 1 {
		b.WriteString("h1.5")
	}
	return b.String()
}

// Stack draws series as areas on top of each other, the first at the bottom. Their points
// must be at the same times; an unknown value counts as 0, and a time at which no value
// is known is a gap.
func Stack(t Time) string {
	times, sums := []time.Time{}, [][]float64{} // the upper border of each series
	most := 0.0
	for _, at := range moments(t.Series) {
		column, any, sum := make([]float64, len(t.Series)), false, 0.0
		for i, s := range t.Series {
			if v, there := valueAt(s.Points, at); there {
				any, sum = true, sum+max(v, 0)
			}
			column[i] = sum
		}
		if !any {
			column = nil
		}
		times, sums = append(times, at), append(sums, column)
		most = max(most, sum)
	}
	f := newFrame(&t, most)
	for _, r := range columnRuns(times, sums, t.Step) {
		for i, s := range t.Series {
			f.add(`<path class="area %s" d="%s"/>`, s.class(i), f.band(times[r[0]:r[1]], sums[r[0]:r[1]], i))
		}
	}
	f.marks(t.Marks)
	if f.at != nil {
		f.legend(t.Series, f.at, false)
	}
	return f.end()
}

// moments returns the times of the longest series, which has all of them, in order.
func moments(list []Series) []time.Time {
	var longest []Point
	for _, s := range list {
		if len(s.Points) > len(longest) {
			longest = s.Points
		}
	}
	times := make([]time.Time, len(longest))
	for i, p := range longest {
		times[i] = p.T
	}
	return times
}

// valueAt returns the value of a series at a time.
func valueAt(points []Point, at time.Time) (float64, bool) {
	low, high := 0, len(points)
	for low < high {
		if mid := (low + high) / 2; points[mid].T.Before(at) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == len(points) || !points[low].T.Equal(at) || !known(points[low].V) {
		return math.NaN(), false
	}
	return points[low].V, true
}

// columnRuns returns the ranges of columns that follow each other without a gap.
func columnRuns(times []time.Time, columns [][]float64, step time.Duration) (list [][2]int) {
	begin := -1
	for i := range times {
		gap := columns[i] == nil || begin >= 0 && i > begin && step > 0 && times[i].Sub(times[i-1]) > step*3/2
		if gap && begin >= 0 {
			list, begin = append(list, [2]int{begin, i}), -1
		}
		if columns[i] != nil && begin < 0 {
			begin = i
		}
	}
	if begin >= 0 {
		list = append(list, [2]int{begin, len(times)})
	}
	return list
}

// band returns the outline of one area.
func (f *frame) band(times []time.Time, sums [][]float64, i int) string {
	var b strings.Builder
	for k, at := range times {
		b.WriteString(map[bool]string{true: "M", false: "L"}[k == 0])
		b.WriteString(num(f.x(at)) + " " + num(f.axis.y(sums[k][i])))
	}
	for k := len(times) - 1; k >= 0; k-- {
		below := 0.0
		if i > 0 {
			below = sums[k][i-1]
		}
		b.WriteString("L" + num(f.x(times[k])) + " " + num(f.axis.y(below)))
	}
	return b.String() + "Z"
}
