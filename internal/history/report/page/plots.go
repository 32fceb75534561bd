package page

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/chart"
	"github.com/berth-gpu/berth/internal/text/term"
)

// mostLines is the most lines of a picture. With more, it shows only their range.
const mostLines = 8

// curves returns the curves with a name, in the order of the devices.
func (b *builder) curves(name string) (list []api.Curve) {
	for _, c := range b.p.Curves {
		if c.Name == name {
			list = append(list, c)
		}
	}
	order := map[string]int{}
	for i, d := range b.p.GPUs {
		order[d.GPU] = i
	}
	slices.SortStableFunc(list, func(x, y api.Curve) int { return order[x.Of] - order[y.Of] })
	return list
}

// points returns a curve for a picture, in other units.
func points(c *api.Curve, factor float64) []chart.Point {
	list := make([]chart.Point, len(c.Points))
	for i, p := range c.Points {
		list[i] = chart.Point{T: p.Time, V: p.Value * factor}
	}
	return list
}

func (b *builder) frame(title, unit string) chart.Time {
	return chart.Time{Title: title, From: b.p.From, Until: b.p.Until, Step: seconds(b.p.Step), Unit: unit}
}

// devices draws a curve for each device, or the range of all if there are many.
func (b *builder) devices(name, title, unit string, most float64) block {
	curves := b.curves(name)
	t := b.frame(title, unit)
	t.Most = most
	for i := range curves {
		t.Series = append(t.Series, chart.Series{Name: b.label(curves[i].Of), Points: points(&curves[i], 1)})
	}
	if len(curves) > mostLines {
		t.Series = extent(t.Series)
	}
	return b.drawn(t, chart.Lines)
}

// drawn returns the block of a picture over time, or an empty one without series.
func (b *builder) drawn(t chart.Time, draw func(chart.Time) string) block {
	if len(t.Series) == 0 {
		return block{}
	}
	t.Desc = describe(t.Series, t.Unit)
	return block{Title: t.Title, Picture: draw(t), Text: b.sparks(t)}
}

// extent returns the highest, the mean and the lowest of several series.
func extent(list []chart.Series) []chart.Series {
	columns := map[time.Time][]float64{}
	for _, s := range list {
		for _, p := range s.Points {
			columns[p.T] = append(columns[p.T], p.V)
		}
	}
	all := []chart.Series{{Name: "highest"}, {Name: "mean"}, {Name: "lowest"}}
	for _, t := range slices.SortedFunc(maps.Keys(columns), time.Time.Compare) {
		sum := 0.0
		for _, v := range columns[t] {
			sum += v
		}
		for i, v := range []float64{slices.Max(columns[t]), sum / float64(len(columns[t])), slices.Min(columns[t])} {
			all[i].Points = append(all[i].Points, chart.Point{T: t, V: v})
		}
	}
	return all
}

// describe says in words what a picture shows.
func describe(list []chart.Series, unit string) string {
	var parts []string
	for _, s := range list {
		if len(s.Points) == 0 {
			continue
		}
		sum, most := 0.0, math.Inf(-1)
		for _, p := range s.Points {
			sum, most = sum+p.V, max(most, p.V)
		}
		parts = append(parts, fmt.Sprintf("%s: %s%s on average, %s%s at most", s.Name, round(sum/float64(len(s.Points))), unit, round(most), unit))
	}
	return strings.Join(parts, "; ")
}

// memory draws how the memory of all devices was used.
func (b *builder) memory() block {
	t := b.frame("What the memory of all GPUs was for", " GiB")
	for _, each := range []struct{ curve, name, class string }{
		{"used", "used", "c0"}, {"unused", "leased and not used", "c5"}, {"foreign", "used under no lease", "c1"}, {"free", "free", "free"},
	} {
		for _, c := range b.curves(each.curve) {
			t.Series = append(t.Series, chart.Series{Name: each.name, Class: each.class, Points: points(&c, 1.0/1024)})
		}
	}
	return b.drawn(t, chart.Stack)
}

// users draws how much memory each user leased.
func (b *builder) users() block {
	t := b.frame("Memory that users leased", " GiB")
	for _, c := range b.curves("user") {
		t.Series = append(t.Series, chart.Series{Name: cmp.Or(c.Of, nobody), Points: points(&c, 1.0/1024)})
	}
	return b.drawn(t, chart.Stack)
}

// shownState is a state of a device in a picture.
type shownState struct {
	state gpu.State
	class string
	mark  byte // as text
}

// states are the states of devices, from the best to the worst.
var states = []shownState{
	{gpu.Optimal, "fine", '.'}, {gpu.Normal, "c5", '-'}, {gpu.Throttled, "warm", 'T'}, {gpu.Critical, "bad", 'C'}, {gpu.Unavailable, "gone", 'U'},
}

// strips draws the states of each device over time.
func (b *builder) strips() block {
	plot := chart.StripPlot{Title: "States over time", From: b.p.From, Until: b.p.Until}
	for _, s := range states {
		plot.States = append(plot.States, chart.Series{Name: string(s.state), Class: s.class})
	}
	var lines []string
	step := seconds(b.p.Step)
	for i := range b.p.GPUs {
		d := &b.p.GPUs[i]
		cells := map[time.Time][]float64{}
		for _, c := range b.p.Curves {
			at := slices.IndexFunc(states, func(s shownState) bool { return s.state == c.State })
			if c.Name != "state" || c.Of != d.GPU || at < 0 {
				continue
			}
			for _, p := range c.Points {
				if cells[p.Time] == nil {
					cells[p.Time] = make([]float64, len(states))
				}
				cells[p.Time][at] = p.Value
			}
		}
		strip := chart.Strip{Name: deviceLabel(d)}
		for end, shares := range cells {
			strip.Cells = append(strip.Cells, chart.Cell{From: end.Add(-step), Until: end, Shares: shares})
		}
		slices.SortFunc(strip.Cells, func(x, y chart.Cell) int { return x.From.Compare(y.From) })
		if len(strip.Cells) > 0 {
			plot.Strips = append(plot.Strips, strip)
			lines = append(lines, pad(deviceLabel(d), 8)+b.marks(strip.Cells))
		}
	}
	if len(plot.Strips) == 0 {
		return block{}
	}
	lines = append(lines, "", ". OPTIMAL  - NORMAL  T THROTTLED  C CRITICAL  U UNAVAILABLE; the worst of each moment")
	return block{Title: plot.Title, Picture: chart.Strips(plot), Text: lines}
}

// marks returns the worst state of each moment as a letter.
func (b *builder) marks(cells []chart.Cell) string {
	const order = ".-TCU"
	line := []byte(strings.Repeat(" ", b.columns()))
	for _, c := range cells {
		at := b.column(c.Until)
		for i, share := range c.Shares {
			if share > 0.001 && strings.IndexByte(order, states[i].mark) > strings.IndexByte(order, line[at]) {
				line[at] = states[i].mark
			}
		}
	}
	return string(line)
}

const plotWidth = 56 // of a picture as text, at most

// columns returns the width of a picture as text: no wider than there are points.
func (b *builder) columns() int {
	if b.p.Step <= 0 {
		return plotWidth
	}
	return min(max(int(math.Ceil(b.p.Until.Sub(b.p.From).Seconds()/b.p.Step)), 1), plotWidth)
}

// column returns the position of a time in a picture as text.
func (b *builder) column(t time.Time) int {
	all := b.p.Until.Sub(b.p.From)
	if all <= 0 {
		return 0
	}
	return min(max(int(float64(b.columns())*float64(t.Sub(b.p.From)-seconds(b.p.Step)/2)/float64(all)), 0), b.columns()-1)
}

// sparks draws each series as a line of text.
func (b *builder) sparks(t chart.Time) []string {
	wide, most := 0, t.Most
	rows := make([][]float64, len(t.Series))
	for i, s := range t.Series {
		wide = max(wide, term.Columns(term.Clean(s.Name)))
		sums, counts := make([]float64, b.columns()), make([]float64, b.columns())
		for _, p := range s.Points {
			at := b.column(p.T)
			sums[at], counts[at] = sums[at]+p.V, counts[at]+1
			most = max(most, p.V)
		}
		for at := range sums {
			sums[at] /= counts[at] // NaN where nothing is known
		}
		rows[i] = sums
	}
	wide = min(wide, 20)
	var lines []string
	for i, s := range t.Series {
		sum, n := 0.0, 0.0
		for _, p := range s.Points {
			sum, n = sum+p.V, n+1
		}
		lines = append(lines, fmt.Sprintf("%s  %s  %s%s", pad(term.Cut(term.Clean(s.Name), wide), wide), term.Spark(rows[i], 0, most), round(sum/max(n, 1)), t.Unit))
	}
	return append(lines, fmt.Sprintf("%s  %s to %s, from 0 to %s%s; at the right the average", strings.Repeat(" ", wide),
		b.p.From.Format("2 Jan 15:04"), b.p.Until.Format("2 Jan 15:04"), round(most), t.Unit))
}

// pad fills a text with blanks.
func pad(text string, wide int) string {
	return text + strings.Repeat(" ", max(wide-term.Columns(text), 0))
}

// nobody stands for an empty name.
const nobody = "(none)"

// bars draws rows of parts.
func bars(plot chart.BarPlot) block {
	if len(plot.Bars) == 0 {
		return block{}
	}
	most, wide := 0.0, 0
	for _, row := range plot.Bars {
		sum := 0.0
		for _, v := range row.Parts {
			sum += max(v, 0)
		}
		most, wide = max(most, sum), max(wide, min(term.Columns(term.Clean(row.Name)), 22))
	}
	var lines []string
	for _, row := range plot.Bars {
		bar := ""
		for i, v := range row.Parts {
			if most > 0 {
				bar += strings.Repeat(string([]rune("█░▒▓")[i%4]), int(math.Round(max(v, 0)/most*36)))
			}
		}
		lines = append(lines, fmt.Sprintf("%s  %s %s", pad(term.Cut(term.Clean(row.Name), wide), wide), bar, term.Clean(row.Note)))
	}
	if len(plot.Parts) > 1 {
		var keys []string
		for i, p := range plot.Parts {
			keys = append(keys, string([]rune("█░▒▓")[i%4])+" "+p.Name)
		}
		lines = append(lines, "", strings.Join(keys, "   "))
	}
	return block{Title: plot.Title, Picture: chart.Bars(plot), Text: lines}
}
