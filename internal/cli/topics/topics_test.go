package topics_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/topics"
)

// On a terminal a page goes through the pager that is named; elsewhere, and where there is
// no such program, it is printed.
func TestPager(t *testing.T) {
	t.Setenv("LESS", "")
	pages := fstest.MapFS{
		"README.md":     {Data: []byte("# Pages\n\n## Guide\n\n| page | says |\n|---|---|\n| [heat](guide/heat.md) | what is hot |\n")},
		"guide/heat.md": {Data: []byte("# Heat\n\nIt is **hot**.\n")},
	}
	for _, c := range []struct {
		name, pager, mode string
		terminal          bool
		want              string
	}{
		{"a terminal", "sed s/^/seen:/", "xterm", true, "seen:\x1b[1mHeat\x1b[0m\nseen:\nseen:  It is \x1b[1mhot\x1b[0m.\n"},
		{"no terminal", "sed s/^/seen:/", "xterm", false, "Heat\n\n  It is hot.\n"},
		{"a dumb terminal", "sed s/^/seen:/", "dumb", true, "Heat\n\n  It is hot.\n"},
		{"no such pager", "/no/such/program", "xterm", true, "\x1b[1mHeat\x1b[0m\n\n  It is \x1b[1mhot\x1b[0m.\n"},
		{"one that is left early", "head -n 1; exit 3", "xterm", true, "\x1b[1mHeat\x1b[0m\n"},
		{"cat", "cat", "xterm", true, "\x1b[1mHeat\x1b[0m\n\n  It is \x1b[1mhot\x1b[0m.\n"},
	} {
		var out, errs bytes.Buffer
		con := &console.Console{Env: console.Env{
			Out: &out, Err: &errs, Now: time.Now,
			Getenv:   func(name string) string { return map[string]string{"PAGER": c.pager, "TERM": c.mode}[name] },
			Terminal: func() (int, bool) { return 80, c.terminal },
		}}
		if err := topics.In(pages)(con, console.Question{Words: "heat"}); err != nil || out.String() != c.want {
			t.Errorf("%s: %v, %q", c.name, err, out.String())
		}
	}
}

func TestUnknownTopic(t *testing.T) {
	con := &console.Console{}
	err := topics.In(fstest.MapFS{"README.md": {Data: []byte("# Pages\n")}})(con, console.Question{Words: "heat", Commands: map[string]string{"status": "Show devices"}})
	if err == nil || !strings.Contains(err.Error(), `no command and no topic "heat"`) {
		t.Error(err)
	}
	if err := topics.In(fstest.MapFS{})(con, console.Question{Words: "heat"}); err == nil {
		t.Error("no pages are a manual")
	}
}

// What is neither a command nor a topic leads to those that tell of it, and says first what
// berth lacks.
func TestKnownWords(t *testing.T) {
	pages := fstest.MapFS{
		"README.md":     {Data: []byte("# Pages\n\n## Guide\n\n| page | says |\n|---|---|\n| [heat](guide/heat.md) | what is hot, and what berth does about all of it before it breaks |\n")},
		"guide/heat.md": {Data: []byte("# Heat\n\nIt is hot.\n")},
	}
	asked := console.Question{Words: "oven", Commands: map[string]string{"status": "Show devices"}, Answer: "berth has no oven.", See: []string{"status", "heat", "gone"}}
	for _, c := range []struct {
		json bool
		want string
	}{
		{false, "berth has no oven.\n\nberth help status  Show devices\nberth help heat    what is hot, and what berth does about all of it before it\n                   breaks\n"},
		{true, `{"words":"oven","answer":"berth has no oven.","see":[{"help":"status","line":"Show devices"},{"help":"heat","line":"what is hot, and what berth does about all of it before it breaks"}]}`},
	} {
		var out bytes.Buffer
		con := &console.Console{JSON: c.json, Env: console.Env{Out: &out, Now: time.Now, Getenv: func(string) string { return "" }, Terminal: func() (int, bool) { return 80, false }}}
		err := topics.In(pages)(con, asked)
		got := out.String()
		if c.json {
			var compact bytes.Buffer
			err = errors.Join(err, json.Compact(&compact, out.Bytes()))
			got = strings.TrimSpace(compact.String())
		}
		if err != nil || got != c.want {
			t.Errorf("%v, %q", err, got)
		}
	}
}
