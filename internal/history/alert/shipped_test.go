package alert

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"go.yaml.in/yaml/v3"

	"github.com/berth-gpu/berth/deploy/prometheus"
	"github.com/berth-gpu/berth/internal/history/series"
)

// engine answers questions about the series of one test.
type engine struct {
	engine *promql.Engine
	from   storage.Queryable
}

func newEngine(from storage.Queryable) engine {
	return engine{promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})}), from}
}

func (e engine) ask(ctx context.Context, expr string, at time.Time) (series.Answer, error) {
	q, err := e.engine.NewInstantQuery(ctx, e.from, nil, expr, at)
	if err != nil {
		return series.Answer{}, err
	}
	defer q.Close()
	result := q.Exec(ctx)
	if result.Err != nil {
		return series.Answer{}, result.Err
	}
	return series.Answer{Value: result.Value}, nil
}

// ruleTests is a file of promtool's tests.
type ruleTests struct {
	Interval model.Duration `yaml:"evaluation_interval"`
	Tests    []struct {
		Name     string         `yaml:"name"`
		Interval model.Duration `yaml:"interval"`
		Input    []struct {
			Series string `yaml:"series"`
			Values string `yaml:"values"`
		} `yaml:"input_series"`
		Alerts []struct {
			At       model.Duration `yaml:"eval_time"`
			Name     string         `yaml:"alertname"`
			Expected []struct {
				Labels      map[string]string `yaml:"exp_labels"`
				Annotations map[string]string `yaml:"exp_annotations"`
			} `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	} `yaml:"tests"`
}

// The tests that promtool runs on the shipped rules come out the same with the
// reader and the machine of the daemon.
func TestShippedRulesAsPromtoolTestsThem(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/prometheus/berth.rules.test.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file ruleTests
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	groups, err := Parse(prometheus.Name, []byte(prometheus.Rules), time.Duration(file.Interval))
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, test := range file.Tests {
		t.Run(test.Name, func(t *testing.T) {
			var load strings.Builder
			fmt.Fprintf(&load, "load %s\n", time.Duration(test.Interval))
			end := time.Duration(0)
			for _, s := range test.Input {
				fmt.Fprintf(&load, "  %s %s\n", s.Series, s.Values)
			}
			for _, a := range test.Alerts {
				end = max(end, time.Duration(a.At))
			}
			e := newEngine(promqltest.LoadedStorage(t, load.String()))
			asked := map[string]bool{}
			for _, a := range test.Alerts {
				asked[a.Name] = true
			}
			firing := evaluate(t, e, groups, asked, time.Duration(file.Interval), end)
			for _, a := range test.Alerts {
				var want []string
				for _, x := range a.Expected {
					x.Labels[NameLabel] = a.Name
					want = append(want, show(labels.FromMap(x.Labels), labels.FromMap(x.Annotations)))
				}
				slices.Sort(want)
				if diff := cmp.Diff(want, firing[time.Duration(a.At)][a.Name]); diff != "" {
					t.Errorf("%s after %v (-want +got):\n%s", a.Name, time.Duration(a.At), diff)
				}
				compared++
			}
		})
	}
	if compared < 30 {
		t.Errorf("only %d expectations were compared", compared)
	}
}

func show(l, annotations labels.Labels) string { return fmt.Sprint(l, annotations) }

// evaluate returns which of some alerts fire at which time, by name.
func evaluate(t *testing.T, e engine, groups []Group, names map[string]bool, interval, end time.Duration) map[time.Duration]map[string][]string {
	t.Helper()
	active := map[*Rule]Active{}
	firing := map[time.Duration]map[string][]string{}
	for after := time.Duration(0); after <= end; after += interval {
		at := time.Unix(0, 0).Add(after)
		now := map[string][]string{}
		for g := range groups {
			for i := range groups[g].Rules {
				r := &groups[g].Rules[i]
				if !names[r.Alert] {
					continue
				}
				answer, err := e.ask(t.Context(), r.Expr, at)
				if err != nil {
					t.Fatal(err)
				}
				var found []Found
				elements, _ := vector(answer)
				for _, s := range elements {
					found = append(found, expand(t.Context(), e.ask, r, s, at))
				}
				if active[r], _, err = r.Step(active[r], found, at, 0); err != nil {
					t.Fatal(err)
				}
				for _, s := range active[r].List() {
					if s.Phase == Firing {
						now[r.Alert] = append(now[r.Alert], show(s.Labels, s.Annotations))
					}
				}
			}
		}
		for _, list := range now {
			slices.Sort(list)
		}
		firing[after] = maps.Clone(now)
	}
	return firing
}
