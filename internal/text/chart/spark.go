package chart

import (
	"strings"
	"time"
)

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
