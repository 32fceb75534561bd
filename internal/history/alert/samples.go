package alert

import (
	"github.com/prometheus/prometheus/model/labels"

	"github.com/berth-gpu/berth/internal/history/series"
)

// Samples returns the samples to store for the alerts of a rule: ALERTS, which is 1 for
// each alert, and ALERTS_FOR_STATE, which is the time since which it is active, in
// seconds since 1970.
func (a Active) Samples() []series.Sample {
	list := make([]series.Sample, 0, 2*len(a))
	for _, s := range a.List() {
		since := labels.NewBuilder(s.Labels).Set(labels.MetricName, SinceSeries).Labels()
		own := labels.NewBuilder(s.Labels).Set(PhaseLabel, string(s.Phase)).Set(labels.MetricName, Series).Labels()
		list = append(list, series.Sample{Labels: own, Kind: series.Gauge, Value: 1}, series.Sample{Labels: since, Kind: series.Gauge, Value: float64(s.ActiveAt.Unix())})
	}
	return list
}

// Recorded returns the sample to store for an element of the answer of a recording rule.
// A label that the rule sets to nothing is removed.
func (r *Rule) Recorded(found labels.Labels, value float64) series.Sample {
	own := labels.NewBuilder(found)
	r.Labels.Range(func(l labels.Label) { own.Set(l.Name, l.Value) })
	return series.Sample{Labels: own.Set(labels.MetricName, r.Record).Labels(), Kind: series.Gauge, Value: value}
}
