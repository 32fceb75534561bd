package promapi

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/history/alert"
	"github.com/berth-gpu/berth/internal/history/series"
)

// engine records what it is asked, and answers with what it has.
type engine struct {
	asked  string
	answer series.Answer
	err    error
}

func (e *engine) note(format string, args ...any) { e.asked = fmt.Sprintf(format, args...) }

func (e *engine) Instant(_ context.Context, expr string, at time.Time, o series.Options) (series.Answer, error) {
	e.note("%s at %d %+v", expr, at.UnixMilli(), o)
	return e.answer, e.err
}

func (e *engine) Range(_ context.Context, expr string, from, to time.Time, step time.Duration, o series.Options) (series.Answer, error) {
	e.note("%s from %d to %d every %v %+v", expr, from.UnixMilli(), to.UnixMilli(), step, o)
	return e.answer, e.err
}

func (e *engine) Series(_ context.Context, selectors []string, from, to time.Time, o series.Options) ([]labels.Labels, []string, error) {
	e.note("series %q %v %v %+v", selectors, stamp(from), stamp(to), o)
	return []labels.Labels{labels.FromMap(map[string]string{"__name__": "up", "job": "berth"})}, []string{"cut"}, e.err
}

func (e *engine) LabelNames(_ context.Context, selectors []string, from, to time.Time, o series.Options) ([]string, []string, error) {
	e.note("labels %q %v %v %+v", selectors, stamp(from), stamp(to), o)
	return []string{"__name__", "job"}, nil, e.err
}

func (e *engine) LabelValues(_ context.Context, name string, selectors []string, from, to time.Time, o series.Options) ([]string, []string, error) {
	e.note("values of %s %q %v %v %+v", name, selectors, stamp(from), stamp(to), o)
	return []string{}, nil, e.err
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return fmt.Sprint(t.UnixMilli())
}

// rulebook is a group with an alert about a device, one about a user, and a series.
type rulebook struct{}

func (rulebook) Active() []alert.State {
	since := time.Unix(1_700_000_000, 0)
	hot := labels.FromMap(map[string]string{"alertname": "Hot", "gpu": "GPU-0"})
	greedy := labels.FromMap(map[string]string{"alertname": "Greedy", "user": "ann"})
	return []alert.State{
		{Labels: hot, Annotations: labels.FromMap(map[string]string{"summary": "hot"}), Phase: alert.Firing, Value: 91, ActiveAt: since, KeptSince: since},
		{Labels: greedy, Phase: alert.Pending, Value: 1e9, ActiveAt: since},
	}
}

func (b rulebook) Groups() []alert.GroupState {
	active := b.Active()
	return []alert.GroupState{{
		Group: alert.Group{Name: "berth", File: "/etc/berth/rules.yml", Interval: 15 * time.Second, Limit: 3}, Took: time.Millisecond,
		Rules: []alert.RuleState{
			{Rule: alert.Rule{Alert: "Hot", Expr: "t > 80", For: 2 * time.Minute, Annotations: labels.FromMap(map[string]string{"summary": "hot"})}, Health: alert.Good, Active: active[:1]},
			{Rule: alert.Rule{Alert: "Greedy", Expr: "m > 1"}, Health: alert.Bad, Error: "no", Active: active[1:]},
			{Rule: alert.Rule{Record: "sum:t", Expr: "sum(t)"}, Health: alert.Untried},
		},
	}}
}

// door serves the routes to one caller.
func door(from Sources, who access.Actor) http.Handler {
	if from.Now == nil {
		from.Now = func() time.Time { return time.Unix(1_700_000_000, 0) }
	}
	mux := http.NewServeMux()
	for _, route := range Routes(from) {
		mux.HandleFunc(route.Operation.Method+" "+route.Operation.Path, func(w http.ResponseWriter, r *http.Request) { route.Serve(w, r, who) })
	}
	return mux
}

var (
	user   = access.Actor{UID: 7, User: "ann", Role: access.User}
	viewer = access.Actor{UID: 8, User: "eve", Role: access.Viewer}
	token  = access.Actor{UID: access.NoUID, User: "token:grafana", Role: access.Scraper}
)

func ask(h http.Handler, method, target string, form url.Values) *httptest.ResponseRecorder {
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader(form.Encode())
	} else if form != nil {
		target += "?" + form.Encode()
	}
	r := httptest.NewRequest(method, target, body)
	if body != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// A question comes to the engine as it was asked, by address and by form.
func TestParameters(t *testing.T) {
	e := &engine{answer: series.Answer{Value: promql.Vector{}}}
	h := door(Sources{Engine: e}, user)
	const plain = "{Nameless:false Waits:true Limit:0 Timeout:0s Lookback:0s}"
	for _, c := range []struct {
		path string
		form url.Values
		want string
	}{
		{"query", url.Values{"query": {"up"}}, "up at 1700000000000 " + plain},
		{"query", url.Values{"query": {"up"}, "time": {"1699999999.9996"}}, "up at 1700000000000 " + plain},
		{"query", url.Values{"query": {"up"}, "time": {"-1.25"}}, "up at -1250 " + plain},
		{"query", url.Values{"query": {"up"}, "time": {"2023-11-14T22:13:20.5Z"}}, "up at 1700000000500 " + plain},
		{"query", url.Values{"query": {"up"}, "time": {"2023-11-14T23:13:20+01:00"}}, "up at 1700000000000 " + plain},
		{"query", url.Values{"query": {"up"}, "limit": {"3"}, "timeout": {"1m30s"}, "lookback_delta": {"0.5"}, "stats": {"all"}},
			"up at 1700000000000 {Nameless:false Waits:true Limit:3 Timeout:1m30s Lookback:500ms}"},
		{"query_range", url.Values{"query": {"up"}, "start": {"1"}, "end": {"2.5"}, "step": {"0.25"}}, "up from 1000 to 2500 every 250ms " + plain},
		{"query_range", url.Values{"query": {"up"}, "start": {"1"}, "end": {"2e3"}, "step": {"1d"}}, "up from 1000 to 2000000 every 24h0m0s " + plain},
		{"series", url.Values{"match[]": {"up", `{a="b"}`}}, `series ["up" "{a=\"b\"}"] - - ` + plain},
		{"series", url.Values{"match[]": {"up"}, "start": {"1"}, "end": {"2"}}, `series ["up"] 1000 2000 ` + plain},
		{"labels", url.Values{"start": {noStart}, "end": {noEnd}}, `labels [] - - ` + plain},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			e.asked = ""
			if w := ask(h, method, "/api/v1/"+c.path, c.form); w.Code != http.StatusOK || e.asked != c.want {
				t.Errorf("%s %s %v: %d %s, asked\n%s, want\n%s", method, c.path, c.form, w.Code, w.Body, e.asked, c.want)
			}
		}
	}
	for name, want := range map[string]string{"gpu": "gpu", "__name__": "__name__", "U__a_2e_b": "a.b"} {
		if w := ask(h, http.MethodGet, "/api/v1/label/"+name+"/values", nil); w.Code != http.StatusOK || e.asked != "values of "+want+" [] - - "+plain {
			t.Errorf("values of %s: %d %s, asked %s", name, w.Code, w.Body, e.asked)
		}
	}
}

// Wrong parameters get an error in the form of Prometheus and reach no engine.
func TestWrongParameters(t *testing.T) {
	e := &engine{}
	h := door(Sources{Engine: e, Rules: rulebook{}}, user)
	long := strings.Repeat("a", longExpression+1)
	for _, c := range []struct {
		path string
		form url.Values
		says string
	}{
		{"query", url.Values{"query": {"up"}, "time": {"soon"}}, `invalid parameter \"time\": cannot parse \"soon\" to a valid timestamp`},
		{"query", url.Values{"query": {"up"}, "time": {"NaN"}}, `valid timestamp`},
		{"query", url.Values{"query": {"up"}, "time": {"+Inf"}}, `valid timestamp`},
		{"query", url.Values{"query": {"up"}, "time": {"1e300"}}, `valid timestamp`},
		{"query", url.Values{"query": {"up"}, "limit": {"-1"}}, `limit must be non-negative`},
		{"query", url.Values{"query": {"up"}, "limit": {"many"}}, `invalid parameter \"limit\"`},
		{"query", url.Values{"query": {"up"}, "timeout": {"-1s"}}, `invalid parameter \"timeout\"`},
		{"query", url.Values{"query": {"up"}, "timeout": {"0"}}, `not positive`},
		{"query", url.Values{"query": {"up"}, "lookback_delta": {"NaN"}}, `overflows`},
		{"query", url.Values{"query": {long}}, `it has 10001 bytes, and the limit is 10000`},
		{"query_range", url.Values{"query": {"up"}}, `invalid parameter \"start\"`},
		{"query_range", url.Values{"query": {"up"}, "start": {"1"}}, `invalid parameter \"end\"`},
		{"query_range", url.Values{"query": {"up"}, "start": {"1"}, "end": {"2"}}, `invalid parameter \"step\"`},
		{"query_range", url.Values{"query": {"up"}, "start": {"1"}, "end": {"2"}, "step": {"1e300"}}, `overflows`},
		{"series", url.Values{"match[]": {long}}, `the limit is 10000`},
		{"labels", url.Values{"start": {"x"}}, `invalid parameter \"start\"`},
		{"label/gpu/values", url.Values{"limit": {"x"}}, `invalid parameter \"limit\"`},
		{"label/" + long + "/values", nil, `the limit is 4096`},
		{"metadata", url.Values{"limit": {"x"}}, `invalid parameter \"limit\"`},
		{"rules", url.Values{"type": {"other"}}, `not supported value`},
		{"rules", url.Values{"exclude_alerts": {"perhaps"}}, `neither true nor false`},
	} {
		w := ask(h, http.MethodGet, "/api/v1/"+c.path, c.form)
		if w.Code != http.StatusBadRequest || !strings.HasPrefix(w.Body.String(), `{"status":"error","errorType":"bad_data","error":"`) || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%.40s %.60v: %d %.200s, want %s", c.path, c.form, w.Code, w.Body, c.says)
		}
	}
	if w := ask(h, http.MethodPost, "/api/v1/query", url.Values{"x": {strings.Repeat("x", mostForm)}}); w.Code != http.StatusBadRequest {
		t.Errorf("a large form: %d %s", w.Code, w.Body)
	}
	if e.asked != "" {
		t.Errorf("the engine was asked %s", e.asked)
	}
}

func TestAnswers(t *testing.T) {
	vector := series.Answer{Value: promql.Vector{{Metric: labels.FromStrings("gpu", "a"), T: 1500, F: 2}}}
	remarked := vector
	remarked.Warnings, remarked.Infos = []string{`a "warning"`}, []string{"an info"}
	described := func() []series.Metric {
		return []series.Metric{{Name: "up", Kind: series.Gauge, Help: "Whether."}, {Name: "n_total", Kind: series.Counter, Help: "How many."}}
	}
	const hot = `{"labels":{"alertname":"Hot","gpu":"GPU-0"},"annotations":{"summary":"hot"},"state":"firing","activeAt":"2023-11-14T22:13:20Z","keepFiringSince":"2023-11-14T22:13:20Z","value":"9.1e+01"}`
	const greedy = `{"labels":{"alertname":"Greedy","user":"ann"},"annotations":{},"state":"pending","activeAt":"2023-11-14T22:13:20Z","value":"1e+09"}`
	const rules = `{"status":"success","data":{"groups":[{"name":"berth","file":"/etc/berth/rules.yml","rules":[%s],"interval":15,"limit":3,"evaluationTime":0.001,"lastEvaluation":"0001-01-01T00:00:00Z"}]}}`
	const hotRule = `{"state":"firing","name":"Hot","query":"t \u003e 80","duration":120,"keepFiringFor":0,"labels":{},"annotations":{"summary":"hot"},"alerts":[` + hot + `],"health":"ok","evaluationTime":0,"lastEvaluation":"0001-01-01T00:00:00Z","type":"alerting"}`
	const greedyRule = `{"state":"pending","name":"Greedy","query":"m \u003e 1","duration":0,"keepFiringFor":0,"labels":{},"annotations":{},"alerts":[%s],"health":"err","lastError":"no","evaluationTime":0,"lastEvaluation":"0001-01-01T00:00:00Z","type":"alerting"}`
	const sumRule = `{"name":"sum:t","query":"sum(t)","labels":{},"health":"unknown","evaluationTime":0,"lastEvaluation":"0001-01-01T00:00:00Z","type":"recording"}`
	full := Sources{Engine: &engine{answer: vector}, Rules: rulebook{}, Metadata: described, Version: "3.15.0"}
	for _, c := range []struct {
		from   Sources
		who    access.Actor
		target string
		want   string
	}{
		{full, user, "query?query=up", `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"gpu":"a"},"value":[1.500,"2"]}]}}`},
		{Sources{Engine: &engine{answer: remarked}}, user, "query?query=up", `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"gpu":"a"},"value":[1.500,"2"]}]},"warnings":["a \"warning\""],"infos":["an info"]}`},
		{full, user, "series?match[]=up", `{"status":"success","data":[{"__name__":"up","job":"berth"}],"warnings":["cut"]}`},
		{full, user, "labels", `{"status":"success","data":["__name__","job"]}`},
		{full, user, "label/gpu/values", `{"status":"success","data":[]}`},
		{full, user, "metadata?metric=up", `{"status":"success","data":{"up":[{"type":"gauge","help":"Whether.","unit":""}]}}`},
		{full, user, "metadata?limit=1", `{"status":"success","data":{"up":[{"type":"gauge","help":"Whether.","unit":""}]}}`},
		{Sources{}, user, "metadata", `{"status":"success","data":{}}`},
		{full, user, "query_exemplars?query=up", `{"status":"success","data":[]}`},
		{full, user, "alerts", `{"status":"success","data":{"alerts":[` + hot + `,` + greedy + `]}}`},
		{full, token, "alerts", `{"status":"success","data":{"alerts":[` + hot + `,` + greedy + `]}}`},
		{full, viewer, "alerts", `{"status":"success","data":{"alerts":[` + hot + `]}}`},
		{Sources{}, user, "alerts", `{"status":"success","data":{"alerts":[]}}`},
		{Sources{}, user, "rules", `{"status":"success","data":{"groups":[]}}`},
		{full, user, "rules", fmt.Sprintf(rules, hotRule+`,`+fmt.Sprintf(greedyRule, greedy)+`,`+sumRule)},
		{full, viewer, "rules?type=alert", fmt.Sprintf(rules, hotRule+`,`+fmt.Sprintf(greedyRule, ""))},
		{full, user, "rules?type=record", fmt.Sprintf(rules, sumRule)},
		{full, user, "rules?rule_name[]=Greedy&exclude_alerts=true", fmt.Sprintf(rules, fmt.Sprintf(greedyRule, ""))},
		{full, user, "rules?rule_group[]=other", `{"status":"success","data":{"groups":[]}}`},
		{full, user, "rules?file[]=other", `{"status":"success","data":{"groups":[]}}`},
	} {
		if w := ask(door(c.from, c.who), http.MethodGet, "/api/v1/"+c.target, nil); w.Code != http.StatusOK || w.Body.String() != c.want || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s by a %v: %d\n%s, want\n%s", c.target, c.who.Role, w.Code, w.Body, c.want)
		}
	}
	w := ask(door(full, user), http.MethodGet, "/api/v1/status/buildinfo", nil)
	if !strings.Contains(w.Body.String(), `"version":"3.15.0"`) {
		t.Errorf("the version is %s", w.Body)
	}
}

func TestErrors(t *testing.T) {
	for fault, status := range map[series.Fault]int{
		series.BadData: 400, series.Execution: 422, series.TimedOut: 503, series.Canceled: 499, series.Internal: 500, series.Down: 503,
	} {
		h := door(Sources{Engine: &engine{err: fmt.Errorf("asking: %w", &series.Error{Fault: fault, Text: `a "b"`})}}, user)
		for _, path := range []string{"query", "query_range?start=1&end=2&step=1", "series", "labels", "label/a/values"} {
			want := fmt.Sprintf(`{"status":"error","errorType":"%s","error":"a \"b\""}`, fault)
			if w := ask(h, http.MethodGet, "/api/v1/"+path, nil); w.Code != status || w.Body.String() != want {
				t.Errorf("%s with %s: %d %s, want %d %s", path, fault, w.Code, w.Body, status, want)
			}
		}
	}
	if w := ask(door(Sources{Engine: &engine{err: errors.New("surprise")}}, user), http.MethodGet, "/api/v1/query", nil); w.Code != 500 || !strings.Contains(w.Body.String(), `"internal"`) {
		t.Errorf("an error of no kind: %d %s", w.Code, w.Body)
	}
	for _, off := range []http.Handler{door(Sources{}, user), door(Sources{Engine: &engine{}, On: func() bool { return false }}, user)} {
		for _, path := range []string{"query?query=up", "query_range?query=up", "series", "labels", "label/a/values"} {
			if w := ask(off, http.MethodGet, "/api/v1/"+path, nil); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), `"code":"past_off"`) || !strings.Contains(w.Body.String(), "past.store") {
				t.Errorf("%s without a past: %d %s", path, w.Code, w.Body)
			}
		}
	}
}

// Who may see no names is nameless for the engine, and nobody passes those who wait.
func TestWhoAsks(t *testing.T) {
	for who, want := range map[*access.Actor]string{&user: "Nameless:false Waits:true", &viewer: "Nameless:true Waits:true", &token: "Nameless:false Waits:true", {}: "Nameless:true Waits:true"} {
		e := &engine{answer: series.Answer{Value: promql.Vector{}}}
		h := door(Sources{Engine: e}, *who)
		for _, path := range []string{"query", "query_range?start=1&end=2&step=1", "series", "labels", "label/a/values"} {
			if ask(h, http.MethodGet, "/api/v1/"+path, nil); !strings.Contains(e.asked, want) {
				t.Errorf("%s by a %v asks %s, want %s", path, who.Role, e.asked, want)
			}
		}
	}
}

func TestCompression(t *testing.T) {
	points := make([]promql.FPoint, 500)
	for i := range points {
		points[i] = promql.FPoint{T: int64(i) * 1000, F: float64(i)}
	}
	h := door(Sources{Engine: &engine{answer: series.Answer{Value: promql.Matrix{{Floats: points}}}}}, user)
	plain := ask(h, http.MethodGet, "/api/v1/query?query=up", nil)
	for accept, want := range map[string]string{
		"": "", "gzip": "gzip", "deflate, gzip;q=0.5": "gzip", "gzip;q=0": "", "br": "", "x-gzip": "", "gzip ; q=1.0, *;q=0": "gzip",
	} {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/query?query=up", nil)
		r.Header.Set("Accept-Encoding", accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Content-Encoding"); got != want {
			t.Errorf("for %q the answer is %q", accept, got)
			continue
		}
		body := io.Reader(w.Body)
		if want == "gzip" {
			var err error
			if body, err = gzip.NewReader(body); err != nil {
				t.Fatal(err)
			}
		}
		if text, err := io.ReadAll(body); err != nil || string(text) != plain.Body.String() {
			t.Errorf("for %q the answer differs: %v", accept, err)
		}
	}
}

// Every route has a description, and every parameter a longest value.
func TestRoutesAreDescribed(t *testing.T) {
	ids := map[string]bool{}
	for _, route := range Routes(Sources{}) {
		op := route.Operation
		if ids[op.OperationID] || op.Summary == "" {
			t.Errorf("%s %s: id %q, summary %q", op.Method, op.Path, op.OperationID, op.Summary)
		}
		ids[op.OperationID] = true
		if (op.Method == http.MethodPost) != (op.RequestBody != nil) {
			t.Errorf("%s %s: body %v", op.Method, op.Path, op.RequestBody)
		}
	}
	if len(ids) != 15 {
		t.Errorf("there are %d routes", len(ids))
	}
}

// No request makes the door panic, and every answer is one of Prometheus.
func FuzzParameters(f *testing.F) {
	f.Add("query", "query=up&time=1700000000&limit=3")
	f.Add("query_range", "query=up&start=1&end=2&step=15s&timeout=1m")
	f.Add("series", "match[]=up&start=2023-11-14T22:13:20Z")
	f.Add("labels", "start="+noStart)
	f.Add("label/a%2fb/values", "limit=1")
	f.Add("rules", "type=alert&exclude_alerts=1")
	f.Add("metadata", "limit_per_metric=-1;x=%zz")
	e := &engine{answer: series.Answer{Value: promql.Vector{}}}
	h := door(Sources{Engine: e, Rules: rulebook{}}, user)
	known := []int{200, 400, 404}
	f.Fuzz(func(t *testing.T, path, form string) {
		target := "/api/v1/" + (&url.URL{Path: path}).EscapedPath()
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r := &http.Request{Method: method, URL: &url.URL{Path: target, RawQuery: form}, Header: http.Header{}, Body: http.NoBody}
			if method == http.MethodPost {
				r.URL.RawQuery, r.Body = "", io.NopCloser(strings.NewReader(form))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Header().Get("Content-Type") != "application/json" {
				continue // the multiplexer has no such route
			}
			var answer struct{ Status, ErrorType string }
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || !slices.Contains(known, w.Code) || (w.Code == 200) != (answer.Status == "success") {
				t.Errorf("%s %s %q: %d %s (%v)", method, target, form, w.Code, w.Body, err)
			}
		}
	})
}
