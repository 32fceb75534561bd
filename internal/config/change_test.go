package config_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/internal/config"
)

func TestChange(t *testing.T) {
	const yaml = "gpu:\n  temp_optimal: 61\n  devices:\n    GPU-9: {temp_optimal: 50}\n"
	for _, c := range []struct {
		name   string
		bodies []string // one after the other
		want   string   // what is stored after them, without the comment
	}{
		{"nothing", []string{`{}`}, "{}\n"},
		{"one field", []string{`{"temp_optimal": 60}`}, "gpu:\n    temp_optimal: 60\n"},
		{"with units", []string{`{"memory_limit_mb": "4GiB", "monitor_interval": "500ms", "history_size": 100000}`},
			"gpu:\n    history_size: 100000\n    memory_limit_mb: 4096\n    monitor_interval: 0.5\n"},
		{"what holds already is no change", []string{`{"temp_optimal": 61, "history_size": 200, "memory_limit_mb": null}`}, "{}\n"},
		{"what was saved stays", []string{`{"temp_optimal": 60}`, `{"temp_normal": 70}`, `{"temp_optimal": 60}`},
			"gpu:\n    temp_normal: 70\n    temp_optimal: 60\n"},
		{"null goes back", []string{`{"temp_optimal": 60, "history_size": 5}`, `{"temp_optimal": null}`}, "gpu:\n    history_size: 5\n"},
		{"devices", []string{`{"devices": {"GPU-1": {"temp_optimal": 40, "memory_limit_mb": 99}, "GPU-2": {"max_pipelines": 2}, "GPU-9": {"temp_optimal": 50}, "GPU-3": {}}}`},
			"gpu:\n    devices:\n        GPU-1:\n            memory_limit_mb: 99\n            temp_optimal: 40\n        GPU-2:\n            max_pipelines: 2\n"},
		{"null in a device", []string{`{"devices": {"GPU-1": {"temp_optimal": 40, "memory_limit_mb": 99}}}`, `{"devices": {"GPU-1": {"temp_optimal": null}}}`},
			"gpu:\n    devices:\n        GPU-1:\n            memory_limit_mb: 99\n"},
		{"null for all of a device", []string{`{"devices": {"GPU-1": {"temp_optimal": 40}}}`, `{"devices": {"GPU-1": {"temp_optimal": null}}}`}, "{}\n"},
		{"null for a device", []string{`{"devices": {"GPU-1": {"temp_optimal": 40}, "GPU-10": {"temp_optimal": 41}}}`, `{"devices": {"GPU-1": null, "GPU-9": null}}`},
			"gpu:\n    devices:\n        GPU-10:\n            temp_optimal: 41\n"},
		{"null for all devices", []string{`{"history_size": 5, "devices": {"GPU-1": {"temp_optimal": 40}}}`, `{"devices": null}`}, "gpu:\n    history_size: 5\n"},
		{"other sections", []string{`{"optimization": {"allocation_timeout": "1m"}, "unknown_services": "refuse", "services": {"new_one": {"max_memory_mb": "2GiB", "users": ["ada"], "quota": {"slots": 2}}}, "hooks": {"pager": {"command": ["page", "me"]}}}`},
			"hooks:\n    pager:\n        command:\n            - page\n            - me\noptimization:\n    allocation_timeout: 60\n" +
				"services:\n    new-one:\n        max_memory_mb: 2048\n        quota:\n            slots: 2\n        users:\n            - ada\nunknown_services: refuse\n"},
		{"null for a part of a service", []string{`{"services": {"a": {"priority": 2, "max_memory_mb": 9}}}`, `{"services": {"a": {"priority": null}}}`}, "services:\n    a:\n        max_memory_mb: 9\n"},
		{"null for a service", []string{`{"services": {"a": {"priority": 2}, "a_b": {"priority": 3}}}`, `{"services": {"a": null}}`}, "services:\n    a-b:\n        priority: 3\n"},
		{"a service that is only known", []string{`{"services": {"a": {}}}`}, "services:\n    a: {}\n"},
		{"null for all services and hooks", []string{`{"services": {"a": {"priority": 2}}, "hooks": {"h": {"url": "http://x"}}}`, `{"services": null, "hooks": null}`}, "{}\n"},
		{"two wrongs that are right together", []string{`{"temp_optimal": 80, "temp_normal": 82}`}, "gpu:\n    temp_normal: 82\n    temp_optimal: 80\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := merge(yaml, "", nil, nil)
			must(t, s, err)
			var saved []byte
			for _, body := range c.bodies {
				next, text, err := s.Change([]byte(body))
				s, saved = must(t, next, err), text
			}
			comment, stored, _ := strings.Cut(string(saved), "\n")
			if diff := cmp.Diff(c.want, stored); diff != "" || !strings.HasPrefix(comment, "# ") {
				t.Errorf("stored (-want +got), after %q:\n%s", comment, diff)
			}
			again, err := merge(yaml, string(saved), nil, nil)
			if diff := cmp.Diff(s.Config, must(t, again, err).Config, equal); diff != "" {
				t.Errorf("after a restart: %s", diff)
			}
			if diff := cmp.Diff(s.All(), again.All()); diff != "" {
				t.Errorf("sources after a restart: %s", diff)
			}
		})
	}
}

func TestChangeRefused(t *testing.T) {
	yaml := "gpu:\n  temp_throttle: 84\n  devices:\n    GPU-9: {temp_normal: 70}\n"
	environ := []string{"BERTH_GPU_TEMP_CRITICAL=88"}
	flags := map[string]string{"gpu.history_size": "50"}
	for _, c := range []struct{ name, body, want string }{
		{"no body", ``, `the body is not JSON: unexpected end of JSON input: look for a missing comma, quote or bracket here or just before`},
		{"half an object", `{"temp_optimal": 60`, `the body is not JSON: unexpected end of JSON input: look for a missing comma, quote or bracket here or just before`},
		{"more than an object", `{} {}`, `the body is not JSON: invalid character '{' after top-level value: look for a missing comma, quote or bracket here or just before`},
		{"null", `null`, `the body must be a JSON object such as {"temp_optimal": 60}`},
		{"list", `[]`, `the body must be a JSON object such as {"temp_optimal": 60}`},
		{"too deep", strings.Repeat("[", 20_000), `the body is not JSON: invalid character '[' exceeded max depth: look for a missing comma, quote or bracket here or just before`},
		{"huge", `{"temp_optimal": ` + strings.Repeat(" ", 1<<20) + `60}`, `the body is larger than 1 MiB, and is not read: split it, or leave out what is not needed`},
		{"YAML", "temp_optimal: 60", `the body is not JSON: invalid character 'e' in literal true (expecting 'r'): look for a missing comma, quote or bracket here or just before`},

		{"unknown", `{"temp_optimum": 60}`, `temp_optimum: is not a setting: did you mean temp_optimal?`},
		{"other section", `{"listen": ":1"}`, `listen: is in the wrong place: it belongs under daemon`},
		{"the section daemon", `{"daemon": {"listen": "127.0.0.1:1", "socket": null}, "temp_optimal": 60}`,
			"daemon.listen: cannot change while the daemon runs: set it in berth.yaml and restart the daemon\n" +
				"daemon.socket: cannot change while the daemon runs: set it in berth.yaml and restart the daemon"},
		{"other sections", `{"optimization": {"interval": -1, "temp_optimal": 3}, "unknown_services": 5, "services": {"a": {"max_memory_mb": 1, "min_memory_mb": 2}, "b": 4, "c_d": {}, "c-d": {}}, "hooks": {"h": {"severity": "info"}, "i": {"url": "x"}}}`,
			"optimization.interval: must be 1 to 86400 s, not -1\n" +
				"optimization.temp_optimal: is in the wrong place: it belongs under gpu\n" +
				"unknown_services: must be one of serve, refuse, not \"5\"\n" +
				"services.b: must be a section (key: value), not a single value\n" +
				"services: c_d and c-d are the same service: put them together under one of the names\n" +
				"hooks.i.url: must be a web address such as https://example.com/events\n" +
				"services.a.max_memory_mb: 1 is not at least min_memory_mb, which is 2 (in the same request)\n" +
				"hooks.h: tells nobody: give it a url or a command"},
		{"unknown in a device", `{"devices": {"GPU-1": {"history_size": 3}}}`, `devices.GPU-1.history_size: is in the wrong place: it belongs under gpu`},
		{"twice", `{"temp_optimal": 60, "temp_optimal": 61}`, `temp_optimal: is set twice: remove one of them`},
		{"wrong types", `{"temp_optimal": "60", "temp_normal": true, "monitor_interval": [], "devices": 4, "memory_limit_mb": {}}`,
			"temp_optimal: must be a number, not \"60\"\ntemp_normal: must be a number, not true\n" +
				"monitor_interval: must be a number of seconds such as 30, or text such as 500ms, not a list\n" +
				"devices: must be a section (key: value), not a single value\n" +
				"memory_limit_mb: must be a number of MiB such as 2048, or text such as 4GiB, not a section"},
		{"out of range", `{"monitor_interval": 1e9, "max_pipelines": -1, "temp_optimal": 1e300}`,
			"monitor_interval: must be 0.1 to 3600 s, not 1e9\nmax_pipelines: must be 1 to 10000, not -1\ntemp_optimal: must be a number, not 1e300"},
		{"device by index", `{"devices": {"0": {"temp_optimal": 60}}}`,
			`devices: "0" is an index, which may mean another device after the next boot: use the UUID that berth status shows`},

		{"order", `{"memory_optimal": 90}`, `memory_optimal: 90 is not below memory_normal, which is 85 (default)`},
		{"order against the environment", `{"temp_throttle": 89}`,
			`temp_throttle: 89 is not below temp_critical, which is 88 (environment BERTH_GPU_TEMP_CRITICAL)`},
		{"order against a device", `{"temp_optimal": 71}`,
			`temp_optimal: 71 is not below gpu.devices.GPU-9.temp_normal, which is 70 (berth.yaml:4)`},
		{"order within a device", `{"devices": {"GPU-1": {"temp_optimal": 80, "temp_normal": 78}}}`,
			`devices.GPU-1.temp_normal: 78 is not above temp_optimal, which is 80 (in the same request)`},

		{"pinned by the environment", `{"temp_critical": 89}`,
			`temp_critical: is set by environment BERTH_GPU_TEMP_CRITICAL, which is stronger: change it there`},
		{"pinned by a flag", `{"history_size": null}`,
			`history_size: is set by flag --gpu-history-size, which is stronger: change it there`},
		{"all at once", `{"temp_normal": 84, "history_size": 1, "nonsense": 1, "memory_normal": 99}`,
			"nonsense: is not a setting: there is none like it; berth config lists all of them\n" +
				"history_size: is set by flag --gpu-history-size, which is stronger: change it there\n" +
				"temp_normal: 84 is not below temp_throttle, which is 84 (berth.yaml:2)\n" +
				"memory_normal: 99 is not below memory_critical, which is 95 (default)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := merge(yaml, "", environ, flags)
			before := must(t, s, err).All()
			next, saved, err := s.Change([]byte(c.body))
			if diff := cmp.Diff(c.want, lines(err)); diff != "" {
				t.Errorf("complaints (-want +got):\n%s", diff)
			}
			if next != nil || saved != nil {
				t.Errorf("refused, but returned %v and %q", next, saved)
			}
			if diff := cmp.Diff(before, s.All()); diff != "" {
				t.Errorf("the settings changed: %s", diff)
			}
		})
	}
}

// An answer to GET can be sent back: nothing changes, pinned or not.
func TestChangeWithEverythingAsItIs(t *testing.T) {
	s, err := merge(everything, "gpu: {temp_normal: 74}", []string{"BERTH_GPU_HISTORY_SIZE=7"}, nil)
	must(t, s, err)
	body, err := s.Config.Changeable()
	if err != nil {
		t.Fatal(err)
	}
	next, _, err := s.Change(body)
	if diff := cmp.Diff(s.All(), must(t, next, err).All()); diff != "" {
		t.Error(diff)
	}
}

// A file that says otherwise than a change at run time is named, with what to
// take back; so is one that the environment overrides.
func TestOverridden(t *testing.T) {
	yaml := "gpu:\n  temp_optimal: 61\n  temp_normal: 71\n  history_size: 10\nservices:\n  a_b: {priority: 1, users: [x]}\nhooks:\n  h: {url: http://one}\n"
	saved := "gpu: {temp_optimal: 60, temp_normal: 71, temp_critical: 95}\nservices: {a-b: {users: [y]}}\nhooks: {h: {url: http://two}}\n"
	s, err := merge(yaml, saved, []string{"BERTH_GPU_HISTORY_SIZE=7"}, nil)
	var got []string
	for _, o := range must(t, s, err).Overridden() {
		got = append(got, fmt.Sprintf("%s = %s (%s), %s says %s, %v", o.Name, o.Value, o.Source, o.File, o.InFile, o.AtRunTime))
	}
	want := []string{
		"gpu.temp_optimal = 60 (saved at run time), berth.yaml:2 says 61, true",
		"gpu.history_size = 7 (environment BERTH_GPU_HISTORY_SIZE), berth.yaml:4 says 10, false",
		"services.a-b.users = [y] (saved at run time), berth.yaml:6 says [x], true",
		"hooks.h.url = set (saved at run time), berth.yaml:8 says set, true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// good and bad are values for the fields of a change that are right, or wrong,
// whatever the others are.
var good = map[string][]string{
	"temp_optimal": {"50", "60.5"}, "temp_normal": {"70", "null"}, "temp_critical": {"99"},
	"memory_optimal": {"1", "60"}, "memory_critical": {"96", "100"},
	"throttle_cooldown_seconds": {"0", `"2m"`}, "memory_limit_mb": {"1", `"4GiB"`, "null"}, "memory_reserve_mb": {"0"},
	"max_pipelines": {"1", "null"}, "monitor_interval": {"0.1", `"500ms"`}, "history_size": {"1", "100000"},
	"devices": {"null", "{}", `{"GPU-1": {"temp_optimal": 40}}`, `{"GPU-1": null}`},
}

var bad = map[string][]string{
	"temp_optimal": {"-1", `"x"`, "149"}, "temp_normal": {"0", "[]"}, "temp_critical": {"80", "151"},
	"memory_optimal": {"101", "85"}, "memory_critical": {"-5", "true"},
	"throttle_cooldown_seconds": {"-1", `"x"`}, "memory_limit_mb": {"0", "0.5", `"-4GiB"`}, "memory_reserve_mb": {"-1", "1e300"},
	"max_pipelines": {"0", "1.5"}, "monitor_interval": {"0", "3601"}, "history_size": {"100001", "{}"},
	"devices": {"1", `{"0": {}}`, `{"GPU-1": {"temp_optimal": 149}}`, `{"GPU-1": 5}`},
	"unheard": {"1"},
}

func TestOneBadFieldAmongGoodOnesChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start, err := config.Merge()
		if err != nil {
			t.Fatal(err)
		}
		draw := func(from map[string][]string, key string) string {
			return fmt.Sprintf("%q: %s", key, rapid.SampledFrom(from[key]).Draw(t, key))
		}
		var parts []string
		for _, key := range rapid.SliceOfDistinct(rapid.SampledFrom(keys(good)), rapid.ID).Draw(t, "fields") {
			parts = append(parts, draw(good, key))
		}
		body := "{" + strings.Join(parts, ", ") + "}"
		s, saved, err := start.Change([]byte(body))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		runTime, err := config.ParseSaved("saved.yaml", saved)
		if err != nil {
			t.Fatal(err)
		}
		again, err := config.Merge(runTime)
		if err != nil || !cmp.Equal(s.All(), again.All()) {
			t.Fatalf("after a restart with\n%s: %v\n%s", saved, err, cmp.Diff(s.All(), again.All()))
		}

		wrong := rapid.SampledFrom(keys(bad)).Draw(t, "wrong")
		var kept []string
		for _, part := range parts {
			if !strings.HasPrefix(part, `"`+wrong+`"`) {
				kept = append(kept, part)
			}
		}
		at := rapid.IntRange(0, len(kept)).Draw(t, "at")
		body = "{" + strings.Join(slices.Insert(kept, at, draw(bad, wrong)), ", ") + "}"
		before := s.All()
		next, saved, err := s.Change([]byte(body))
		if err == nil || next != nil || saved != nil {
			t.Fatalf("%s was taken", body)
		}
		if !strings.Contains(err.Error(), wrong) {
			t.Fatalf("%s: %v does not name %s", body, err, wrong)
		}
		if !cmp.Equal(before, s.All()) {
			t.Fatalf("%s changed the settings", body)
		}
	})
}

func keys(m map[string][]string) []string { return slices.Sorted(maps.Keys(m)) }
