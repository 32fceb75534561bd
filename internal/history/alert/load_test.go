package alert

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"

	"github.com/berth-gpu/berth/deploy/prometheus"
)

const text = `
groups:
  - name: mine
    interval: 30s
    limit: 7
    query_offset: 5s
    labels: {team: gpu, severity: info}
    rules:
      - record: user:leased:sum
        expr: sum by (user) (berth_lease_memory_mb)
      - alert: Much
        expr: user:leased:sum > 1000
        for: 1m
        keep_firing_for: 2m
        labels: {severity: critical}
        annotations: {summary: "{{ $labels.user }} has {{ $value }}"}
  - name: other
    rules: []
`

func TestParse(t *testing.T) {
	groups, err := Parse("a.yml", []byte(text), time.Minute)
	want := []Group{
		{Name: "mine", File: "a.yml", Interval: 30 * time.Second, Limit: 7, Offset: 5 * time.Second, Rules: []Rule{
			{Record: "user:leased:sum", Expr: "sum by (user) (berth_lease_memory_mb)", Labels: labels.FromMap(map[string]string{"team": "gpu", "severity": "info"}), Annotations: labels.EmptyLabels()},
			{
				Alert: "Much", Expr: "user:leased:sum > 1000", For: time.Minute, Keep: 2 * time.Minute,
				Labels:      labels.FromMap(map[string]string{"team": "gpu", "severity": "critical"}),
				Annotations: labels.FromMap(map[string]string{"summary": "{{ $labels.user }} has {{ $value }}"}),
			},
		}},
		{Name: "other", File: "a.yml", Interval: time.Minute, Rules: []Rule{}},
	}
	if diff := cmp.Diff(want, groups, sameLabels); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestShippedRulesHaveTheGroupForOthers(t *testing.T) {
	groups, err := Parse(prometheus.Name, []byte(prometheus.Rules), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		for _, r := range g.Rules {
			if about := strings.Contains(r.Expr, "up{"); about != (g.Name == prometheus.Outside) {
				t.Errorf("%s in the group %s asks %s", r.Alert, g.Name, r.Expr)
			}
		}
	}
	if groups[len(groups)-1].Name != prometheus.Outside {
		t.Errorf("there is no group %s", prometheus.Outside)
	}
}

func TestMistakesHaveALine(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"expression": {"groups:\n- name: a\n  rules:\n  - alert: A\n    expr: up ==\n", `r.yml:5: group "a", rule 1, "A": could not parse expression: 1:6: parse error: unexpected end of input`},
		"template":   {"groups:\n- name: a\n  rules:\n  - alert: A\n    expr: up\n    annotations: {summary: '{{ $nobody }}'}\n", `r.yml:4: group "a", rule 1, "A": annotation "summary": template: __alert_A:1: undefined variable "$nobody"`},
		"label":      {"groups:\n- name: a\n  rules:\n  - alert: A\n    expr: up\n    labels: {__name__: b}\n", `r.yml:4: group "a", rule 1, "A": invalid label name: __name__`},
		"field":      {"groups:\n- name: a\n  rules:\n  - alrt: A\n    expr: up\n", `r.yml:4: field alrt not found`},
		"nothing":    {"groups:\n- name: a\n  rules:\n  - alert: A\n", `r.yml:4: group "a", rule 1, "A": field 'expr' must be set in rule`},
		"twice":      {"groups:\n- name: a\n  rules: []\n- name: a\n  rules: []\n", `r.yml:4: groupname: "a" is repeated in the same file`},
		"no YAML":    {"groups:\n- name: [\n", "r.yml:2: did not find expected node content"},
		"offset":     {"groups:\n- name: a\n  rules: []\n- name: b\n  query_offset: 61m\n  rules: []\n", `r.yml:4: group "b": query_offset is longer than 1h, and what is so late is not stored`},
		"duration":   {"groups:\n- name: a\n  interval: soon\n", `r.yml: not a valid duration string: "soon"`},
	} {
		t.Run(name, func(t *testing.T) {
			groups, err := Parse("r.yml", []byte(c.text), time.Minute)
			if err == nil || !strings.Contains(err.Error(), c.want) || groups != nil {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	good, bad, absent := filepath.Join(dir, "good.yml"), filepath.Join(dir, "bad.yml"), filepath.Join(dir, "absent.yml")
	for path, text := range map[string]string{good: text, bad: "groups:\n- name: a\n  rules:\n  - alert: A\n    expr: (\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if groups, err := Load([]string{good}, time.Minute, nil); err != nil || len(groups) != 2 {
		t.Errorf("%v, %v", groups, err)
	}
	groups, err := Load([]string{good, bad, absent, dir}, time.Minute, nil)
	if err == nil || groups != nil {
		t.Fatalf("files with mistakes: %v, %v", groups, err)
	}
	for _, want := range []string{bad + ":5: ", absent + ": cannot read the file: no such file", dir + ": cannot read the file: it is not a regular file"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not say %s", err, want)
		}
	}
	if first := (*FileError)(nil); !errors.As(err, &first) || first.Line != 5 || first.File != bad {
		t.Errorf("the first mistake is %+v", first)
	}
	huge := filepath.Join(dir, "huge.yml")
	if err := os.WriteFile(huge, []byte("#"+strings.Repeat("x", largest)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load([]string{huge}, time.Minute, nil); err == nil || !strings.Contains(err.Error(), "larger than 1024 KiB") {
		t.Error(err)
	}
}

func TestExpand(t *testing.T) {
	e := newEngine(promqltest.LoadedStorage(t, "load 1m\n  limit{gpu=\"GPU-1\"} 1000x9\n"))
	r := &Rule{
		Alert: "Hot",
		Labels: labels.FromMap(map[string]string{
			"severity": `{{ if gt $value 90.0 }}critical{{ else }}warning{{ end }}`, "gpu": "", "where": "{{ $labels.instance }}",
		}),
		Annotations: labels.FromMap(map[string]string{
			"asked": `{{ with query "limit" }}{{ . | first | value }}{{ end }}`, "broken": `{{ query "(" }}`, "human": `{{ 12345.0 | humanize }}`,
			"plain": "as it is", "long": `{{ range $i, $e := query "limit" }}{{ end }}` + strings.Repeat("ä", longest), "address": "{{ $externalURL }}.",
		}),
	}
	hot := labels.FromMap(map[string]string{labels.MetricName: "gpu_temperature_celsius", "gpu": "GPU-1", "instance": "a"})
	found := expand(t.Context(), e.ask, r, promql.Sample{Metric: hot, F: 95}, time.Unix(60, 0))
	want := labels.FromMap(map[string]string{"alertname": "Hot", "instance": "a", "severity": "critical", "where": "a"})
	if diff := cmp.Diff(want, found.Labels, sameLabels); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]string{"asked": "1000", "human": "12.35k", "plain": "as it is", "address": "."} {
		if got := found.Annotations.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := found.Annotations.Get("broken"); !strings.HasPrefix(got, "<error expanding template: ") {
		t.Errorf("broken is %q", got)
	}
	if got := found.Annotations.Get("long"); len(got) > longest+3 || !strings.HasSuffix(got, "ä…") {
		t.Errorf("long has %d bytes", len(got))
	}
}
