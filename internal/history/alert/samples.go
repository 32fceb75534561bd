package alert

import (
	"slices"
	"strings"

	"github.com/berth-gpu/berth/internal/history/series"
)

// Value is a series and its value.
type Value struct {
	Labels series.Labels // including the name
	Value  float64
}

// Values returns the series to store for the alerts of a rule: ALERTS, which is 1 for
// each alert, and ALERTS_FOR_STATE, which is the time since which it is active, in
// seconds since 1970.
func (a Active) Values() []Value {
	list := make([]Value, 0, 2*len(a))
	for _, s := range a.List() {
		phase := series.Label{Name: PhaseLabel, Value: string(s.Phase)}
		list = append(list,
			Value{with(s.Labels, phase, series.Label{Name: series.Name, Value: Series}), 1},
			Value{with(s.Labels, series.Label{Name: series.Name, Value: SinceSeries}), float64(s.ActiveAt.Unix())})
	}
	return list
}

// Recorded returns the series to store for an element of the answer of a recording rule.
func (r *Rule) Recorded(labels series.Labels, value float64) Value {
	return Value{with(with(labels, r.Labels...), series.Label{Name: series.Name, Value: r.Record}), value}
}

// with returns labels with others set. It removes a label whose value is empty, because
// PromQL treats the two alike.
func with(labels series.Labels, set ...series.Label) series.Labels {
	list := slices.Clone(labels)
	for _, l := range set {
		i, there := slices.BinarySearchFunc(list, l.Name, func(have series.Label, name string) int { return strings.Compare(have.Name, name) })
		switch {
		case there && l.Value == "":
			list = slices.Delete(list, i, i+1)
		case there:
			list[i] = l
		case l.Value != "":
			list = slices.Insert(list, i, l)
		}
	}
	return list
}
