package sim

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// builtIn reads the built-in models once for all tests.
var builtIn = sync.OnceValues(readCatalog)

func parse(t testing.TB, text string) (*scenario, error) {
	t.Helper()
	known, err := builtIn()
	if err != nil {
		t.Fatal(err)
	}
	return parseScenario(known, "s.yaml", []byte(text), 0)
}

// Mistakes, as the person who made them sees them.
func TestScenarioMistakes(t *testing.T) {
	const entryKeys = "at, for, repeat, device, load, ramp, ambient_celsius, cooling, power_limit_watts, process, hang, lost, fault, xid, ecc, check"
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", `s.yaml:1: the file is empty; the shortest scenario is "devices: 4"`},
		{"comment only", "# nothing\n", `s.yaml:1: the file is empty; the shortest scenario is "devices: 4"`},
		{"null", "null", `s.yaml:1: the file is empty; the shortest scenario is "devices: 4"`},
		{"not a mapping", "- 1", `s.yaml:1: must be a section (key: value), not a list: it can have devices, speed, repeat, timeline`},
		{"not yaml", "devices: 4\ntimeline: [", `s.yaml:2: the file is not YAML: did not find expected node content: look for a missing colon, quote or bracket here and in the lines around it, and for tabs: YAML is indented with blanks`},
		{"tab", "devices:\n\t- 4", `s.yaml:2: the file is not YAML: found character that cannot start any token: look for a missing colon, quote or bracket here and in the lines around it, and for tabs: YAML is indented with blanks`},
		{"two documents", "devices: 4\n---\ndevices: 5", `s.yaml:2: a second document begins here: remove the line --- and put everything into one document`},
		{"unknown key", "device: 4", `s.yaml:1: device: is not a key of a scenario: did you mean devices?`},
		{"far off key", "colour: red", `s.yaml:1: colour: is not a key of a scenario: it can have devices, speed, repeat, timeline`},
		{"twice", "speed: 1\nspeed: 2", `s.yaml:2: speed: is set twice, the first time in line 1: remove one of them`},
		{"speed", "speed: -1", `s.yaml:1: speed: expected a number from 0.001 to 1000 (simulated seconds per second), got "-1"`},
		{"nan", "speed: .nan", `s.yaml:1: speed: expected a number from 0.001 to 1000 (simulated seconds per second), got ".nan"`},
		{"model", "devices: 4xh300", `s.yaml:1: devices: no model is called "h300"; there are h200, h100, a100, mi300x, l4, t4, dgx-h200, dgx-h100, rtx-4060, rtx-4090, dgx-a100`},
		{"model in a list", "devices:\n  - {model: l5}", `s.yaml:2: model: no model is called "l5"; there are l4, t4, h200, h100, a100, mi300x, rtx-4060, rtx-4090, dgx-h200, dgx-h100, dgx-a100`},
		{"no model", "devices:\n  - {count: 2}", `s.yaml:2: model: say which model this is`},
		{"count", "devices: [{model: l4, count: 2.5}]", `s.yaml:1: count: expected a whole number, got "2.5"`},
		{"devices", "devices: {model: l4}", `s.yaml:1: devices: expected a number, a model, or a list of models, got a section`},
		{"too many", "devices: [{model: l4, count: 200}, {model: t4, count: 57}]", `s.yaml:1: devices: more than 256 devices`},
		{"repeat", "repeat: 1ms", `s.yaml:1: repeat: expected a duration such as 90s or 2m30s, at least 1s and at most a year, got "1ms"`},
		{"timeline", "timeline: 5", `s.yaml:1: timeline: expected a list of entries, got "5"`},
		{"entry", "timeline: [5]", `s.yaml:1: timeline[0]: must be a section (key: value), not a single value: it can have ` + entryKeys},
		{"entry key", "timeline: [{device: 0, laod: 5}]", `s.yaml:1: timeline[0].laod: is not a key of an entry of the timeline: did you mean load?`},
		{"entry without effect", "timeline: [{device: 0, at: 5s}]", `s.yaml:1: the entry does nothing: give it load, ambient_celsius, cooling, power_limit_watts, process, hang, lost, check, fault, xid or ecc`},
		{"entry far off key", "timeline: [{device: 0, load: 1, temperature: 5}]", `s.yaml:1: timeline[0].temperature: is not a key of an entry of the timeline: it can have ` + entryKeys},
		{"check", "timeline: [{device: 0, check: {fails: [memory, weather]}}]", `s.yaml:1: fails: expected one of memory, copy_to_device, copy_from_device, compute, clocks, link, errors, residue, scrub, got "weather"`},
		{"check key", "timeline: [{device: 0, check: {failing: memory}}]", `s.yaml:1: timeline[0].check.failing: is not a key of check: it can have fails, residue_mb, takes, unable`},
		{"no device", "timeline: [{load: 5}]", `s.yaml:1: device: say which one: an index, a UUID or all`},
		{"device out of range", "timeline: [{device: 4, load: 5}]", `s.yaml:1: device: there is no "4"; expected 0 to 3, all, or a UUID such as SIM-h200-0`},
		{"device name", "devices: 2xl4\ntimeline: [{device: SIM-l4-2, load: 5}]", `s.yaml:2: device: there is no "SIM-l4-2"; expected 0 to 1, all, or a UUID such as SIM-l4-0`},
		{"device of none", "devices: 0\ntimeline: [{device: 0, load: 5}]", `s.yaml:2: device: there is no "0", because there are no devices`},
		{"device list", "timeline: [{device: [0, [1]], load: 5}]", `s.yaml:1: device: expected an index or a UUID, got a list`},
		{"load", "timeline: [{device: 0, load: 180}]", `s.yaml:1: load: expected a number from 0 to 100 (percent), got "180"`},
		{"load text", `timeline: [{device: 0, load: "50"}]`, `s.yaml:1: load: expected a number from 0 to 100 (percent), got "50"`},
		{"load nothing", "timeline: [{device: 0, load: }]", `s.yaml:1: load: expected a number from 0 to 100 (percent), got nothing`},
		{"at", "timeline: [{at: soon, device: 0, load: 1}]", `s.yaml:1: at: expected a duration such as 90s or 2m30s, at least 0s and at most a year, got "soon"`},
		{"negative at", "timeline: [{at: -5s, device: 0, load: 1}]", `s.yaml:1: at: expected a duration such as 90s or 2m30s, at least 0s and at most a year, got "-5s"`},
		{"huge at", "timeline: [{at: 1e300, device: 0, load: 1}]", `s.yaml:1: at: expected a duration such as 90s or 2m30s, at least 0s and at most a year, got "1e300"`},
		{"for of a moment", "timeline: [{device: 0, xid: 79, for: 5s}]", `s.yaml:1: for: fault, xid and ecc happen at one moment and cannot last`},
		{"for and repeat", "timeline: [{device: 0, load: 5, for: 10s, repeat: 5s}]", `s.yaml:1: for: 10s is longer than repeat (5s)`},
		{"ramp and for", "timeline: [{device: 0, load: 5, for: 10s, ramp: 15s}]", `s.yaml:1: ramp: 15s is longer than for (10s)`},
		{"ramp and repeat", "repeat: 5s\ntimeline: [{device: 0, load: 5, ramp: 15s}]", `s.yaml:2: ramp: 15s is longer than repeat (5s)`},
		{"ramp of nothing", "timeline: [{device: 0, hang: true, ramp: 15s}]", `s.yaml:1: ramp: only load can ramp`},
		{"cooling", "timeline: [{device: 0, cooling: 0}]", `s.yaml:1: cooling: expected a number from 0.05 to 2 (times the usual air flow), got "0"`},
		{"hang", "timeline: [{device: 0, hang: 30s}]", `s.yaml:1: hang: expected true, got "30s" (say how long with for)`},
		{"fault without class", "timeline: [{device: 0, fault: {pid: 7}}]", `s.yaml:1: fault: say whose it is: {class: program}, device, link or driver`},
		{"fault class", "timeline: [{device: 0, fault: {class: user}}]", `s.yaml:1: class: expected one of program, device, link, driver, got "user"`},
		{"fault severity", "timeline: [{device: 0, fault: {class: link, severity: bad}}]", `s.yaml:1: severity: expected one of info, warning, critical, got "bad"`},
		{"xid", "timeline: [{device: 0, xid: many}]", `s.yaml:1: xid: expected a number from 1 to 999 (as the driver numbers them), got "many"`},
		{"xid without code", "timeline: [{device: 0, xid: {pid: 7}}]", `s.yaml:1: xid: it needs a code`},
		{"xid key", "timeline: [{device: 0, xid: {code: 13, pids: 7}}]", `s.yaml:1: timeline[0].xid.pids: is not a key of xid: did you mean pid?`},
		{"ecc", "timeline: [{device: 0, ecc: {}}]", `s.yaml:1: ecc: say how many errors: {corrected: 3} or {uncorrected: 1}`},
		{"ecc key", "timeline: [{device: 0, ecc: {correct: 1}}]", `s.yaml:1: timeline[0].ecc.correct: is not a key of ecc: did you mean corrected?
s.yaml:1: ecc: say how many errors: {corrected: 3} or {uncorrected: 1}`},
		{"process", "timeline: [{device: 0, process: 5}]", `s.yaml:1: timeline[0].process: must be a section (key: value), not a single value: it can have pid, name, memory_mb, grow_mb_per_second, load, uid, cgroup`},
		{"cgroup", "timeline: [{device: 0, process: {pid: 1, cgroup: x.service}}]", `s.yaml:1: cgroup: expected a path that begins with /, got "x.service"`},
		{"uid", "timeline: [{device: 0, process: {pid: 1, uid: -1}}]", `s.yaml:1: uid: expected a number from 0 to 2147483647 (the number of a user), got "-1"`},
		{"no pid", "timeline: [{device: 0, process: {memory_mb: 5}}]", `s.yaml:1: pid: a process needs one`},
		{"memory", "timeline: [{device: 0, process: {pid: 1, memory_mb: lots}}]", `s.yaml:1: memory_mb: expected an amount of memory such as 2048 (MiB) or 4GiB, got "lots"`},
		{"alias", "timeline:\n  - &a {device: 0, load: 5}\n  - *a", `s.yaml:2: timeline[0]: has an anchor (&), which is not supported: remove it
s.yaml:3: timeline[1]: is an alias (*), which is not supported: write the value itself`},
		{"every mistake at once", "speed: fast\ndevices: 3xl4\ntimeline:\n  - device: 7\n    load: 200\n  - device: 0\n    laod: 5\n", `s.yaml:1: speed: expected a number from 0.001 to 1000 (simulated seconds per second), got "fast"
s.yaml:4: device: there is no "7"; expected 0 to 2, all, or a UUID such as SIM-l4-0
s.yaml:5: load: expected a number from 0 to 100 (percent), got "200"
s.yaml:7: timeline[1].laod: is not a key of an entry of the timeline: did you mean load?`},
		{"no complaint about devices that could not be read", "devices: none\ntimeline: [{device: 7, load: 1}]", `s.yaml:1: devices: no model is called "none"; there are `},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(t, c.text)
			if err == nil {
				t.Fatal("it was accepted")
			}
			got := err.Error()
			if strings.HasSuffix(c.want, "there are ") && strings.HasPrefix(got, c.want) && !strings.Contains(got, "\n") {
				return
			}
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestManyMistakesAreCut(t *testing.T) {
	_, err := parse(t, "timeline:\n"+strings.Repeat("  - {}\n", 500))
	if err == nil {
		t.Fatal("it was accepted")
	}
	lines := strings.Split(err.Error(), "\n")
	if last := lines[len(lines)-1]; len(lines) != 21 || last != "s.yaml: and 980 more" {
		t.Errorf("%d lines, the last one %q; want 20 and how many more", len(lines), last)
	}
}

// Files made to hurt are refused by their size or shape, before they are
// expanded.
func TestHostileScenarios(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a: &a [x, x, x, x, x, x, x, x, x]\n")
	for c := 'b'; c <= 'z'; c++ {
		prev := string(c - 1)
		bomb.WriteString(string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+prev+", ", 9) + "*" + prev + "]\n")
	}
	for name, text := range map[string]string{
		"alias bomb":       bomb.String(),
		"alias to itself":  "timeline: &t [*t]",
		"merge key":        "base: &b {load: 5}\ntimeline: [{device: 0, <<: *b}]",
		"ten megabytes":    strings.Repeat("# padding\n", 1<<20),
		"deep":             "timeline: " + strings.Repeat("[", 100_000),
		"deep and closed":  "timeline: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		"many entries":     "timeline: [" + strings.Repeat("{device: 0, load: 1},", 1001) + "]",
		"long key":         strings.Repeat("k", 100_000) + ": 1",
		"long device name": "timeline: [{load: 1, device: " + strings.Repeat("d", 100_000) + "}]",
		"binary":           "\x00\x01\xff\xfe",
		"bad tag":          "speed: !!float [1]",
		"complex key":      "? [a, b]\n: 1",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, text)
			if err == nil {
				t.Fatal("it was accepted")
			}
			if len(err.Error()) > 4000 {
				t.Errorf("the message has %d characters: %.200s…", len(err.Error()), err)
			}
		})
	}
}

func TestHugeFileIsNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "huge.yaml")
	if err := os.WriteFile(path, bytes.Repeat([]byte("devices: 4\n"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path, Options{})
	if want := "read the scenario " + path + ": more than 256 KiB"; err == nil || err.Error() != want {
		t.Errorf("Open: %v; want %s", err, want)
	}
}

func TestScenarioIsRead(t *testing.T) {
	s, err := parse(t, `
speed: 2.5
repeat: 10m
devices:
  - model: rtx-4060
    count: 2
  - {model: dgx-h200}
timeline:
  - {at: 90, for: 1m30s, device: [0, SIM-h200-9], load: 12.5, ramp: 0.5s}
  - {device: all, ambient_celsius: -5, cooling: 0.25, repeat: 2m}
`)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.models) != 10 || s.models[1].Name != "rtx-4060" || s.models[2].Name != "h200" || s.speed != 2.5 {
		t.Errorf("models %v, speed %g", s.models, s.speed)
	}
	for i, script := range s.scripts {
		want := 1
		if i == 0 || i == 9 {
			want = 2
		}
		if len(script) != want {
			t.Errorf("device %d has %d entries; want %d", i, len(script), want)
		}
	}
	e := s.scripts[9][0]
	if e.at != 90*time.Second || e.lasts != 90*time.Second || e.every != 10*time.Minute || e.ramp != 500*time.Millisecond || e.load.Or(0) != 0.125 {
		t.Errorf("the first entry is %+v", e)
	}
	e = s.scripts[9][1]
	if e.at != 0 || e.lasts != 0 || e.every != 2*time.Minute || e.ambient.Or(0) != -5 || e.cooling.Or(0) != 0.25 {
		t.Errorf("the second entry is %+v", e)
	}
}

func TestEverythingIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/guide/simulator.md")
	if err != nil {
		t.Fatal(err)
	}
	known, err := builtIn()
	if err != nil {
		t.Fatal(err)
	}
	words := known.names()
	for _, m := range known.Models {
		words = append(words, fmt.Sprintf("| `%s` | %d | %.0f / %.0f | %.0f | %.0f / %.0f |",
			m.Name, m.Memory, m.Power.Idle, m.Power.Cap, m.Clocks.SM, m.Limits.Slowdown, m.Limits.Shutdown))
	}
	for _, word := range words {
		if !bytes.Contains(page, []byte(word)) {
			t.Errorf("docs/guide/simulator.md does not have %q", word)
		}
	}
}

// FuzzScenario: no text makes the parser panic, and what it accepts can be run.
func FuzzScenario(f *testing.F) {
	for _, text := range []string{
		"devices: 4",
		"devices: [{model: l4, count: 2}]\nspeed: 60\nrepeat: 60s",
		"timeline: [{at: 5, for: 3s, repeat: 9s, device: all, load: 50, ramp: 2s}]",
		"timeline: [{device: 0, process: {pid: 1, name: x, memory_mb: 4GiB, grow_mb_per_second: 3, load: 4}}]",
		"timeline: [{device: [0, 1], hang: true}, {device: 1, lost: true, for: 1s, xid: 79, ecc: {corrected: 1}}]",
		"timeline: [{device: 0, ambient_celsius: 90, cooling: 0.05}]",
		"a: &a [*a]\n? {b}\n: *a",
	} {
		f.Add([]byte(text))
	}
	examples, err := filepath.Glob("../../../examples/scenarios/*.yaml")
	if err != nil || len(examples) == 0 {
		f.Fatalf("no examples: %v", err)
	}
	for _, example := range examples {
		text, err := os.ReadFile(example)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	known, err := builtIn()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseScenario(known, "s.yaml", text, 0)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without words")
			}
			return
		}
		for i, m := range s.models {
			p := newPlant(m)
			for range 20 {
				d, until := s.scripts[i].drive(p.now, m, nil)
				if !(d.load >= 0 && d.load <= 1) || until <= p.now {
					t.Fatalf("at %v: drive %+v until %v", p.now, d, until)
				}
				p.advance(min(until, p.now+time.Minute), d)
			}
		}
	})
}
