package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/berth-gpu/berth/internal/history/series"
)

// begin is when the samples of the tests begin.
var begin = time.Unix(1_700_000_000, 0)

// open returns a store in a folder, filled by fill, which is called for the
// seconds from 0 to 120.
func open(t testing.TB, fill func(second int, add func(value float64, name string, labels ...string))) storage.Queryable {
	t.Helper()
	options := tsdb.DefaultOptions()
	options.WALSegmentSize = -1 // what a test stores need not outlive it
	db, err := tsdb.Open(t.TempDir(), nil, nil, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	db.DisableCompactions()
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	app := db.Appender(t.Context())
	for second := 0; second <= 120; second++ {
		fill(second, func(value float64, name string, pairs ...string) {
			l := labels.FromStrings(append([]string{labels.MetricName, name}, pairs...)...)
			if _, err := app.Append(0, l, begin.Add(time.Duration(second)*time.Second).UnixMilli(), value); err != nil {
				t.Fatal(err)
			}
		})
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
	return db
}

// machine is a store with two devices, users, services and leases.
func machine(t testing.TB) storage.Queryable {
	return open(t, func(second int, add func(float64, string, ...string)) {
		add(1, "up", "job", "berth", "instance", "a:1")
		for _, gpu := range []string{"GPU-0", "GPU-1"} {
			add(40+float64(second%60), "gpu_temperature_celsius", "gpu", gpu)
			add(float64(second)*100, "gpu_energy_joules_total", "gpu", gpu)
		}
		add(2, "gpu_user_leases", "user", "ann")
		add(1, "gpu_service_leases", "service", "embedder")
		add(1, "gpu_service_leases", "service", "")
		add(3, "berth_group_used", "group", "students", "limit", "leases")
		add(512, "berth_lease_memory_mb", "lease", "ann/7", "user", "ann", "service", "embedder", "gpu", "GPU-0")
		add(1, "berth_hook_dropped_total", "hook", "pager")
	})
}

func at(second int) time.Time { return begin.Add(time.Duration(second) * time.Second) }

// The answers are those of Prometheus to the same questions.
func TestAnswers(t *testing.T) {
	e := New(machine(t), Limits{})
	for expr, want := range map[string]string{
		`up`:                   `{"resultType":"vector","result":[{"metric":{"__name__":"up","instance":"a:1","job":"berth"},"value":[1700000120,"1"]}]}`,
		`sum(gpu_user_leases)`: `{"resultType":"vector","result":[{"metric":{},"value":[1700000120,"2"]}]}`,
		`nothing`:              `{"resultType":"vector","result":[]}`,
		`1 + 1`:                `{"resultType":"scalar","result":[1700000120,"2"]}`,
		`"text"`:               `{"resultType":"string","result":[1700000120,"text"]}`,
		`up[2s]`:               `{"resultType":"matrix","result":[{"metric":{"__name__":"up","instance":"a:1","job":"berth"},"values":[[1700000119,"1"],[1700000120,"1"]]}]}`,
		`up offset 1h`:         `{"resultType":"vector","result":[]}`,
		`1 / 0`:                `{"resultType":"scalar","result":[1700000120,"+Inf"]}`,
		`absent(nothing)`:      `{"resultType":"vector","result":[{"metric":{},"value":[1700000120,"1"]}]}`,
		`up @ 1700000003`:      `{"resultType":"vector","result":[{"metric":{"__name__":"up","instance":"a:1","job":"berth"},"value":[1700000120,"1"]}]}`,
		`count({job="berth"})`: `{"resultType":"vector","result":[{"metric":{},"value":[1700000120,"1"]}]}`,
		`max_over_time(sum(rate(gpu_energy_joules_total[20s]))[30s:5s])`: `{"resultType":"vector","result":[{"metric":{},"value":[1700000120,"200"]}]}`,
	} {
		answer, err := e.Instant(t.Context(), expr, at(120), series.Options{})
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		if got, err := json.Marshal(answer); err != nil || string(got) != want {
			t.Errorf("%s is\n%s (%v), want\n%s", expr, got, err, want)
		}
	}
	answer, err := e.Range(t.Context(), `sum by (gpu) (rate(gpu_energy_joules_total{gpu="GPU-0"}[20s]))`, at(60), at(120), 30*time.Second, series.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"resultType":"matrix","result":[{"metric":{"gpu":"GPU-0"},"values":[[1700000060,"100"],[1700000090,"100"],[1700000120,"100"]]}]}`
	if got, err := json.Marshal(answer); err != nil || string(got) != want {
		t.Errorf("the range is\n%s (%v), want\n%s", got, err, want)
	}
}

func TestRemarks(t *testing.T) {
	e := New(machine(t), Limits{})
	answer, err := e.Instant(t.Context(), `rate(gpu_temperature_celsius[20s])`, at(120), series.Options{Limit: 1})
	if err != nil || len(answer.Value.(promql.Vector)) != 1 || !slices.Equal(answer.Warnings, []string{"results truncated due to limit"}) {
		t.Errorf("with limit 1: %+v, %v", answer, err)
	}
	if len(answer.Infos) != 1 || !strings.Contains(answer.Infos[0], "might not be a counter") || !strings.Contains(answer.Infos[0], "1:6") {
		t.Errorf("the infos are %q", answer.Infos)
	}
}

func TestFinding(t *testing.T) {
	e := New(machine(t), Limits{})
	list, warnings, err := e.Series(t.Context(), []string{`up`, `gpu_energy_joules_total`, `{gpu="GPU-1"}`}, time.Time{}, time.Time{}, series.Options{})
	if err != nil || len(warnings) != 0 || len(list) != 4 { // up, two energies, one temperature
		t.Errorf("the series are %v, %v, %v", list, warnings, err)
	}
	list, warnings, err = e.Series(t.Context(), []string{`{__name__=~".+"}`}, at(0), at(120), series.Options{Limit: 2})
	if err != nil || len(warnings) != 1 || len(list) != 2 {
		t.Errorf("two of all series are %v, %v, %v", list, warnings, err)
	}
	if list, _, err = e.Series(t.Context(), []string{`up`}, at(7200), at(7300), series.Options{}); err != nil || list == nil || len(list) != 0 {
		t.Errorf("the series of later are %v, %v", list, err)
	}
	names, _, err := e.LabelNames(t.Context(), []string{`up`, `gpu_user_leases`}, time.Time{}, time.Time{}, series.Options{})
	if want := []string{"__name__", "instance", "job", "user"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("the names are %v, %v, want %v", names, err, want)
	}
	if names, _, err = e.LabelNames(t.Context(), nil, time.Time{}, time.Time{}, series.Options{}); err != nil || len(names) != 10 {
		t.Errorf("all names are %v, %v", names, err)
	}
	values, _, err := e.LabelValues(t.Context(), "gpu", nil, time.Time{}, time.Time{}, series.Options{})
	if want := []string{"GPU-0", "GPU-1"}; err != nil || !slices.Equal(values, want) {
		t.Errorf("the values are %v, %v, want %v", values, err, want)
	}
	values, warnings, err = e.LabelValues(t.Context(), "__name__", nil, time.Time{}, time.Time{}, series.Options{Limit: 1})
	if err != nil || len(values) != 1 || len(warnings) != 1 {
		t.Errorf("one value is %v, %v, %v", values, warnings, err)
	}
}

// A nameless asker learns no name by any question.
func TestNameless(t *testing.T) {
	e := New(machine(t), Limits{})
	hidden := []string{"ann", "embedder", "students", "ann/7", "pager"}
	tells := func(got any) bool {
		text := fmt.Sprint(got)
		return slices.ContainsFunc(hidden, func(name string) bool { return strings.Contains(text, name) })
	}
	for _, expr := range []string{
		`gpu_user_leases`, `{__name__=~".+"}`, `{user!=""}`, `{user="ann"}`, `{lease=~".+"}`, `label_replace({__name__=~".+",user=~".*"}, "x", "$1", "user", "(.*)")`,
		`count_values("x", gpu_user_leases)`, `gpu_user_leases[1m]`, `max_over_time(gpu_user_leases[1m:10s])`, `up * on() group_left(user) gpu_user_leases`,
		`gpu_service_leases`, `berth_group_used`, `sum by (service) (berth_lease_memory_mb)`, `sort_by_label({gpu="GPU-0"}, "user")`, `absent(gpu_user_leases{user="ann"})`,
	} {
		answer, err := e.Instant(t.Context(), expr, at(120), series.Options{Nameless: true})
		if err == nil && expr != `absent(gpu_user_leases{user="ann"})` && tells(answer) {
			t.Errorf("%s tells %v", expr, answer)
		}
	}
	// What is asked for by name is absent for a nameless asker, whether it is there or not.
	there, err := e.Instant(t.Context(), `absent(gpu_user_leases{user="ann"})`, at(120), series.Options{Nameless: true})
	if err != nil || len(there.Value.(promql.Vector)) != 1 {
		t.Errorf("a name that is there is not absent: %v, %v", there, err)
	}
	if answer, err := e.Instant(t.Context(), `count({__name__=~".+"})`, at(120), series.Options{Nameless: true}); err != nil || answer.Value.(promql.Vector)[0].F != 6 {
		t.Errorf("a nameless asker counts %v, %v", answer, err)
	}
	if answer, err := e.Range(t.Context(), `{__name__=~".+"}`, at(0), at(120), time.Minute, series.Options{Nameless: true}); err != nil || len(answer.Value.(promql.Matrix)) != 6 || tells(answer) {
		t.Errorf("the range tells %v, %v", answer, err)
	}
	for _, selector := range []string{`{__name__=~".+"}`, `{user="ann"}`, `gpu_user_leases`} {
		if list, _, err := e.Series(t.Context(), []string{selector, `up`}, time.Time{}, time.Time{}, series.Options{Nameless: true}); err != nil || tells(list) || len(list) == 0 {
			t.Errorf("series of %s tells %v, %v", selector, list, err)
		}
		if names, _, err := e.LabelNames(t.Context(), []string{selector}, time.Time{}, time.Time{}, series.Options{Nameless: true}); err != nil || slices.Contains(names, "user") {
			t.Errorf("labels of %s tells %v, %v", selector, names, err)
		}
	}
	for _, label := range series.Telling() {
		if values, _, err := e.LabelValues(t.Context(), label, nil, time.Time{}, time.Time{}, series.Options{Nameless: true}); err != nil || len(values) != 0 {
			t.Errorf("values of %s tells %v, %v", label, values, err)
		}
		if values, _, err := e.LabelValues(t.Context(), label, nil, time.Time{}, time.Time{}, series.Options{}); err != nil || len(values) == 0 {
			t.Errorf("values of %s for others are %v, %v", label, values, err)
		}
	}
}

// Every limit refuses with its number and with what to do.
func TestLimits(t *testing.T) {
	store := open(t, func(second int, add func(float64, string, ...string)) {
		for i := range 20 {
			add(float64(i), "many", "i", fmt.Sprint(i))
		}
	})
	e := New(store, Limits{Series: 30, Samples: 1000})
	year := 365 * 24 * time.Hour
	for _, c := range []struct {
		why   string
		ask   func(ctx context.Context) error
		fault series.Fault
		says  string
	}{
		{"a year at a second", func(ctx context.Context) error {
			_, err := e.Range(ctx, `many`, begin.Add(-year), begin, time.Second, series.Options{})
			return err
		}, series.BadData, "11,000 points per timeseries: a step of 47m47s"},
		{"thousands of years", func(ctx context.Context) error {
			_, err := e.Range(ctx, `vector(1)`, time.Unix(-4e10, 0), time.Unix(4e10, 0), 1e6*time.Second, series.Options{})
			return err
		}, series.BadData, "11,000 points per timeseries: a step of 2020h12m8s"},
		{"no step", func(ctx context.Context) error {
			_, err := e.Range(ctx, `many`, at(0), at(1), 0, series.Options{})
			return err
		}, series.BadData, "step must be a millisecond or more"},
		{"an end before the start", func(ctx context.Context) error {
			_, err := e.Range(ctx, `many`, at(1), at(0), time.Second, series.Options{})
			return err
		}, series.BadData, "must not be before"},
		{"too many series", instant(e, `count(many) + count(many)`), series.Execution, "more than 30 series"},
		{"too many samples", instant(e, `count_over_time(many[2m]) and many[2m]`), series.BadData, "parse error"},
		{"too many samples", func(ctx context.Context) error {
			_, err := e.Range(ctx, `many`, at(0), at(120), time.Second, series.Options{})
			return err
		}, series.Execution, "more than 1,000 samples"},
		{"a long expression", instant(e, strings.Repeat("1 + ", 5000)+"1"), series.BadData, "20,001 bytes, and the limit is 10,000"},
		{"many selectors", instant(e, strings.Repeat("a + ", 64)+"a"), series.BadData, "65 times, and the limit is 64"},
		{"a large regular expression", instant(e, `up{a=~"(.{9}){99}.{999}"}`+strings.Repeat(` or up{a=~".{999}"}`, 9)), series.BadData, "regular expressions are too large"},
		{"a large one for a replacement", instant(e, `label_replace(up, "a", "b", "c", "`+strings.Repeat("(.{999})", 9)+`")`), series.BadData, "regular expressions are too large"},
		{"a broken regular expression", instant(e, `up{a=~"("}`), series.BadData, "missing closing )"},
		{"a subquery at a second", instant(e, `max_over_time(many[1y:1s])`), series.BadData, "steps, and the limit is 100,000"},
		{"a subquery in a subquery", instant(e, `max_over_time(max_over_time(many[1y:1s])[1h:1m])`), series.BadData, "steps, and the limit is 100,000"},
		{"no expression", instant(e, ``), series.BadData, "no expression found"},
		{"a mistake", instant(e, `sum(`), series.BadData, `invalid parameter "query": 1:5: parse error: unclosed left parenthesis`},
		{"two for one", instant(New(store, Limits{}), `many * on() many`), series.Execution, "many-to-many"},
		{"a function that is not there", instant(e, `info(up)`), series.BadData, "info"},
		{"all series", func(ctx context.Context) error {
			_, _, err := New(store, Limits{Series: 5}).Series(ctx, []string{`many`}, time.Time{}, time.Time{}, series.Options{})
			return err
		}, series.Execution, "more than 5 series"},
		{"all values", func(ctx context.Context) error {
			_, _, err := New(store, Limits{Series: 5}).LabelValues(ctx, "i", nil, time.Time{}, time.Time{}, series.Options{})
			return err
		}, series.Execution, "more than 5 entries"},
		{"no selector", func(ctx context.Context) error {
			_, _, err := e.Series(ctx, nil, time.Time{}, time.Time{}, series.Options{})
			return err
		}, series.BadData, "no match[]"},
		{"an empty selector", func(ctx context.Context) error {
			_, _, err := e.Series(ctx, []string{`{a=~".*"}`}, time.Time{}, time.Time{}, series.Options{})
			return err
		}, series.BadData, "at least one non-empty matcher"},
		{"many selectors of series", func(ctx context.Context) error {
			_, _, err := e.LabelNames(ctx, make([]string, 65), time.Time{}, time.Time{}, series.Options{})
			return err
		}, series.BadData, "65 match[] parameters, and the limit is 64"},
		{"a large one for series", func(ctx context.Context) error {
			_, _, err := e.LabelNames(ctx, []string{`{a=~"` + strings.Repeat("(.{999})", 9) + `"}`}, time.Time{}, time.Time{}, series.Options{})
			return err
		}, series.BadData, "regular expressions are too large"},
		{"a label that is none", func(ctx context.Context) error {
			_, _, err := e.LabelValues(ctx, "\xff", nil, time.Time{}, time.Time{}, series.Options{})
			return err
		}, series.BadData, "invalid label name"},
	} {
		err := c.ask(t.Context())
		var found *series.Error
		if !errors.As(err, &found) || found.Fault != c.fault || !strings.Contains(found.Text, c.says) {
			t.Errorf("%s: %#v (%v), want %s with %q", c.why, err, err, c.fault, c.says)
		}
	}
}

func instant(e *Engine, expr string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := e.Instant(ctx, expr, at(120), series.Options{})
		return err
	}
}

// Native histograms are left out with a word about it.
func TestNativeHistograms(t *testing.T) {
	options := tsdb.DefaultOptions()
	options.WALSegmentSize = -1
	db, err := tsdb.Open(t.TempDir(), nil, nil, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	app := db.Appender(t.Context())
	for second := range 3 {
		h := &histogram.Histogram{Schema: 1, Count: 3, Sum: 9, PositiveSpans: []histogram.Span{{Length: 1}}, PositiveBuckets: []int64{3}}
		if _, err := app.AppendHistogram(0, labels.FromStrings("__name__", "native"), at(second).UnixMilli(), h, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
	e := New(db, Limits{})
	for expr, empty := range map[string]parser.Value{`native`: promql.Vector{}, `native[1m]`: promql.Matrix{}} {
		answer, err := e.Instant(t.Context(), expr, at(2), series.Options{})
		if err != nil || !reflect.DeepEqual(answer.Value, empty) || len(answer.Warnings) != 1 || !strings.Contains(answer.Warnings[0], "native histograms") {
			t.Errorf("%s is %+v, %v", expr, answer, err)
		}
	}
	if answer, err := e.Instant(t.Context(), `histogram_count(native)`, at(2), series.Options{}); err != nil || len(answer.Value.(promql.Vector)) != 1 || answer.Value.(promql.Vector)[0].F != 3 {
		t.Errorf("their count is %+v, %v", answer, err)
	}
}

// slow is a store whose querier waits until it is let go.
type slow struct {
	storage.Queryable
	here chan<- string
	free <-chan struct{}
}

func (s slow) Querier(from, to int64) (storage.Querier, error) {
	s.here <- "here"
	<-s.free
	return s.Queryable.Querier(from, to)
}

// Questions wait for each other, and the daemon's own wait for nobody.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := make(places, 1)
		leave, err := p.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var found *series.Error
		if _, err := p.enter(late); !errors.As(err, &found) || found.Fault != series.TimedOut || !strings.Contains(found.Text, "1 queries are answered at once") {
			t.Errorf("a second question: %v", err)
		}
		left, leaves := context.WithCancel(t.Context())
		leaves()
		if _, err := p.enter(left); !errors.Is(err, context.Canceled) {
			t.Errorf("somebody who has left: %v", err)
		}
		next := make(chan func())
		go func() {
			leave, _ := p.enter(t.Context())
			next <- leave
		}()
		synctest.Wait()
		leave()
		(<-next)()
		if len(p) != 0 {
			t.Errorf("%d places are left behind", len(p))
		}
	})
	e := New(machine(t), Limits{AtOnce: 1})
	e.places <- struct{}{}
	if _, err := e.Instant(t.Context(), `up`, at(120), series.Options{}); err != nil {
		t.Errorf("a question of the daemon: %v", err)
	}
}

// A large answer takes room until it is released, and the next one waits for that.
func TestRoom(t *testing.T) {
	e := New(open(t, func(second int, add func(float64, string, ...string)) {
		for i := range 90 {
			add(1, "many", "i", fmt.Sprint(i))
		}
	}), Limits{Samples: 11_000})
	ask := func() (series.Answer, error) {
		return e.Instant(t.Context(), `many[2m]`, at(120), series.Options{Waits: true, Timeout: 10 * time.Millisecond})
	}
	var answers []series.Answer
	var err error
	for range answersRoom {
		var a series.Answer
		if a, err = e.Instant(t.Context(), `many[2m]`, at(120), series.Options{Waits: true}); err != nil {
			t.Fatal(err)
		}
		answers = append(answers, a)
	}
	var found *series.Error
	if _, err = ask(); !errors.As(err, &found) || found.Fault != series.TimedOut {
		t.Errorf("one too many: %v", err)
	}
	if small, err := e.Instant(t.Context(), `up`, at(120), series.Options{Waits: true}); err != nil || small.Release == nil {
		t.Errorf("a small answer beside them: %v", err)
	}
	answers[0].Release()
	if _, err := e.Instant(t.Context(), `many[2m]`, at(120), series.Options{Waits: true}); err != nil {
		t.Errorf("after one was sent: %v", err)
	}
}

func TestTime(t *testing.T) {
	here, release := make(chan string, 1), make(chan struct{})
	e := New(slow{machine(t), here, release}, Limits{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := e.Instant(ctx, `up`, at(120), series.Options{Waits: true})
		done <- err
	}()
	<-here
	cancel()
	close(release)
	var found *series.Error
	if err := <-done; !errors.As(err, &found) || found.Fault != series.Canceled {
		t.Errorf("a question whose asker left: %v", err)
	}
	if _, err := e.Instant(t.Context(), `up`, at(120), series.Options{Timeout: time.Nanosecond}); !errors.As(err, &found) || found.Fault != series.TimedOut || !strings.Contains(found.Text, "longer than it may (1ns)") {
		t.Errorf("a question that took too long: %v", err)
	}
}

// A store that fails is not the asker's fault.
func TestBrokenStore(t *testing.T) {
	e := New(broken{}, Limits{})
	var found *series.Error
	if _, err := e.Instant(t.Context(), `up`, at(120), series.Options{}); !errors.As(err, &found) || found.Fault != series.Internal || !strings.Contains(found.Text, "no disk") {
		t.Errorf("a question to a broken store: %v", err)
	}
	if _, _, err := e.Series(t.Context(), []string{`up`}, time.Time{}, time.Time{}, series.Options{}); !errors.As(err, &found) || found.Fault != series.Internal {
		t.Errorf("series of a broken store: %v", err)
	}
}

type broken struct{}

func (broken) Querier(int64, int64) (storage.Querier, error) { return nil, errors.New("no disk") }

// No text makes the check panic or take long.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{`up`, `{a=~"b"}`, `sum by (a) (rate(b[5m]))`, `a{b="\u00e4"} # comment`, `"`, "`", `max_over_time(x[1h:1s] offset -1m @ end())`, `label_replace(a,"b","c","d","(.{9}){9}")`} {
		f.Add(text)
	}
	e := New(nil, Limits{})
	f.Fuzz(func(t *testing.T, text string) {
		var found *series.Error
		if _, err := e.check(text, at(0), at(120), time.Second); err != nil && (!errors.As(err, &found) || found.Fault != series.BadData || found.Text == "") {
			t.Errorf("%q is refused with %v", text, err)
		}
		if n := patterns(text); n < 0 {
			t.Errorf("%q has %d steps", text, n)
		}
	})
}
