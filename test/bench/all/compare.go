package main

import (
	"math"
	"slices"

	"github.com/berth-gpu/berth/test/bench/figure"
)

// entry is one figure of one benchmark, as all runs measured it.
type entry struct {
	benchmark string
	figure.Figure
	values []float64 // one of each run; Value is their mean
	stolen bool      // a run was made while others took the processors
}

// mark says what became of a figure since the last table.
type mark string

const (
	same   mark = ""       // it moved by no more than the noise, or not at all
	better mark = "better" // it moved by more
	worse  mark = "WORSE"
	stolen mark = "stolen" // the processors were taken away now or then: nothing is said
	once   mark = "once"   // one run has it, so nobody knows the noise
	fresh  mark = "new"
	gone   mark = "gone"
)

// line is a figure now, beside the last table.
type line struct {
	now, last entry // one of them is empty if it is new or gone
	change    float64
	noise     float64 // both as a share of the last value
	mark
}

// moved compares the figures of a table with those of the last one, in the order of the
// table; figures that are gone come last.
//
// The noise of a figure is how far the runs lie apart, now and in the last table together.
// Two runs may agree by chance: so it is taken to be at least the median of that for the
// figures of the same benchmark.
func moved(now, last []entry) []line {
	type key struct{ benchmark, name string }
	before, after := map[key]entry{}, map[key]bool{}
	for _, e := range last {
		before[key{e.benchmark, e.Name}] = e
	}
	usual := map[string][]float64{}
	for _, e := range now {
		k := key{e.benchmark, e.Name}
		after[k] = true
		if old, known := before[k]; known && !math.IsInf(e.apart()+old.apart(), 0) {
			usual[e.benchmark] = append(usual[e.benchmark], e.share(e.apart())+old.share(old.apart()))
		}
	}
	var lines []line
	for _, e := range now {
		old, known := before[key{e.benchmark, e.Name}]
		if !known {
			lines = append(lines, line{now: e, mark: fresh})
			continue
		}
		l := line{now: e, last: old, change: old.share(e.Value - old.Value)}
		l.noise = max(old.share(e.apart()+old.apart()), figure.Quantile(usual[e.benchmark], 0.5))
		l.mark = judge(l)
		lines = append(lines, l)
	}
	for _, e := range last {
		if !after[key{e.benchmark, e.Name}] {
			lines = append(lines, line{last: e, mark: gone})
		}
	}
	return lines
}

func judge(l line) mark {
	switch {
	case l.now.stolen || l.last.stolen:
		return stolen
	case len(l.now.values) < 2 || len(l.last.values) < 2:
		return once
	case math.Abs(l.change) <= l.noise:
		return same
	case (l.change < 0) == (l.now.Better == figure.Less):
		return better
	}
	return worse
}

// apart returns by how much the runs differ. Of one run nobody knows.
func (e entry) apart() float64 {
	if len(e.values) < 2 {
		return math.Inf(1)
	}
	return slices.Max(e.values) - slices.Min(e.values)
}

// share returns a difference as a share of the value. A value of zero is as large as the
// difference itself.
func (e entry) share(difference float64) float64 {
	if e.Value == 0 {
		return difference
	}
	return difference / math.Abs(e.Value)
}

// gather joins the figures of several runs of one benchmark.
func gather(benchmark string, runs [][]figure.Figure, taken bool) []entry {
	var all []entry
	for _, run := range runs {
		for _, f := range run {
			i := slices.IndexFunc(all, func(e entry) bool { return e.Name == f.Name })
			if i < 0 {
				all = append(all, entry{benchmark: benchmark, Figure: f, stolen: taken})
				i = len(all) - 1
			}
			all[i].values = append(all[i].values, f.Value)
		}
	}
	for i := range all {
		all[i].Value = mean(all[i].values)
	}
	return all
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
