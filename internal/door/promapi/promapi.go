// Package promapi is the door that answers as the HTTP API of Prometheus does, so that
// Grafana and promtool can ask berth about its past.
//
// It reads parameters, asks the query engine, and writes the answer. Another door
// checks who may use its routes.
package promapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/history/alert"
	"github.com/berth-gpu/berth/internal/history/series"
)

// Engine answers questions in PromQL.
type Engine interface {
	Instant(ctx context.Context, expr string, at time.Time, o series.Options) (series.Answer, error)
	Range(ctx context.Context, expr string, from, to time.Time, step time.Duration, o series.Options) (series.Answer, error)
	Series(ctx context.Context, selectors []string, from, to time.Time, o series.Options) ([]labels.Labels, []string, error)
	LabelNames(ctx context.Context, selectors []string, from, to time.Time, o series.Options) ([]string, []string, error)
	LabelValues(ctx context.Context, name string, selectors []string, from, to time.Time, o series.Options) ([]string, []string, error)
}

// Rules are the rules that the daemon evaluates, and their results.
type Rules interface {
	Groups() []alert.GroupState
	Active() []alert.State
}

// Sources provide the answers.
type Sources struct {
	Engine   Engine                 // nil if the daemon keeps no past
	On       func() bool            // reports whether the past is kept now; nil means yes
	Rules    Rules                  // nil if no rules are evaluated
	Metadata func() []series.Metric // nil if metrics have no descriptions
	Version  string                 // version of Prometheus whose language the engine speaks
	Now      func() time.Time
}

// Route is one route of this door.
type Route struct {
	Operation *huma.Operation
	MediaType string
	Serve     func(w http.ResponseWriter, r *http.Request, who access.Actor)
}

// Routes returns every route.
func Routes(from Sources) []Route {
	a := api{from}
	var list []Route
	add := func(path, id, summary, description string, parameters []*huma.Param, methods []string, answer func(*question) (reply, error)) {
		for _, method := range methods {
			list = append(list, Route{operation(method, path, id, summary, description, parameters), "application/json", a.serve(parameters, answer)})
		}
	}
	get, both := []string{http.MethodGet}, []string{http.MethodGet, http.MethodPost}
	add("/api/v1/query", "query", "Ask about one moment, in PromQL",
		"The answer has the form of Prometheus. One answer has series that name users, groups, services and leases only for callers who may see names.",
		[]*huma.Param{expression, at, limit, timeout, lookback}, both, a.query)
	add("/api/v1/query_range", "query-range", "Ask about a time, in PromQL",
		"The expression is evaluated at every step from start to end. An answer has at most 11,000 points for each series.",
		[]*huma.Param{expression, required(start), required(end), step, limit, timeout, lookback}, both, a.queryRange)
	add("/api/v1/series", "series", "The labels of series that match a selector", "", []*huma.Param{required(match), start, end, limit}, both, a.series)
	add("/api/v1/labels", "label-names", "The names of labels", "", []*huma.Param{match, start, end, limit}, both, a.labelNames)
	add("/api/v1/label/{name}/values", "label-values", "The values of a label", "The label __name__ has the names of the metrics.",
		[]*huma.Param{labelName, match, start, end, limit}, get, a.labelValues)
	add("/api/v1/metadata", "metadata", "The type and the help text of metrics", "", []*huma.Param{metric, limit, perMetric}, get, a.metadata)
	add("/api/v1/rules", "rules", "The rules that the daemon evaluates, with their alerts", "", []*huma.Param{kind, ruleName, ruleGroup, file, excludeAlerts}, get, a.rules)
	add("/api/v1/alerts", "active-alerts", "The alerts that are pending or firing", "", nil, get, a.alerts)
	add("/api/v1/query_exemplars", "query-exemplars", "Exemplars: berth has none", "It is here because Grafana asks for it.", []*huma.Param{expression, start, end}, both, a.exemplars)
	add("/api/v1/status/buildinfo", "buildinfo", "The version of Prometheus whose language this is", "It is here because Grafana asks for it.", nil, get, a.buildInfo)
	return list
}

// api answers the questions of this door.
type api struct{ Sources }
