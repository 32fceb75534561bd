package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/history/alert"
)

var update = flag.Bool("update", false, "write the list of the surface anew")

const (
	surface = "testdata/surface.list" // TestScripts takes every .txt there for a script
	pages   = "../../internal/door/promexport/testdata/"
)

// TestSurface lists everything that users type, call, set and read. A change that
// only moves code leaves the list as it is.
func TestSurface(t *testing.T) {
	m := newMachine(t, 1)
	list := strings.Join(slices.Concat(
		[]string{"# commands"}, commandLines(), []string{"", "# routes"}, routeLines(m), []string{"", "# settings"}, settingLines(),
		[]string{"", "# metrics"}, metricLines(m), []string{"", "# events"}, eventLines(),
	), "\n") + "\n"
	if *update {
		if err := os.WriteFile(surface, []byte(list), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := gocmp.Diff(strings.Split(string(m.file(surface)), "\n"), strings.Split(list, "\n")); diff != "" {
		t.Errorf("users notice this; if it is right, run go test ./cmd/berth-serve -run TestSurface -update (-want +got):\n%s", diff)
	}
}

// commandLines walks the tree of commands, which cobra sorts, with the commands
// that cobra adds. All of them have --help too. In an empty world no default
// depends on the machine.
func commandLines() (lines []string) {
	root := cli.New(cli.Env{})
	root.Version = version
	root.InitDefaultVersionFlag()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		path := c.CommandPath()
		lines = append(lines, path+strings.TrimPrefix(c.Use, c.Name())+when(c.Aliases != nil, " aliases="+strings.Join(c.Aliases, ","))+when(c.Hidden, " hidden"))
		for _, f := range visited(c.LocalFlags().VisitAll) {
			lines = append(lines, fmt.Sprintf("%s: --%s%s %s default=%q", path, f.Name, when(f.Shorthand != "", " -"+f.Shorthand), f.Value.Type(), f.DefValue)+
				when(f.NoOptDefVal != "", " bare="+f.NoOptDefVal)+when(c.PersistentFlags().Lookup(f.Name) != nil, " inherited")+when(f.Hidden, " hidden"))
		}
		for _, below := range c.Commands() {
			walk(below)
		}
	}
	walk(root)
	return lines
}

func when(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// visited returns what visit visits.
func visited[T any](visit func(func(T))) (all []T) {
	visit(func(one T) { all = append(all, one) })
	return all
}

// routeLines reads the OpenAPI text of a daemon. Each door registers its routes
// and their text in one step, and the roles there are those of the route's verb.
func routeLines(m *machine) (lines []string) {
	var text struct {
		Paths map[string]map[string]struct {
			Role       string `json:"x-role"`
			Others     string `json:"x-role-others"`
			Parameters []struct{ Name, In string }
		}
	}
	m.decode("/openapi.json", &text)
	for path, methods := range text.Paths {
		for method, op := range methods {
			line := strings.ToUpper(method) + " " + path + " role=" + op.Role + when(op.Others != "", " others="+op.Others)
			for _, p := range op.Parameters {
				line += " " + p.In + ":" + p.Name
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// settingLines reads the table of the settings, and from DeviceOverride which of
// them a single device can have.
func settingLines() (lines []string) {
	for _, f := range config.Describe() {
		lines = append(lines, fmt.Sprintf("%s default=%q range=%q role=%s env=%s", f.Name, f.Default, f.Range, f.Role, strings.Join(f.Env, ",")))
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[config.DeviceOverride]()) {
		around, _ := reflect.TypeFor[config.GPU]().FieldByName(f.Name)
		lines = append(lines, "gpu.devices.UUID."+cmp.Or(around.Tag.Get("key"), around.Tag.Get("json")))
	}
	slices.Sort(lines)
	return lines
}

// metricLines reads the golden pages of promexport, where a test finds every
// metric that a collector describes, and the page of a daemon: a metric with
// other labels there would be another line. The metadata adds what only the past
// has, whose labels no table lists. The metrics of the Go runtime change with Go,
// so only the one that the past keeps is listed.
func metricLines(m *machine) []string {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	onPage, lines := map[string]bool{}, map[string]bool{alert.Series: true, alert.SinceSeries: true}
	for _, page := range [][]byte{m.file(pages + "metrics.txt"), m.file(pages + "dcgm.txt"), m.get("/metrics")} {
		families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
		if err != nil {
			m.t.Fatal(err)
		}
		for name, family := range families {
			if strings.HasPrefix(name, "go_") {
				continue
			}
			onPage[name] = true
			for _, one := range family.GetMetric() {
				line := name + " " + strings.ToLower(family.GetType().String())
				for _, l := range one.GetLabel() {
					line += " " + l.GetName()
				}
				lines[line] = true
			}
		}
	}
	var metadata struct {
		Data map[string][]struct{ Type string }
	}
	m.decode("/api/v1/metadata", &metadata)
	for name, described := range metadata.Data {
		if !onPage[name] {
			lines[name+" "+described[0].Type] = true
		}
	}
	return slices.Sorted(maps.Keys(lines))
}

// eventLines lists the codes. Their severities are in no table: whoever publishes
// an event chooses.
func eventLines() (lines []string) {
	for _, code := range gpu.EventCodes() {
		lines = append(lines, string(code))
	}
	slices.Sort(lines)
	return lines
}

func (m *machine) file(name string) []byte {
	text, err := os.ReadFile(name)
	if err != nil {
		m.t.Fatal(err)
	}
	return text
}

// get returns what the daemon answers on its socket.
func (m *machine) get(path string) []byte {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", m.path("s")) }}
	answer, err := (&http.Client{Transport: transport}).Get("http://berth" + path)
	if err != nil {
		m.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		m.t.Fatalf("GET %s: %s, %v", path, answer.Status, err)
	}
	return text
}

func (m *machine) decode(path string, into any) {
	if err := json.Unmarshal(m.get(path), into); err != nil {
		m.t.Fatal(err)
	}
}
