package alert

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/template"

	"github.com/berth-gpu/berth/internal/history/series"
)

// longest is the most bytes of an expanded label or annotation.
const longest = 4 << 10

// expand returns the alert for an element of an answer: its labels with those of the
// rule, and its annotations. A template that fails becomes a text that says so, as in
// Prometheus.
func expand(ctx context.Context, ask Ask, r *Rule, labels series.Labels, value float64, at time.Time) Found {
	data := template.AlertTemplateData(labels.Map(), map[string]string{}, "", promql.Sample{F: value})
	question := func(ctx context.Context, expr string, at time.Time) (promql.Vector, error) {
		answer, err := ask(ctx, expr, at)
		if err != nil {
			return nil, err
		}
		return vector(answer), nil
	}
	expand := func(text string) string {
		if !strings.Contains(text, "{{") {
			return text
		}
		const names = "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}"
		e := template.NewTemplateExpander(ctx, names+text, "__alert_"+r.Alert, data, model.Time(at.UnixMilli()), question, &url.URL{}, nil)
		result, err := e.Expand()
		if err != nil {
			return fmt.Sprintf("<error expanding template: %v>", err)
		}
		return cut(result)
	}
	set := make([]series.Label, 0, len(r.Labels)+2)
	set = append(set, series.Label{Name: series.Name})
	for _, l := range r.Labels {
		set = append(set, series.Label{Name: l.Name, Value: expand(l.Value)})
	}
	set = append(set, series.Label{Name: NameLabel, Value: r.Alert})
	found := Found{Labels: with(labels, set...), Value: value, Annotations: make(series.Labels, 0, len(r.Annotations))}
	for _, a := range r.Annotations {
		found.Annotations = append(found.Annotations, series.Label{Name: a.Name, Value: expand(a.Value)})
	}
	return found
}

// cut shortens a text that is too long.
func cut(text string) string {
	if len(text) <= longest {
		return text
	}
	end := longest
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// vector returns an answer in the form that templates read.
func vector(a series.Answer) promql.Vector {
	if a.Shape == series.Scalar {
		return promql.Vector{{T: a.Point.T, F: a.Point.V}}
	}
	list := make(promql.Vector, 0, len(a.Series))
	for _, s := range a.Series {
		if len(s.Points) == 0 {
			continue
		}
		p := s.Points[len(s.Points)-1]
		list = append(list, promql.Sample{T: p.T, F: p.V, Metric: labels.FromMap(s.Labels.Map())})
	}
	return list
}
