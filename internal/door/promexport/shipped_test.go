package promexport

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"
)

// What ships beside the daemon is about the metrics that it has: a rule or a
// panel on one that does not exist is silent for ever.

const (
	rules      = "../../../deploy/prometheus/berth.rules.yml"
	dashboard  = "../../../deploy/grafana/berth.json"
	monitoring = "../../../docs/guide/monitoring.md"
	list       = "../../../docs/reference/metrics.md"
)

// namesOnPage returns the names of all lines of the page, with those of metrics that
// only have lines once something happened.
func namesOnPage(t *testing.T) map[string]bool {
	golden, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{"up": true} // of Prometheus itself
	for line := range strings.Lines(string(golden) + scrape(exporter(t))) {
		if name := regexp.MustCompile(`^\w+`).FindString(line); name != "" {
			names[name] = true
		}
	}
	return names
}

// metrics are the names in an expression: the words that are neither functions
// nor labels nor part of the language.
func metrics(expr string) []string {
	for _, aside := range []string{`"[^"]*"`, `\{[^}]*\}`, `\[[^\]]*\]`, `\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`} {
		expr = regexp.MustCompile(aside).ReplaceAllString(expr, " ")
	}
	var names []string
	for _, match := range regexp.MustCompile(`(\w+)\s*(\(?)`).FindAllStringSubmatch(expr, -1) {
		word, called := match[1], match[2] != ""
		language := slices.Contains([]string{"and", "or", "unless", "bool", "offset"}, word)
		if number := word[0] >= '0' && word[0] <= '9'; !called && !language && !number {
			names = append(names, word)
		}
	}
	return names
}

func TestMetricsOfAnExpression(t *testing.T) {
	for expr, want := range map[string][]string{
		`100 * a_b{x="c"} / ignoring(kind) d > 0.9`:                                        {"a_b", "d"},
		`histogram_quantile(0.99, sum by (le, tier) (rate(a_bucket{x=~"y|z"}[5m]))) > 1e6`: {"a_bucket"},
		"up == 0 or absent(up)":                             {"up", "up"},
		"increase(a[15m]) > 1 unless on (hook) rate(b[1m])": {"a", "b"},
	} {
		if diff := cmp.Diff(want, metrics(expr)); diff != "" {
			t.Errorf("%s: %s", expr, diff)
		}
	}
}

func exist(t *testing.T, known map[string]bool, where, expr string) {
	t.Helper()
	found := metrics(expr)
	if len(found) == 0 {
		t.Errorf("%s asks for nothing: %q", where, expr)
	}
	for _, name := range found {
		if !known[name] {
			t.Errorf("%s asks for %s, which is not on the page", where, name)
		}
	}
}

func TestRules(t *testing.T) {
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	known := namesOnPage(t)
	tests, err := os.ReadFile(strings.TrimSuffix(rules, ".yml") + ".test.yml")
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile(monitoring)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			seen++
			exist(t, known, rule.Alert, rule.Expr)
			if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("%s lacks a severity, a summary or a description", rule.Alert)
			}
			if !strings.Contains(string(tests), "alertname: "+rule.Alert+"\n") {
				t.Errorf("%s is never seen to fire in the tests of the rules", rule.Alert)
			}
			if !strings.Contains(string(document), "`"+rule.Alert+"`") {
				t.Errorf("docs/guide/monitoring.md does not say what to do about %s", rule.Alert)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d rules were found", seen)
	}
}

func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	type source struct{ Type, UID string }
	var file struct {
		SchemaVersion int
		Panels        []struct {
			ID          int
			Type, Title string
			Datasource  source
			FieldConfig struct{ Defaults struct{ Unit string } }
			Targets     []struct {
				Expr       string
				Datasource source
			}
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	known, ids := namesOnPage(t), map[int]bool{}
	chosen := source{"prometheus", "${datasource}"}
	for _, p := range file.Panels {
		if p.Title == "" || ids[p.ID] {
			t.Errorf("panel %d %q has no title, or an id that another one has", p.ID, p.Title)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		if p.FieldConfig.Defaults.Unit == "" || p.Datasource != chosen || len(p.Targets) == 0 {
			t.Errorf("panel %q has no unit, no query, or not the data source that was chosen", p.Title)
		}
		for _, target := range p.Targets {
			exist(t, known, p.Title, target.Expr)
			if target.Datasource != chosen {
				t.Errorf("panel %q asks %v", p.Title, target.Datasource)
			}
		}
	}
	if file.SchemaVersion < 38 || len(ids) < 20 {
		t.Errorf("schema version %d, %d panels", file.SchemaVersion, len(ids))
	}
}

// Every metric of ours is in the table of the documentation, and nothing else.
func TestMetricsAreDocumented(t *testing.T) {
	golden, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	names := func(pattern string, text []byte) (found []string) {
		for _, match := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			found = append(found, string(match[1]))
		}
		slices.Sort(found)
		return found
	}
	if diff := cmp.Diff(names(`(?m)^# TYPE (\w+)`, golden), names("(?m)^\\| `((?:gpu|berth)_\\w+)`", document)); diff != "" {
		t.Errorf("docs/reference/metrics.md (-the page +the table):\n%s", diff)
	}
}

// The golden pages have a line for everything that a collector describes, so
// that whoever reads them reads every metric.
func TestGoldenPagesAreWhole(t *testing.T) {
	var golden []byte
	for _, name := range []string{"testdata/metrics.txt", "testdata/dcgm.txt"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		golden = append(golden, text...)
	}
	rest, descriptions := exporter(t).rest.(*prometheus.Registry), make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		rest.Describe(descriptions)
		(&page{groups: []group{{deviceFamilies(), putDevices}}}).Describe(descriptions)
	}()
	for d := range descriptions {
		name := regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(d.String())[1]
		process := strings.HasPrefix(name, "process_") || strings.HasPrefix(name, "go_")
		if !process && !strings.Contains(string(golden), "# TYPE "+name+" ") {
			t.Errorf("no golden page has %s", name)
		}
	}
}
