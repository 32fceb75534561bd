package config_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
)

var update = flag.Bool("update", false, "write the files that are compared")

// golden compares a file with what it should hold.
func golden(t *testing.T, name string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is out of date: run go test ./internal/config -update\nit should be:\n%s", name, want)
	}
}

// Package api describes the same JSON, and its tests read the same file.
func TestChangeableAsJSON(t *testing.T) {
	s, err := merge(everything, "", nil, nil)
	var both []json.RawMessage
	for _, c := range []config.Config{config.Default(), must(t, s, err).Config} {
		text, err := c.Changeable()
		if err != nil || strings.Contains(string(text), "hush") {
			t.Fatalf("%v, or a secret is in %s", err, text)
		}
		both = append(both, text)
	}
	text, err := json.MarshalIndent(both, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/gpu.json", append(text, '\n'))
}

func TestForFollowsTheSectionAround(t *testing.T) {
	s, err := merge(everything, "", nil, nil)
	g := must(t, s, err).Config.GPU
	want := g
	if got := g.For("GPU-3"); !reflect.DeepEqual(got, want) {
		t.Errorf("a device without overrides: got %+v, want %+v", got, want)
	}
	want.TempCritical, want.MemoryOptimal, want.CriticalPause, want.MemoryLimit = 95, 50, 5e9, gpu.Some[gpu.MiB](1024)
	want.Throttle, want.PowerLeast, want.FanCurve = "advise", gpu.Some[gpu.Watts](200), "40:100"
	if got := g.For("GPU-1"); !reflect.DeepEqual(got, want) {
		t.Errorf("a device with overrides: got %+v, want %+v", got, want)
	}
}

// The page of settings names those of single devices, and no others.
func TestSettingsOfSingleDevicesAreNamed(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	sentence := regexp.MustCompile("(?s)These settings of `gpu`\\s+can also be set for single devices, under `gpu.devices.UUID`: (.*?)\\.\n").FindSubmatch(page)
	if sentence == nil {
		t.Fatal("the page does not name them")
	}
	var named []string
	for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllSubmatch(sentence[1], -1) {
		named = append(named, string(m[1]))
	}
	var want []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[config.DeviceOverride]()) {
		of, _ := reflect.TypeFor[config.GPU]().FieldByName(f.Name)
		want = append(want, cmp.Or(of.Tag.Get("key"), of.Tag.Get("json")))
	}
	if !slices.Equal(named, want) {
		t.Errorf("the page names %q, and there are %q", named, want)
	}
}

// A field of DeviceOverride that For forgets would be accepted and do nothing.
func TestForKnowsEveryOverride(t *testing.T) {
	override := reflect.TypeFor[config.DeviceOverride]()
	for i := range override.NumField() {
		name := override.Field(i).Name
		var o config.DeviceOverride
		field := reflect.ValueOf(&o).Elem().Field(i)
		value := "77"
		if field.Kind() == reflect.String {
			value = `"77"`
		}
		if err := json.Unmarshal([]byte(value), field.Addr().Interface()); err != nil {
			t.Fatal(err)
		}
		g := config.GPU{Devices: map[string]config.DeviceOverride{"GPU-1": o}}
		if reflect.DeepEqual(g.For("GPU-1"), g.For("GPU-2")) {
			t.Errorf("For does not look at %s", name)
		}
		if got := reflect.ValueOf(g.For("GPU-1")).FieldByName(name); got.IsZero() {
			t.Errorf("For does not set %s", name)
		}
	}
}
