package manual_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/docs"
	"github.com/berth-gpu/berth/internal/text/manual"
	"github.com/berth-gpu/berth/internal/text/term"
)

// whole returns the manual of berth.
func whole(t *testing.T) *manual.Manual {
	t.Helper()
	m, err := manual.Read(docs.Pages())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Every page is a topic with a name of its own and a line that says what it is about.
func TestEveryPageIsATopic(t *testing.T) {
	m := whole(t)
	pages := 0
	err := fs.WalkDir(docs.Pages(), ".", func(path string, d fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") && path != "README.md" {
			pages++
		}
		return err
	})
	if err != nil || pages != len(m.Topics) || pages < 60 {
		t.Errorf("%d pages, %d topics, %v: docs/README.md leads to all pages", pages, len(m.Topics), err)
	}
	for _, topic := range m.Topics {
		if topic.Line == "" || topic.Title == "" || topic.Part == "" || strings.ContainsAny(topic.Name, " ./_ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			t.Errorf("%+v", topic)
		}
	}
}

func small() fstest.MapFS {
	page := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	return fstest.MapFS{
		"README.md":        page("# Pages\n\n## Guide\n\n| page | says |\n|---|---|\n| [heat](guide/heat.md) | what is *hot* |\n| [Docker](guide/docker.md), [Jupyter](guide/jupyter.md) | recipes |\n"),
		"guide/heat.md":    page("# Heat\n\nToo **hot** for `temp_critical`: see [docker.md](docker.md#run) and [the other](jupyter.md), [again](jupyter.md), <https://berth.example/a>, [code](../../internal/x.go), ![a picture](../pictures/a.png).\n\n## States & more\n\n- one\n- two\n  with a [link](#states--more)\n\n1. first\n\n   ```sh skip: no\n   berth status   # <b>\n   ```\n\n| | b |\n|---|---|\n| `x` | a long text that has to be folded, because the screen is narrow |\n\n## States & more\n\nDrain.\n"),
		"guide/docker.md":  page("# Docker\n\n## Run\n\nA container of its own runs hot.\n"),
		"guide/jupyter.md": page("# Jupyter\n\nKernels.\n"),
		"pictures/a.png":   page("png"),
	}
}

func read(t *testing.T, folder fs.FS) *manual.Manual {
	t.Helper()
	m, err := manual.Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestLines(t *testing.T) {
	m := read(t, small())
	got := m.Lines(m.Topic("heat"), term.Screen{Width: 44})
	want := []string{
		"Heat", "",
		"  Too hot for `temp_critical`: see berth",
		"  help docker and the other (berth help",
		"  jupyter), again, https://berth.example/a,",
		"  code (internal/x.go), [picture: a",
		"  picture].", "",
		"States & more", "",
		"  - one", "  - two with a link", "",
		"  1. first", "",
		"       berth status   # <b>", "",
		"     b",
		"  x  a long text that has to be folded,",
		"     because the screen is narrow", "",
		"States & more", "", "  Drain.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	coloured := strings.Join(m.Lines(m.Topic("heat"), term.Screen{Width: 44, Painter: true}), "\n")
	if !strings.Contains(coloured, "Too \x1b[1mhot\x1b[0m for \x1b[1mtemp_critical\x1b[0m: see") {
		t.Errorf("%q", coloured)
	}
}

// Every page fits a terminal of 80 columns, except for what is typed or printed as it
// stands, and writes nothing that a terminal acts on.
func TestEveryPageFits(t *testing.T) {
	m := whole(t)
	for _, topic := range m.Topics {
		lines := m.Lines(topic, term.Screen{Width: 80})
		if len(lines) < 5 || strings.ContainsFunc(strings.Join(lines, ""), func(r rune) bool { return r < ' ' }) {
			t.Errorf("%s: %d lines, or control characters", topic.Name, len(lines))
		}
		for _, line := range lines {
			if longest := slices.Max(lengths(line)); term.Columns(line) > 80 && longest < 70 && !strings.Contains(strings.ReplaceAll(topic.Text(), "\t", "    "), strings.TrimSpace(line)) {
				t.Errorf("%s: %d columns: %s", topic.Name, term.Columns(line), line)
			}
		}
	}
}

// lengths returns those of the words of a line.
func lengths(line string) (all []int) {
	for _, word := range strings.Fields(line) {
		all = append(all, term.Columns(word))
	}
	return append(all, 0)
}

func TestHTML(t *testing.T) {
	m := read(t, small())
	text, err := m.HTML(m.Topic("heat"), manual.Way{Index: "../help", Before: "b/", After: ".x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<h1 id="heat">Heat</h1>`, `<h2 id="states--more">`, `<h2 id="states--more-1">`, `href="b/docker.x#run"`, `href="#states--more"`, `src="b/pictures/a.png"`,
		`href="https://github.com/berth-gpu/berth/blob/main/internal/x.go"`, `<code class="language-sh">berth status   # &lt;b&gt;`, `<div class="wide" tabindex="0"><table>`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if got := manual.Anchors([]byte(m.Topic("heat").Text())); !slices.Equal(got, []string{"heat", "states--more", "states--more-1"}) {
		t.Errorf("%q", got)
	}
}

func TestFind(t *testing.T) {
	x := read(t, small()).Words()
	for question, want := range map[string][]string{
		"hot":           {"heat#", "docker#run"},
		"HOT container": {"docker#run"},
		"contain":       {"docker#run"}, // a word that begins with it
		"docker":        {"docker#run", "heat#"},
		"drain states":  {"heat#states--more-1"},
		"temp_critical": {"heat#"},
		"hot volcano":   nil,
		"?!":            nil,
		"":              nil,
		"berth status":  {"heat#states--more"},
	} {
		var got []string
		for _, s := range x.Find(question) {
			got = append(got, s.Topic+"#"+s.Anchor)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q finds %q, want %q", question, got, want)
		}
	}
}

// What people look for stands first.
func TestFindInTheWholeManual(t *testing.T) {
	x := whole(t).Words()
	for question, want := range map[string]string{
		"park": "sharing", "heat": "heat", "systemd install": "install", "token": "access", "temp_critical": "heat", "docker": "docker",
	} {
		found := x.Find(question)
		if found = found[:min(len(found), 3)]; !slices.ContainsFunc(found, func(s manual.Section) bool { return s.Topic == want }) {
			t.Errorf("%q finds %+v first", question, found)
		}
	}
	if got := len(x.Find("a")); got != manual.MostFound {
		t.Errorf("%d sections are found at once", got)
	}
}

func TestNear(t *testing.T) {
	m := whole(t)
	for word, want := range map[string]string{"haet": "heat", "multiplier": "heat", "kubernets": "kubernetes"} {
		if got := m.Near(word); !slices.Contains(got, want) {
			t.Errorf("%s: %q", word, got)
		}
	}
	if got := m.Near("xyzzy"); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

func TestBrokenIndex(t *testing.T) {
	folder := small()
	delete(folder, "guide/docker.md")
	if _, err := manual.Read(folder); err == nil || !strings.Contains(err.Error(), "docker.md") {
		t.Errorf("a page that is not there: %v", err)
	}
	folder = small()
	folder["README.md"].Data = append(folder["README.md"].Data, "| [too](start/heat.md) | x |\n"...)
	folder["start/heat.md"] = folder["guide/heat.md"]
	if _, err := manual.Read(folder); err == nil || !strings.Contains(err.Error(), "two pages are called heat") {
		t.Errorf("two pages of one name: %v", err)
	}
}
