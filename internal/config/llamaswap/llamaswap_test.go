package llamaswap_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/config/llamaswap"
)

var update = flag.Bool("update", false, "write the golden files")

func home(name string) (string, bool) { return "/home/ada", name == "HOME" }

// whole returns what an import says, as one text.
func whole(t *testing.T, text string) string {
	t.Helper()
	settings, notes, err := llamaswap.Import([]byte(text), home, "ada")
	for _, n := range notes {
		settings += n.String() + "\n"
	}
	if err != nil {
		settings += "error: " + err.Error() + "\n"
	}
	return settings
}

func TestGolden(t *testing.T) {
	text, err := os.ReadFile("testdata/usual.yaml")
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "usual.txt")
	got := whole(t, string(text))
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestImport(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"not YAML", "models: [", "line 1: the file is not YAML"},
		{"nothing", "", "there is no model"},
		{"no models", "logLevel: info", "there is no model"},
		{"a list", "- a", "1: must be a section (key: value), not a list"},
		{"an alias of YAML", "a: &x {cmd: s}\nmodels: {m: *x, n: {cmd: 's ${PORT}'}}", "2: models.m: is an alias (*), which is not supported: write the value itself"},
		{"a variable that is not set", "models: {m: {cmd: 's ${PORT} ${env.SECRET}'}}", "models.m.cmd: the variable SECRET is not set here"},
		{"a macro that is not there", "models: {m: {cmd: 's ${PORT} ${gone}'}}", "models.m.cmd: there is no macro gone"},
		{"a macro after its use", "macros: {a: '${b}', b: x}\nmodels: {m: {cmd: 's ${PORT} ${a}'}}", "macros.a: there is no macro b"},
		{"no port", "models: {m: {cmd: s}}", "models.m: its cmd has no ${PORT}"},
		{"a bad ttl", "models: {m: {cmd: 's ${PORT}', ttl: soon}}", "models.m.ttl: is not a number"},
		{"two that get one name", "models: {a.b: {cmd: 's ${PORT}'}, a-b: {cmd: 's ${PORT}'}}", "models.a.b: the service is called a-b-2"},
		{"two spellings", "models: {a_b: {cmd: 's ${PORT}'}, a-b: {cmd: 's ${PORT}'}}", "models.a-b: cannot be a service"},
		{"an alias twice", "models: {a: {cmd: 's ${PORT}', aliases: [x]}, b: {cmd: 's ${PORT}', aliases: [x, a]}}", "models.b.aliases[0]: means another model already"},
		{"what YAML could misread", "models: {'yes': {cmd: 's ${PORT} on 1e3 \"#\" null'}}", `command: [s, "${PORT}", "on", "1e3", "#", "null"]`},
		{"a number in a macro", "macros: {n: 5}\nmodels: {m: {cmd: 's ${PORT} ${n}'}}", `command: [s, "${PORT}", "5"]`},
		{"a short check", "healthCheckTimeout: 3\nmodels: {m: {cmd: 's ${PORT}'}}", "start_timeout: 15\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := whole(t, c.text); !strings.Contains(got, c.want) {
				t.Errorf("%s is missing in:\n%s", c.want, got)
			}
		})
	}
}

// A macro that doubles another again and again does not grow without end.
func TestMacrosAreBounded(t *testing.T) {
	text := "macros:\n  a0: " + strings.Repeat("x", 100) + "\n"
	for i := range 25 {
		text += "  a" + string(rune('1'+i)) + ": ${a" + string(rune('0'+i)) + "}${a" + string(rune('0'+i)) + "}\n"
	}
	got := whole(t, text+"models: {m: {cmd: 's ${PORT} ${aI}'}}")
	if len(got) > 1<<20 || !strings.Contains(got, "longer than 64 KiB") {
		t.Errorf("%d bytes: %.300s", len(got), got)
	}
}

// FuzzImport checks that every file is read or refused with words, and that berth takes
// what comes out.
func FuzzImport(f *testing.F) {
	if text, err := os.ReadFile("testdata/usual.yaml"); err == nil {
		f.Add(text)
	}
	for _, seed := range []string{
		"", "models: {a: {cmd: x}}", "models: {'\u2028': {cmd: x}, '-': {cmd: y}, '..': {cmd: z}}", "models: {a: {cmd: '${', proxy: '::', env: [=, A=1, 1=2], aliases: [a, '*']}}",
		"models: {a: {cmd: s, proxy: 'http://127.0.0.1:8080'}, b: {cmd: s, proxy: 'http://127.0.0.1:9000'}, c: {cmd: s, proxy: 'http://127.0.0.1:9000'}}",
		"models: {a: {cmd: \"x '' y\", checkEndpoint: '/a b', ttl: 1e300, concurrencyLimit: 0.5}}", "hooks: {on_startup: {preload: [a, a]}}\nmodels: {a: {cmd: s}}",
		"groups: {g: {persistent: true, members: [a, a]}}\nmodels: {a: {cmd: s, env: [A=1, A=2]}}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		settings, notes, err := llamaswap.Import(text, home, "ada")
		for _, n := range notes {
			if n.Text == "" || n.Line < 0 {
				t.Fatalf("a note without words: %+v", n)
			}
		}
		if err != nil {
			if err.Error() == "" || settings != "" {
				t.Fatalf("%q and %q", err, settings)
			}
			return
		}
		file, err := config.ParseYAML("berth.yaml", []byte(settings))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := config.Merge(file); err != nil {
			t.Fatalf("berth refuses the settings: %v\n%s", err, settings)
		}
	})
}
