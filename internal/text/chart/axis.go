package chart

import (
	"math"
	"strconv"
	"time"
)

// axis turns values into heights.
type axis struct {
	most, step  float64
	top, bottom float64
	unit        string
}

// newAxis returns an axis from 0 to at least most, with about four ticks.
func newAxis(most, top, bottom float64, unit string) axis {
	if !known(most) || most < 1e-9 || most > 1e18 { // nothing to draw, or no measured value
		most = 1
	}
	step := nice(most / 4)
	return axis{most: math.Ceil(most/step-1e-9) * step, step: step, top: top, bottom: bottom, unit: unit}
}

// nice returns the least of 1, 2, 2.5 or 5 times a power of ten that is not below v.
func nice(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, times := range []float64{1, 2, 2.5, 5} {
		if times*power >= v*(1-1e-9) {
			return times * power
		}
	}
	return 10 * power
}

func (a *axis) y(v float64) float64 {
	return a.bottom - min(max(v, 0), a.most)/a.most*(a.bottom-a.top)
}

// draw writes the lines and numbers of the axis.
func (a *axis) draw(p *picture) {
	for i := 0; float64(i)*a.step <= a.most*(1+1e-9); i++ {
		v := float64(i) * a.step
		p.add(`<line class="grid" x1="%s" x2="%s" y1="%[3]s" y2="%[3]s"/>`, num(left), num(width-right), num(a.y(v)))
		p.add(`<text x="%s" y="%s" text-anchor="end">%s%s</text>`, num(left-6), num(a.y(v)+3.5), number(v, a.step), Escape(a.unit))
	}
}

// number returns v with the decimals that a step needs, and thousands as k.
func number(v, step float64) string {
	suffix := ""
	switch {
	case v >= 10e6:
		v, step, suffix = v/1e6, step/1e6, "M"
	case v >= 10e3:
		v, step, suffix = v/1e3, step/1e3, "k"
	}
	decimals := 0
	for s := step; decimals < 6 && math.Abs(s-math.Round(s)) > 1e-9; s *= 10 {
		decimals++
	}
	return strconv.FormatFloat(v, 'f', decimals, 64) + suffix
}

// span turns times into distances.
type span struct{ from, until time.Time }

func (s span) x(t time.Time) float64 {
	all := s.until.Sub(s.from)
	if all <= 0 {
		return left
	}
	share := float64(t.Sub(s.from)) / float64(all)
	return left + min(max(share, 0), 1)*(width-left-right)
}

// pauses are the readable distances between ticks.
var pauses = []time.Duration{
	time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, 7 * day, 14 * day, 28 * day, 56 * day, 112 * day, 365 * day,
}

const (
	day       = 24 * time.Hour
	mostTicks = 9
)

// ticks returns the times that an axis names, and their format. They are full hours and
// days of the time zone of from.
func (s span) ticks() (list []time.Time, format string) {
	all := s.until.Sub(s.from)
	if all <= 0 {
		return nil, ""
	}
	pause := pauses[len(pauses)-1]
	for _, p := range pauses {
		if all/p < mostTicks {
			pause = p
			break
		}
	}
	switch {
	case pause < time.Minute:
		format = "15:04:05"
	case pause < day && all <= day:
		format = "15:04"
	case pause < day:
		format = "Mon 15:04"
	case all < 300*day:
		format = "2 Jan"
	default:
		format = "Jan 2006"
	}
	year, month, date := s.from.Date()
	midnight := time.Date(year, month, date, 0, 0, 0, 0, s.from.Location())
	for i := 0; ; i++ {
		next := midnight.Add(time.Duration(i) * pause)
		if pause >= day { // days have 23 to 25 hours
			next = midnight.AddDate(0, 0, i*int(pause/day))
		}
		if next.After(s.until) {
			return list, format
		}
		if !next.Before(s.from) {
			list = append(list, next)
		}
	}
}

// draw writes the ticks and their times.
func (s span) draw(p *picture, top, bottom float64) {
	list, format := s.ticks()
	for _, t := range list {
		x := s.x(t)
		p.add(`<line class="tick" x1="%[1]s" x2="%[1]s" y1="%s" y2="%s"/>`, num(x), num(top), num(bottom+4))
		anchor := "middle"
		if x < left+20 {
			anchor = "start"
		} else if x > width-right-24 {
			anchor = "end"
		}
		p.add(`<text x="%s" y="%s" text-anchor="%s">%s</text>`, num(x), num(bottom+16), anchor, t.Format(format))
	}
}
