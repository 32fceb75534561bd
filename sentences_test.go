package berth_test

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/config"
)

// The pages say how commands, settings, routes, metrics, events and names of Python are
// called, and show settings, and states with their readings. These tests hold each such word against the list of the
// surface, which TestSurface of cmd/berth-serve keeps exact. docs/develop/README.md says
// which sentences no test holds.

// surface returns the lines of a section of that list.
func surface(t *testing.T, section string) []string {
	t.Helper()
	text, err := os.ReadFile("cmd/berth-serve/testdata/surface.list")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "# "+section+"\n")
	if !found {
		t.Fatalf("the surface has no section %s", section)
	}
	lines, _, _ := strings.Cut(rest, "\n\n")
	return strings.Split(strings.TrimSpace(lines), "\n")
}

var (
	fence  = regexp.MustCompile("(?ms)^ *```([^\n]*)\n(.*?)^ *```$")
	inline = regexp.MustCompile("`([^`\n]+)`")
)

// said calls visit with each page of today, its words in code and its blocks by language.
func said(t *testing.T, visit func(page string, words []string, blocks map[string][]string)) {
	for _, page := range pages(t) {
		if page == "CHANGELOG.md" {
			continue // it also speaks of what was
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := map[string][]string{}
		for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
			language, _, _ := strings.Cut(block[1], " ")
			blocks[language] = append(blocks[language], block[2])
		}
		var words []string
		for _, word := range inline.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
			words = append(words, word[1])
		}
		visit(page, words, blocks)
	}
}

// compared fails a test that found nearly nothing: the pages or a pattern have changed.
func compared(t *testing.T, found, least int) {
	t.Helper()
	if found < least {
		t.Errorf("only %d are compared", found)
	}
}

func TestPagesNameCommandsAndFlagsThatExist(t *testing.T) {
	flags := map[string][]string{} // of each command
	line := regexp.MustCompile(`^(berth(?: [a-z][a-z-]*)*)(?:: (--[\w-]+))?`)
	for _, one := range surface(t, "commands") {
		found := line.FindStringSubmatch(one)
		flags[found[1]] = append(flags[found[1]], found[2])
	}
	command, flag := regexp.MustCompile(`^(?:\$ |# )?(?:sudo )?(?:bin/)?(berth(?: .*)?)$`), regexp.MustCompile(`^\[?(--[a-z][\w-]*)`)
	ends := regexp.MustCompile(` -- | \| | && | # | \$\(|;`)
	found := 0
	check := func(page, text string) {
		match := command.FindStringSubmatch(strings.TrimSpace(text))
		if match == nil || text == "berth does" { // a line of berth status GPU
			return
		}
		text = match[1]
		if at := ends.FindStringIndex(text); at != nil {
			text = text[:at[0]]
		}
		words := strings.Fields(text)
		name, rest := words[0], words[1:]
		for len(rest) > 0 && flags[name+" "+rest[0]] != nil {
			name, rest = name+" "+rest[0], rest[1:]
		}
		found++
		if name == "berth" && len(rest) > 0 && regexp.MustCompile(`^[a-z][a-z-]+$`).MatchString(rest[0]) {
			t.Errorf("%s: %s: there is no such command", page, text)
		}
		for _, word := range rest {
			if given := flag.FindStringSubmatch(word); given != nil && !slices.Contains(flags[name], given[1]) && !slices.Contains(flags["berth"], given[1]) && given[1] != "--help" {
				t.Errorf("%s: %s: %s has no %s", page, text, name, given[1])
			}
		}
	}
	said(t, func(page string, words []string, blocks map[string][]string) {
		for _, word := range words {
			check(page, word)
		}
		for _, block := range append(blocks["sh"], blocks[""]...) {
			for text := range strings.Lines(strings.ReplaceAll(block, "\\\n", " ")) {
				check(page, text)
			}
		}
	})
	compared(t, found, 600)
}

func TestPagesNameSettingsThatExistAndTheirDefaults(t *testing.T) {
	defaults, sections := map[string]string{}, []string{}
	value := regexp.MustCompile(`default="([^"]*)"`)
	for _, one := range surface(t, "settings") {
		name, rest, _ := strings.Cut(one, " ")
		section, key, _ := strings.Cut(name, ".")
		sections = append(sections, section)
		defaults[name] = ""
		if found := value.FindStringSubmatch(rest); found != nil {
			defaults[name] = found[1]
			if !strings.Contains(key, ".") {
				defaults[key] = cmp.Or(defaults[key], found[1]) // the pages leave out the section where it is clear
			}
		}
	}
	isFile := regexp.MustCompile(`\.(json|go|dev|py)$|^\w+\.[A-Z]\w*[a-z]|^gpu\.(lost|stop_reason)$`) // gpu is also a lease in Python, and a package of Go
	dotted := regexp.MustCompile(`^([a-z_]+)((?:\.[A-Za-z_]+)+)$`)
	withDefault := regexp.MustCompile("`([a-z_.]+)` \\((?:default )?(\\d[\\d.]*|on\\b|off\\b)")
	named, valued := 0, 0
	said(t, func(page string, words []string, _ map[string][]string) {
		for _, word := range words {
			match := dotted.FindStringSubmatch(word)
			if match == nil || !slices.Contains(sections, match[1]) || isFile.MatchString(word) || strings.HasPrefix(page, "docs/develop/") || page == "docs/reference/limits.md" {
				continue
			}
			named++
			_, is := defaults[word]
			for name := range defaults {
				is = is || strings.HasPrefix(name, word+".") || strings.HasPrefix(strings.Replace(name, ".NAME.", ".default.", 1), word)
			}
			if !is && word != "hooks.on_startup.preload" { // llama-swap's
				t.Errorf("%s: there is no setting %s", page, word)
			}
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range withDefault.FindAllStringSubmatch(string(text), -1) {
			if want, is := defaults[match[1]]; is {
				valued++
				if want != match[2] {
					t.Errorf("%s: the default of %s is %s, and not %s", page, match[1], want, match[2])
				}
			}
		}
	})
	compared(t, named, 80)
	compared(t, valued, 12)
}

func TestPagesNameRoutesThatExist(t *testing.T) {
	parameter := regexp.MustCompile(`\{\w+\}|(/)(?:[A-Z][A-Z_-]*|…|\.\.\.)(/|$)`)
	plain := func(path string) string {
		return strings.ReplaceAll(parameter.ReplaceAllString(path, "$1*$2"), "//", "/")
	}
	known := map[string]bool{"GET /v1/models": true} // of the front
	for _, one := range surface(t, "routes") {
		known[plain(strings.Join(strings.Fields(one)[:2], " "))] = true
	}
	route, found := regexp.MustCompile(`^((?:GET|POST|PUT|DELETE) /[^ ?]*)`), 0
	said(t, func(page string, words []string, _ map[string][]string) {
		for _, word := range words {
			if match := route.FindString(word); match != "" {
				if found++; !known[plain(match)] {
					t.Errorf("%s: there is no route %s", page, match)
				}
			}
		}
	})
	compared(t, found, 200)
}

func TestPagesNameMetricsThatExist(t *testing.T) {
	known := map[string]bool{"gpu_id": true, "gpu_ids": true, "gpu_busy_percent": true, "gpu_metrics": true} // names of others
	for _, one := range surface(t, "metrics") {
		known[strings.Fields(one)[0]] = true
	}
	metric, found := regexp.MustCompile(`^((?:gpu|berth)_[a-z_]+)(?:\{.*)?$`), 0
	said(t, func(page string, words []string, _ map[string][]string) {
		for _, word := range words {
			match := metric.FindStringSubmatch(word)
			if match == nil || strings.HasPrefix(word, "berth_dra_") { // of the driver, a module of its own
				continue
			}
			if found++; !known[match[1]] {
				t.Errorf("%s: there is no metric %s", page, match[1])
			}
		}
	})
	compared(t, found, 120)
}

// python/tests/test_reference.py keeps the reference exact.
func TestPagesNamePythonThatExists(t *testing.T) {
	text, err := os.ReadFile("docs/reference/python-reference.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"aio": true}
	for _, match := range regexp.MustCompile(`(?m)^##+ (?:berth\.)?(?:aio\.)?(\w+)`).FindAllStringSubmatch(string(text), -1) {
		known[match[1]] = true
	}
	file := regexp.MustCompile(`^(yaml|sock|json|dev|rules|tar|service|conf|before|berth|1)$`)
	name, found := regexp.MustCompile(`(?:^|[^\w./-])berth\.(?:aio\.)?(\w+)`), 0
	said(t, func(page string, words []string, blocks map[string][]string) {
		for _, text := range append(words, blocks["python"]...) {
			for _, match := range name.FindAllStringSubmatch(text, -1) {
				if file.MatchString(match[1]) {
					continue
				}
				if found++; !known[match[1]] {
					t.Errorf("%s: the package has no %s", page, strings.TrimSpace(match[0]))
				}
			}
		}
	})
	compared(t, found, 300)
}

func TestPagesNameVariablesThatAreRead(t *testing.T) {
	variable, known := regexp.MustCompile(`\bBERTH_[A-Z_]*[A-Z]\b`), map[string]bool{}
	for _, one := range surface(t, "settings") {
		for _, name := range variable.FindAllString(one, -1) {
			known[name] = true
		}
	}
	walk(t, ".", func(path string) {
		if !slices.Contains([]string{".go", ".py", ".c", ".h", ".sh", ".mjs"}, filepath.Ext(path)) || path == "sentences_test.go" {
			return
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range variable.FindAllString(string(text), -1) {
			known[name] = true
		}
	})
	found := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range variable.FindAllString(string(text), -1) {
			if found++; page != "CHANGELOG.md" && !known[name] && name != "BERTH_PARAM_NAME" { // NAME is the reader's
				t.Errorf("%s: nothing reads %s", page, name)
			}
		}
	}
	compared(t, found, 200)
}

// A sample shows the state that its temperature and its memory have by the default
// thresholds, and the reason that belongs to that state.
func TestSamplesShowStatesThatTheirReadingsHave(t *testing.T) {
	at := map[string]float64{}
	for _, one := range surface(t, "settings") {
		match := regexp.MustCompile(`^gpu\.((?:temp|memory)_\w+) default="(\d+)"`).FindStringSubmatch(one)
		if match != nil {
			at[match[1]] = number(t, match[2])
		}
	}
	states := []string{"OPTIMAL", "NORMAL", "THROTTLED", "CRITICAL"}
	place := func(v, optimal, normal, throttled float64) int {
		switch {
		case v < optimal:
			return 0
		case v < normal:
			return 1
		case v <= throttled:
			return 2
		}
		return 3
	}
	heat := func(v float64) int { return place(v, at["temp_optimal"], at["temp_normal"], at["temp_throttle"]) }
	memory := func(v float64) int {
		return place(v, at["memory_optimal"], at["memory_normal"], at["memory_critical"])
	}
	row := regexp.MustCompile(`\b(OPTIMAL|NORMAL|THROTTLED|CRITICAL)\b.*?\s([\d.]+)/([\d.]+)\s(?:.*?\s)?(\d+) ?°C`)
	reason := regexp.MustCompile(`\b(OPTIMAL|NORMAL|THROTTLED|CRITICAL)\b[^:|]*: (?:memory use )?([\d.]+) (°C|%) is (?:just )?(?:above|at) (?:(\w+) )?([\d.]+)`)
	rows, reasons := 0, 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if m := row.FindStringSubmatch(line); m != nil {
				rows++
				used, total, degrees := number(t, m[2]), number(t, m[3]), number(t, m[4])
				if want := states[max(heat(degrees), memory(100*used/total))]; m[1] != want {
					t.Errorf("%s: the state is %s: %s", page, want, line)
				}
			}
			if m := reason.FindStringSubmatch(line); m != nil {
				reasons++
				value, threshold := number(t, m[2]), number(t, m[5])
				state := heat(value)
				if m[3] == "%" {
					state = memory(value)
				}
				if states[state] != m[1] || value < threshold || m[4] != "" && at[m[4]] != threshold || m[4] == "" && threshold != at["temp_throttle"] && threshold != at["memory_critical"] {
					t.Errorf("%s: the state is %s, or the threshold is another: %s", page, states[state], line)
				}
			}
		}
	}
	compared(t, rows, 7)
	compared(t, reasons, 3)
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(strings.TrimSuffix(text, "."), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A block of YAML that begins with a section of berth.yaml is one that the daemon takes.
func TestFilesOfSettingsOnPagesAreTaken(t *testing.T) {
	var sections []string
	for _, one := range surface(t, "settings") {
		section, _, _ := strings.Cut(strings.Fields(one)[0], ".")
		sections = append(sections, section)
	}
	first, found := regexp.MustCompile(`(?m)^(\w+):`), 0
	said(t, func(page string, _ []string, blocks map[string][]string) {
		for _, block := range blocks["yaml"] {
			key := first.FindStringSubmatch(block)
			if key == nil || !slices.Contains(sections, key[1]) || strings.Contains(block, "image: ") || strings.Contains(block, "- alert: ") {
				continue // another file: of Compose, or of rules
			}
			found++
			file, err := config.ParseYAML(page, []byte(block))
			if err == nil {
				_, err = config.Merge(config.Paths(t.TempDir(), t.TempDir()), file)
			}
			if err != nil {
				t.Errorf("%s: %v\n%s", page, err, block)
			}
		}
	})
	compared(t, found, 20)
}

func TestPagesNameEventCodesThatExist(t *testing.T) {
	known := surface(t, "events")
	list, code := regexp.MustCompile(`codes: \[([^\]]*)\]|\.on\((\[[^\]]*\]|"[^"]*")|--code[= ](\S+)`), regexp.MustCompile(`[a-z_]{4,}`)
	found := 0
	said(t, func(page string, words []string, blocks map[string][]string) {
		for _, text := range slices.Concat(words, blocks["yaml"], blocks["python"], blocks["sh"]) {
			for _, match := range list.FindAllStringSubmatch(text, -1) {
				for _, one := range code.FindAllString(match[1]+match[2]+match[3], -1) {
					if found++; !slices.Contains(known, one) {
						t.Errorf("%s: there is no event %s", page, one)
					}
				}
			}
		}
	})
	compared(t, found, 10)
}

func TestThePageOfCommandsHasEveryCommand(t *testing.T) {
	page, err := os.ReadFile("docs/reference/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	command, found := regexp.MustCompile(`^berth ([a-z-]+)(?: [^:]*)?$`), 0
	for _, one := range surface(t, "commands") {
		match := command.FindStringSubmatch(one)
		if match == nil || strings.HasSuffix(one, " hidden") {
			continue
		}
		if found++; !regexp.MustCompile("`(?:berth )?" + match[1] + "[ `]").Match(page) {
			t.Errorf("docs/reference/cli.md has no %s", match[1])
		}
	}
	compared(t, found, 60)
}
