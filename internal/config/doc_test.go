package config_test

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/internal/config"
)

const (
	document = "../../docs/reference/configuration.md"
	sample   = "../../deploy/berth.yaml"
)

// sections are the parts of the documentation, with what Config says of them.
func sections() (keys []string, docs map[string]string) {
	docs = map[string]string{}
	t := reflect.TypeFor[config.Config]()
	for i := range t.NumField() {
		key := t.Field(i).Tag.Get("key")
		keys, docs[key] = append(keys, key), t.Field(i).Tag.Get("doc")
	}
	return keys, docs
}

func section(name string) string {
	key, _, _ := strings.Cut(name, ".")
	return key
}

// The tables of the documentation lie between two marks; the rest is written
// by hand.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- settings: written by go test ./internal/config -update -->\n", "<!-- end of settings -->\n"
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has lost its marks", document)
	}
	golden(t, document, []byte(before+begin+tables()+end+after))
}

func tables() string {
	var b strings.Builder
	keys, docs := sections()
	for _, key := range keys {
		fmt.Fprintf(&b, "\n### %s\n\n", key)
		if !alone(key) {
			b.WriteString(docs[key] + "\n\n")
		}
		b.WriteString("| setting | default | allowed | variable, flag | what it does |\n|---|---|---|---|---|\n")
		for _, f := range config.Describe() {
			if section(f.Name) == key {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", strings.TrimPrefix(f.Name, key+"."), withUnit(f), f.Range, settable(f), f.Doc)
			}
		}
	}
	return b.String() + "\n"
}

// alone reports whether a part of the documentation is one setting.
func alone(key string) bool {
	return slices.ContainsFunc(config.Describe(), func(f config.Field) bool { return f.Name == key })
}

func withUnit(f config.Field) string {
	if f.Unit == "" || !regexp.MustCompile(`^[0-9.]+$`).MatchString(f.Default) {
		return f.Default
	}
	return f.Default + " " + f.Unit
}

func settable(f config.Field) string {
	var ways []string
	for _, name := range f.Env {
		ways = append(ways, "`"+name+"`")
	}
	if f.Flag != "" && section(f.Name) == "daemon" {
		ways = append(ways, "`--"+f.Flag+"`")
	}
	return strings.Join(ways, ", ")
}

// deviceExample and the examples of maps show what the defaults cannot: entries
// of maps that are empty.
const deviceExample = `devices:
  GPU-8d1f0a3c-5b0e-4f0e-9a44-1f6d2f0b7c11:
    temp_optimal: 60
    memory_limit_mb: 20GiB
`

// mapExample is an entry of a map: its name, and its settings.
type mapExample struct {
	name   string
	values map[string]string
}

var mapExamples = map[string]mapExample{"services": {"embedder", map[string]string{
	"min_memory_mb": "2048", "max_memory_mb": "16GiB", "preferred_device": "GPU-8d1f0a3c-5b0e-4f0e-9a44-1f6d2f0b7c11",
	"affinity": "together", "priority": "10", "quota.memory_mb": "32GiB", "quota.slots": "4", "users": "[alice, bob]", "namespaces": "[medical-kg]", "over_limit": "revoke", "throttle": "exempt", "compute": "30", "parkable": "unshared", "shrinkable": "true",
	"keep_seconds": "30", "longest_wait": "20", "time_slice_seconds": "2m", "keep": "false",
	"command": `"embed-server --port ${PORT}"`, "user": "embed", "directory": "/srv/embed", "env": "{HF_HOME: /srv/models}", "port": "9001", "ready.path": "/health", "ready.tcp": "", "ready.log": "",
	"memory": "12GiB", "gpus": "1", "start": "on_demand", "start_timeout": "5m", "restart": "true", "idle_after": "10m", "away": "auto",
	"sleep": "[{method: POST, path: /sleep}]", "wake": "[{method: POST, path: /wake_up}]", "default": "true",
	"models": "[bge-m3, bge-*]", "hosts": "[embed.example.com]", "ignore": "[/favicon.ico]", "max_open": "64",
	"match.unit": "embedder.service", "match.cgroup": "/system.slice", "match.program": "embed.py", "match.user": "embed",
}}, "users": {"alice", limitExample("operator")}, "groups": {"students", groupExample()}, "hooks": {"pager", map[string]string{
	"url": "https://example.com/events", "command": "", "codes": "[device_lost, device_quarantined, critical]",
	"severity": "warning", "secret": "something-long-and-random", "timeout_seconds": "10",
}}}

// limitExample is an entry of the section users.
func limitExample(role string) map[string]string {
	return map[string]string{
		"role": role, "memory_mb": "80GiB", "slots": "8", "leases": "16", "waiting": "64", "gpus": "4", "running_jobs": "8", "waiting_jobs": "1000", "longest_wait_seconds": "1h", "longest_ttl_seconds": "24h",
		"longest_time_seconds": "72h", "named_leases": "false", "calls_per_second": "100", "connections": "64", "streams": "8", "service": "research",
	}
}

// groupExample is an entry of the section groups.
func groupExample() map[string]string {
	example := limitExample("user")
	example["together.memory_mb"], example["together.slots"], example["together.leases"] = "160GiB", "16", "64"
	return example
}

// exampleOf writes the example of a map. A setting that is not there beside the
// others is shown as a comment.
func exampleOf(t *testing.T, section string) string {
	var b strings.Builder
	b.WriteString(mapExamples[section].name + ":\n")
	for _, f := range config.Describe() {
		key, ok := strings.CutPrefix(f.Name, section+".NAME.")
		if !ok {
			continue
		}
		value, known := mapExamples[section].values[key]
		if !known {
			t.Fatalf("the example of %s shows no %s", section, key)
		}
		if value == "" {
			indent, key := "  ", key
			if group, inner, nested := strings.Cut(key, "."); nested && strings.Contains(b.String(), "  "+group+":\n") {
				indent, key = "    ", inner
			}
			fmt.Fprintf(&b, "%s# or %s: %s\n", indent, key, f.Doc)
			continue
		}
		indent := "  "
		if group, inner, nested := strings.Cut(key, "."); nested {
			if !strings.Contains(b.String(), "  "+group+":\n") {
				b.WriteString("  " + group + ":\n")
			}
			key, indent = inner, "    "
		}
		fmt.Fprintf(&b, "%s%s: %s # %s\n", indent, key, value, f.Doc)
	}
	return b.String()
}

func commented(indent, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(indent + "#   " + line)
	}
	return b.String()
}

const sampleHeader = `# berth.yaml: the configuration of the berth daemon. The usual place for it is
# /etc/berth/berth.yaml.
#
# Every setting is here with its default. A line with a # and no space after it
# is a setting: remove the # and change it. berth help configuration says more.
`

// writtenDefaults are for what has no default that can be written down.
var writtenDefaults = map[string]string{
	"daemon.token": `""`, "daemon.token_file": `""`, "daemon.tls_cert": `""`, "daemon.tls_key": `""`, "daemon.tls_client_ca": `""`, "daemon.cluster_keys": `""`, "daemon.cluster_node": `""`,
	"daemon.socket_group": `""`, "daemon.socket_mode": `""`,
	"gpu.memory_limit_mb": "null", "gpu.max_pipelines": "null",
	"gpu.power_least_watts": "null", "gpu.fan_curve": `""`, "energy.price_per_kwh": "null", "alerts.rules": "[]", "front.listen": `""`, "front.tls_cert": `""`, "front.tls_key": `""`, "front.user": `""`, "optimization.park_host_mb": "null", "optimization.longest_wait": "null",
}

func writeSample(t *testing.T) string {
	state, socket := config.DefaultPaths(true, nil)
	written := map[string]string{"daemon.state_dir": state, "daemon.socket": socket}
	var b strings.Builder
	b.WriteString(sampleHeader)
	keys, docs := sections()
	for _, key := range keys {
		if alone(key) {
			f := config.Describe()[slices.IndexFunc(config.Describe(), func(f config.Field) bool { return f.Name == key })]
			fmt.Fprintf(&b, "\n# %s%s\n#%s: %s\n", f.Doc, explained(f, f.Default), key, f.Default)
			continue
		}
		fmt.Fprintf(&b, "\n# %s\n", docs[key])
		_, isMap := mapExamples[key]
		if isMap {
			b.WriteString("# For example:\n" + commented("", exampleOf(t, key)))
		}
		fmt.Fprintf(&b, "%s:\n", key)
		for _, f := range config.Describe() {
			if section(f.Name) != key || isMap {
				continue
			}
			value := f.Default
			for _, other := range []map[string]string{written, writtenDefaults} {
				if v, ok := other[f.Name]; ok {
					value = v
				}
			}
			fmt.Fprintf(&b, "  # %s%s\n  #%s: %s\n", f.Doc, explained(f, value), strings.TrimPrefix(f.Name, key+"."), value)
		}
		if key == "gpu" {
			b.WriteString("  # What is different for single devices, by UUID. For example:\n" + commented("  ", deviceExample) + "  #devices: {}\n")
		}
	}
	return b.String()
}

// explained is what the bare default does not say.
func explained(f config.Field, value string) string {
	var notes []string
	if f.Unit != "" {
		notes = append(notes, f.Unit)
	}
	if f.Range != "" {
		notes = append(notes, f.Range)
	}
	if value == "null" {
		notes = append(notes, "null: "+f.Default)
	}
	if notes == nil {
		return ""
	}
	return " (" + strings.Join(notes, "; ") + ")"
}

func TestSample(t *testing.T) { golden(t, sample, []byte(writeSample(t))) }

func TestSampleHoldsExactlyTheDefaults(t *testing.T) {
	text, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	uncommented := regexp.MustCompile(`(?m)^( *)#(\S)`).ReplaceAllString(string(text), "$1$2")
	state, socket := config.DefaultPaths(true, nil)
	want := config.Default()
	want.Daemon.StateDir, want.Daemon.Socket = state, socket
	for name, yaml := range map[string]string{"as it is": string(text), "with every # removed": uncommented} {
		file, err := config.ParseYAML(sample, []byte(yaml))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s, err := config.Merge(config.Paths(state, socket), file)
		if diff := cmp.Diff(want, must(t, s, err).Config, equal); diff != "" {
			t.Errorf("%s (-defaults +got):\n%s", name, diff)
		}
		if set := s.Source("gpu.temp_optimal") != "default"; set != (yaml == uncommented) {
			t.Errorf("%s: temp_optimal is set by %s", name, s.Source("gpu.temp_optimal"))
		}
	}
	// What is null or a map in the sample has no source, so a setting that the
	// sample forgot would not show up above.
	for _, f := range config.Describe() {
		key := f.Name[strings.LastIndexByte(f.Name, '.')+1:]
		if !strings.Contains(string(text), key+": ") {
			t.Errorf("the sample lacks %s", f.Name)
		}
	}
}

func TestExamplesAreRight(t *testing.T) {
	indented := func(text string) string { return strings.ReplaceAll("\n"+text, "\n", "\n  ") + "\n" }
	s, err := merge("gpu:"+indented(deviceExample)+"services:"+indented(exampleOf(t, "services"))+"users:"+indented(exampleOf(t, "users"))+"groups:"+indented(exampleOf(t, "groups"))+"hooks:"+indented(exampleOf(t, "hooks")), "", nil, nil)
	c := must(t, s, err).Config
	if len(c.GPU.Devices) != 1 || c.Services["embedder"].Quota.Slots.Or(0) != 4 || len(c.Hooks["pager"].Codes) != 3 {
		t.Errorf("the examples were read as %+v", c)
	}
}

func TestEverySettingIsExplained(t *testing.T) {
	for _, f := range config.Describe() {
		if f.Doc == "" || !strings.HasSuffix(f.Doc, ".") {
			t.Errorf("%s: %q is no sentence", f.Name, f.Doc)
		}
		if f.Default == "" {
			t.Errorf("%s does not say what holds without a value", f.Name)
		}
	}
}
