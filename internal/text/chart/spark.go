package chart

import "strings"

// Spark draws one series as a small line without axes, for a cell of a table. The
// value most is at the top.
func Spark(t Time) string {
	const wide, high = 120.0, 24.0
	f := frame{picture: &picture{}, span: span{t.From, t.Until}}
	f.axis = axis{most: max(t.Most, 1e-9), top: 2, bottom: high - 2}
	f.add(`<svg class="spark" viewBox="0 0 %s %s" role="img" xmlns="http://www.w3.org/2000/svg"><title>%s</title>`, num(wide), num(high), Escape(t.Title))
	f.add(`<line class="grid" x1="0" x2="%s" y1="%[2]s" y2="%[2]s"/>`, num(wide), num(high-2))
	for i, s := range t.Series {
		for _, run := range runs(s.Points, t.Step) {
			var b strings.Builder
			for k, p := range run {
				b.WriteString(map[bool]string{true: "M", false: "L"}[k == 0])
				b.WriteString(num((f.x(p.T)-left)/(width-left-right)*wide) + " " + num(f.axis.y(p.V)))
			}
			if len(run) == 1 {
				b.WriteString("h1")
			}
			f.add(`<path class="line %s" d="%s"/>`, s.class(i), b.String())
		}
	}
	return strings.TrimSpace(f.end())
}
