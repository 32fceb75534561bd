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
func expand(ctx context.Context, ask Ask, r *Rule, element promql.Sample, at time.Time) Found {
	data := template.AlertTemplateData(element.Metric.Map(), map[string]string{}, "", promql.Sample{F: element.F})
	question := func(ctx context.Context, expr string, at time.Time) (promql.Vector, error) {
		answer, err := ask(ctx, expr, at)
		if err != nil {
			return nil, err
		}
		list, _ := vector(answer)
		return list, nil
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
	named := labels.NewBuilder(element.Metric).Del(labels.MetricName)
	r.Labels.Range(func(l labels.Label) { named.Set(l.Name, expand(l.Value)) })
	said := labels.NewScratchBuilder(r.Annotations.Len())
	r.Annotations.Range(func(l labels.Label) { said.Add(l.Name, expand(l.Value)) })
	return Found{Labels: named.Set(NameLabel, r.Alert).Labels(), Value: element.F, Annotations: said.Labels()}
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

// vector returns the elements of an answer, and false if it has no such form.
func vector(a series.Answer) (promql.Vector, bool) {
	if number, is := a.Value.(promql.Scalar); is {
		return promql.Vector{{T: number.T, F: number.V}}, true
	}
	list, is := a.Value.(promql.Vector)
	return list, is
}
