package tui

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
)

var update = flag.Bool("update", false, "rewrite what testdata expects")

// sequences are what colours are made of.
var sequences = regexp.MustCompile("\x1b\\[[0-9;]*m")

// check fails unless a frame fits its screen exactly, in columns and lines, and
// gives a terminal nothing to act on but colours.
func check(t interface {
	Helper()
	Fatalf(string, ...any)
}, s *State) {
	t.Helper()
	s.Colours = false
	plain := s.Frame()
	s.Colours = true
	painted := s.Frame()
	if len(plain) != s.Height || len(painted) != s.Height {
		t.Fatalf("%d×%d: %d lines, and %d in colours", s.Width, s.Height, len(plain), len(painted))
	}
	for i, line := range plain {
		if got := term.Columns(line); got != s.Width {
			t.Fatalf("%d×%d: line %d has %d columns: %q", s.Width, s.Height, i, got, line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) || unicode.In(r, unicode.Mn, unicode.Cf) }) {
			t.Fatalf("line %d has a character that is not for printing: %q", i, line)
		}
		if got := sequences.ReplaceAllString(painted[i], ""); got != line {
			t.Fatalf("line %d in colours is another one:\n%q\n%q", i, got, line)
		}
	}
	s.Colours = false
}

// Every screen looks as testdata says.
func TestFrames(t *testing.T) {
	lost := func(s *State) {
		s.Lose("no daemon answers (/run/berth.sock: connection refused)", now)
		s.Tick(now.Add(70 * time.Second))
	}
	refused := func(s *State) {
		s.Done(Act{Verb: "park", About: "train-vit of bob"}, "", errors.New("train-vit belongs to bob: you need the role operator"))
	}
	for name, c := range map[string]struct {
		width, height int
		facts         Facts
		keys          []string
		then          func(*State)
	}{
		"busy-80":        {80, 24, someFacts(), nil, nil},
		"busy-120":       {120, 40, someFacts(), []string{"tab"}, nil},
		"busy-200":       {200, 50, someFacts(), []string{"tab", "j", "x"}, nil},
		"least":          {60, 15, someFacts(), nil, nil},
		"many-80":        {80, 24, manyFacts(), []string{"tab", "G"}, nil},
		"many-120":       {120, 40, manyFacts(), []string{"j", "end"}, nil},
		"many-200":       {200, 50, manyFacts(), []string{"tab", "pgdown"}, nil},
		"none":           {80, 24, Facts{Status: &api.StatusAll{Host: "box", Note: "No GPU was found.", Monitoring: true}, Leases: &api.Leases{}, At: now}, nil, nil},
		"local":          {80, 24, Facts{Status: someFacts().Status, At: now}, nil, func(s *State) { s.Local = true; s.Press("r") }},
		"lost":           {80, 24, someFacts(), []string{"tab"}, lost},
		"filtered":       {80, 24, someFacts(), []string{"/", "a", "d", "a"}, nil},
		"small":          {40, 10, someFacts(), nil, nil},
		"help":           {80, 24, someFacts(), []string{"?"}, nil},
		"needs":          {80, 24, someFacts(), []string{"!"}, nil},
		"device":         {100, 30, someFacts(), []string{"j", "enter"}, nil},
		"lease":          {80, 24, someFacts(), []string{"tab", "enter"}, nil},
		"request":        {80, 24, someFacts(), []string{"3", "enter"}, nil},
		"event":          {80, 24, someFacts(), []string{"4", "enter"}, nil},
		"stray":          {80, 24, someFacts(), []string{"tab", "G", "enter"}, nil},
		"ask-release":    {80, 24, someFacts(), []string{"tab", "r"}, nil},
		"ask-drain":      {80, 24, someFacts(), []string{"d"}, nil},
		"refused":        {80, 24, someFacts(), nil, refused},
		"services-80":    {80, 24, serviceFacts(), []string{"5"}, nil},
		"services-200":   {200, 50, serviceFacts(), []string{"tab", "tab", "j", "j"}, nil},
		"services-least": {60, 15, serviceFacts(), nil, nil},
		"service":        {80, 30, serviceFacts(), []string{"5", "j", "enter"}, nil},
		"ask-stop":       {80, 24, serviceFacts(), []string{"5", "c"}, nil},
		"jobs-80":        {80, 24, jobFacts(), []string{"6"}, nil},
		"jobs-120":       {120, 50, jobFacts(), []string{"6", "j"}, nil},
		"jobs-200":       {200, 50, jobFacts(), nil, nil},
		"job":            {80, 24, jobFacts(), []string{"6", "enter"}, nil},
		"processes-80":   {80, 24, jobFacts(), []string{"7"}, nil},
		"processes-200":  {200, 50, jobFacts(), []string{"7", "s", "s", "s"}, nil},
		"process":        {80, 24, jobFacts(), []string{"7", "s", "enter"}, nil},
		"users-80":       {80, 24, jobFacts(), []string{"8", "j"}, nil},
		"user":           {80, 24, jobFacts(), []string{"8", "enter"}, nil},
		"ask-cancel":     {80, 24, someFacts(), []string{"tab", "c"}, nil},
		"ask-cancel-job": {80, 24, jobFacts(), []string{"6", "c"}, nil},
		"ask-tasks":      {80, 24, jobFacts(), []string{"6", "/", "a", "r", "r", "enter", "c"}, nil},
		"zoomed":         {80, 24, manyFacts(), []string{"tab", "z", "s"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := scene(c.width, c.height, c.facts, c.keys...)
			if c.then != nil {
				c.then(s)
			}
			check(t, s)
			var b strings.Builder
			for _, line := range s.Frame() {
				b.WriteString(strings.TrimRight(line, " ") + "\n")
			}
			compare(t, filepath.Join("testdata", name+".txt"), b.String())
		})
	}
}

func compare(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (run with -update if it is right now, -want +got):\n%s", path, diff)
	}
}

// Whatever a machine calls its things, whatever is pressed and however large the
// terminal is, a frame fits it.
func TestFramesFit(t *testing.T) {
	keys := []string{"tab", "shift+tab", "up", "down", "pgdown", "end", "home", "enter", "esc", "/", "s", "S", "x", "z", "!", "?", "r", "p", "u", "d", "y", "n", "a", "backspace", "c", "1", "3", "4", "5", "6", "7", "8"}
	names := rapid.OneOf(rapid.StringMatching(`[a-z]{0,50}`), rapid.StringN(0, 40, -1), rapid.SampledFrom([]string{"模擬カード模擬カード模擬カード", "e\u0301clair", "\x1b[2J", "👩‍👩‍👧 🇩🇪 👍🏽", "…", "a\nb", "\u200b"}))
	rapid.Check(t, func(t *rapid.T) {
		f := someFacts()
		if rapid.Bool().Draw(t, "services and jobs") {
			f = jobFacts()
			f.Services.Services[0].Name, f.Services.Services[1].Failure.Why = names.Draw(t, "name"), names.Draw(t, "failure")
			for i := range f.Jobs.Jobs {
				j := &f.Jobs.Jobs[i]
				j.ID, j.User, j.State, j.Cause, j.Code = names.Draw(t, "job"), names.Draw(t, "owner"), rapid.SampledFrom([]string{j.State, names.Draw(t, "state")}).Draw(t, "which state"), names.Draw(t, "cause"), ""
				j.Command, j.Directory, j.Comment, j.Lease = []string{names.Draw(t, "program"), names.Draw(t, "argument")}, names.Draw(t, "folder"), names.Draw(t, "comment"), names.Draw(t, "its lease")
				if j.Estimate != nil {
					j.Estimate.Unknown = names.Draw(t, "unknown")
				}
			}
			for i := range f.Leases.Leases {
				for _, p := range f.Leases.Leases[i].Processes {
					f.Programs[p.PID] = Program{Command: names.Draw(t, "command"), CPU: gpu.Some(gpu.Percent(rapid.Float64Range(0, 1e6).Draw(t, "cpu"))), Host: gpu.Some(gpu.MiB(rapid.IntRange(0, 1<<40).Draw(t, "host")))}
				}
			}
		}
		f.Samples = nil
		for i := range f.Leases.Leases {
			l := &f.Leases.Leases[i]
			l.ID, l.Holder.User, l.Holder.Service = names.Draw(t, "id"), names.Draw(t, "user"), names.Draw(t, "service")
		}
		f.Leases.Waiting[0].ID = names.Draw(t, "request")
		f.Status.GPUs[0].Device.Name = names.Draw(t, "device")
		f.Strays.Foreign[0].Name = names.Draw(t, "process")
		s := scene(rapid.IntRange(1, 220).Draw(t, "width"), rapid.IntRange(1, 60).Draw(t, "height"), f)
		s.TakeEvents(gpu.Event{ID: 9, Time: now, Text: names.Draw(t, "event")})
		for _, key := range rapid.SliceOfN(rapid.SampledFrom(keys), 0, 12).Draw(t, "keys") {
			s.Press(key)
			switch x, y := rapid.IntRange(-1, 230).Draw(t, "x"), rapid.IntRange(-1, 65).Draw(t, "y"); rapid.IntRange(0, 5).Draw(t, "mouse") {
			case 0:
				s.Click(x, y)
			case 1:
				s.Wheel(x, y, rapid.SampledFrom([]int{-1, 1}).Draw(t, "by"))
			}
		}
		check(t, s)
		s.Lose(names.Draw(t, "why"), now)
		check(t, s)
		s.Resize(rapid.IntRange(1, 220).Draw(t, "width after"), rapid.IntRange(1, 60).Draw(t, "height after"))
		check(t, s)
	})
}
