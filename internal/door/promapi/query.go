package promapi

import (
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/berth-gpu/berth/internal/history/series"
)

// off reports whether the daemon keeps no past to query.
func (a api) off() bool { return a.Engine == nil || a.On != nil && !a.On() }

// query answers a question about one moment.
func (a api) query(q *question) (reply, error) {
	if a.off() {
		return reply{}, errPastOff
	}
	o, err := q.options()
	if err != nil {
		return reply{}, err
	}
	at, err := q.moment("time", q.now)
	if err != nil {
		return reply{}, err
	}
	return answered(a.Engine.Instant(q.Context(), q.Form.Get("query"), at, o))
}

// queryRange answers a question about every step of a range of time.
func (a api) queryRange(q *question) (reply, error) {
	if a.off() {
		return reply{}, errPastOff
	}
	o, err := q.options()
	if err != nil {
		return reply{}, err
	}
	from, err := parseTime(q.Form.Get("start"))
	if err != nil {
		return reply{}, invalid("start", err)
	}
	to, err := parseTime(q.Form.Get("end"))
	if err != nil {
		return reply{}, invalid("end", err)
	}
	step, err := parseDuration(q.Form.Get("step"))
	if err != nil {
		return reply{}, invalid("step", err)
	}
	return answered(a.Engine.Range(q.Context(), q.Form.Get("query"), from, to, step, o))
}

func answered(answer series.Answer, err error) (reply, error) {
	if err != nil {
		return reply{}, err
	}
	return reply{answer, answer.Warnings, answer.Infos}, nil
}

// finding reads the parameters of a question about series.
func (a api) finding(q *question) (selectors []string, from, to time.Time, o series.Options, err error) {
	if a.off() {
		return nil, from, to, o, errPastOff
	}
	if o, err = q.options(); err == nil {
		from, to, err = q.borders()
	}
	return q.Form["match[]"], from, to, o, err
}

// series lists the labels of series.
func (a api) series(q *question) (reply, error) {
	selectors, from, to, o, err := a.finding(q)
	if err != nil {
		return reply{}, err
	}
	list, warnings, err := a.Engine.Series(q.Context(), selectors, from, to, o)
	if err != nil {
		return reply{}, err
	}
	data := make([]map[string]string, len(list))
	for i, labels := range list {
		data[i] = labels.Map()
	}
	return reply{data: data, warnings: warnings}, nil
}

// labelNames lists the names of labels.
func (a api) labelNames(q *question) (reply, error) {
	selectors, from, to, o, err := a.finding(q)
	if err != nil {
		return reply{}, err
	}
	list, warnings, err := a.Engine.LabelNames(q.Context(), selectors, from, to, o)
	return reply{data: list, warnings: warnings}, err
}

// labelValues lists the values of a label.
func (a api) labelValues(q *question) (reply, error) {
	selectors, from, to, o, err := a.finding(q)
	if err != nil {
		return reply{}, err
	}
	name := q.PathValue("name")
	if strings.HasPrefix(name, "U__") {
		name = model.UnescapeName(name, model.ValueEncodingEscaping)
	}
	list, warnings, err := a.Engine.LabelValues(q.Context(), name, selectors, from, to, o)
	return reply{data: list, warnings: warnings}, err
}

// described is the description of a metric.
type described struct {
	Type string `json:"type"`
	Help string `json:"help"`
	Unit string `json:"unit"`
}

// metadata describes metrics.
func (a api) metadata(q *question) (reply, error) {
	limit, err := q.number("limit")
	if err != nil {
		return reply{}, err
	}
	if _, err := q.number("limit_per_metric"); err != nil {
		return reply{}, err
	}
	data := map[string][]described{}
	if a.Metadata != nil {
		only := q.Form.Get("metric")
		for _, m := range a.Metadata() {
			if only != "" && m.Name != only || limit > 0 && len(data) == limit {
				continue
			}
			data[m.Name] = []described{{Type: m.Kind.String(), Help: m.Help}}
		}
	}
	return reply{data: data}, nil
}

// exemplars answers that there are none.
func (a api) exemplars(*question) (reply, error) { return reply{data: []struct{}{}}, nil }

// buildInfo says which version of Prometheus the answers are like.
func (a api) buildInfo(*question) (reply, error) {
	return reply{data: map[string]string{
		"version": a.Version, "revision": "", "branch": "", "buildUser": "", "buildDate": "", "goVersion": runtime.Version(),
	}}, nil
}
