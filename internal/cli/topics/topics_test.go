package topics_test

import (
	"bytes"
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
		if err := topics.In(pages)(con, "heat", nil); err != nil || out.String() != c.want {
			t.Errorf("%s: %v, %q", c.name, err, out.String())
		}
	}
}

func TestUnknownTopic(t *testing.T) {
	con := &console.Console{}
	err := topics.In(fstest.MapFS{"README.md": {Data: []byte("# Pages\n")}})(con, "heat", []string{"status"})
	if err == nil || !strings.Contains(err.Error(), `no command and no topic "heat"`) {
		t.Error(err)
	}
	if err := topics.In(fstest.MapFS{})(con, "heat", nil); err == nil {
		t.Error("no pages are a manual")
	}
}
