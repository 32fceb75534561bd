package tui

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// lineOf returns the number of the first line of a screen with a text in it.
func lineOf(t *testing.T, s *State, text string) int {
	t.Helper()
	at := slices.IndexFunc(s.Frame(), func(l string) bool { return strings.Contains(l, text) })
	if at < 0 {
		t.Fatalf("there is no %q:\n%s", text, frameText(s))
	}
	return at
}

// A click chooses a row and its pane, a click on what is chosen opens it, and no click
// answers a question.
func TestClick(t *testing.T) {
	s := scene(80, 24, jobFacts())
	s.Click(5, lineOf(t, s, "notebook  "))
	if !strings.Contains(frameText(s), "▸ notebook") {
		t.Errorf("it was not chosen:\n%s", frameText(s))
	}
	s.Click(5, lineOf(t, s, "▸ notebook"))
	if !strings.Contains(frameText(s), "Lease notebook") {
		t.Errorf("it was not opened:\n%s", frameText(s))
	}
	s.Press("esc")
	s.Click(5, lineOf(t, s, "EVENTS 3")) // a heading
	if s.pane != Events || s.detail != nil {
		t.Error("the heading of a pane does not choose it")
	}
	s.Click(5, lineOf(t, s, "notebook  "))
	s.Press("c")
	for y := range 24 {
		s.Click(30, y)
	}
	if s.dialog == nil || s.working != "" {
		t.Error("a click answered")
	}
	s.Press("n")
	s.Click(5, 0)
	s.Click(-1, -1)
	s.Click(500, 500)
	if !strings.Contains(frameText(s), "▸ notebook") {
		t.Error("a click beside everything changed the choice")
	}
	cards := scene(200, 50, jobFacts())
	cards.Click(10, lineOf(t, cards, "GPU 2  H200")+3)
	if !strings.Contains(frameText(cards), "▸GPU 2") {
		t.Errorf("a click on curves does not choose their GPU:\n%s", frameText(cards))
	}
}

// The wheel moves what is under the pointer, three lines at a time.
func TestWheel(t *testing.T) {
	s := scene(80, 24, manyFacts())
	s.Wheel(5, lineOf(t, s, "LEASES 200")+2, 1)
	if s.pane != Leases || s.at(Leases) != 3 {
		t.Errorf("pane %d, row %d", s.pane, s.at(Leases))
	}
	s.Wheel(5, lineOf(t, s, "WAITING 50")+1, 1)
	if s.pane != Queue || s.at(Queue) != 3 || s.at(Leases) != 3 {
		t.Errorf("pane %d, row %d", s.pane, s.at(Queue))
	}
	s.Wheel(5, lineOf(t, s, "WAITING 50")+1, -1)
	s.Wheel(5, lineOf(t, s, "WAITING 50")+1, -1)
	if s.at(Queue) != 0 {
		t.Errorf("row %d", s.at(Queue))
	}
	s.Press("?")
	if s.Wheel(5, 5, 1); s.help != 3 {
		t.Errorf("the help is at %d", s.help)
	}
}

// Sixteen devices do not fit 80×24, and the one that is not well is the first of those
// that do. Where all fit, they stand in their order.
func TestTroubleFirst(t *testing.T) {
	small, large := frameText(scene(80, 24, manyFacts())), frameText(scene(120, 40, manyFacts()))
	if bad := strings.Index(small, "CRITICAL"); bad < 0 || bad > strings.Index(small, "OPTIMAL") || !strings.Contains(small, "9 more below") {
		t.Error(small)
	}
	if bad := strings.Index(large, "CRITICAL"); bad < strings.Index(large, "   10 H200") {
		t.Error(large)
	}
	s := scene(80, 24, manyFacts(), "d")
	if !strings.Contains(frameText(s), "Drain GPU 11?") {
		t.Errorf("what is chosen is not what is drained:\n%s", frameText(s))
	}
}

// Whoever looks at something else is told that there are events.
func TestNewEvents(t *testing.T) {
	s := scene(80, 24, someFacts(), "2", "z")
	news := func() bool { return strings.Contains(s.Frame()[0], "new event") }
	if news() {
		t.Error("old events are new")
	}
	s.TakeEvents(gpu.Event{ID: 7, Time: now, Text: "one"}, gpu.Event{ID: 8, Time: now, Severity: gpu.Serious, Text: "two"})
	if !strings.Contains(s.Frame()[0], "2 new events") {
		t.Error(s.Frame()[0])
	}
	if s.Press("z"); news() {
		t.Errorf("they are on the screen, and still new: %s", s.Frame()[0])
	}
	s.Press("enter")
	s.TakeEvents(gpu.Event{ID: 9, Time: now.Add(time.Second), Text: "three"})
	if !strings.Contains(s.Frame()[0], "1 new event ") {
		t.Error(s.Frame()[0])
	}
	s.Press("esc")
	s.Press("4")
	s.Press("G")
	s.TakeEvents(gpu.Event{ID: 10, Time: now.Add(time.Second), Text: "four"})
	if s.Press("g"); news() {
		t.Error(s.Frame()[0])
	}
}

// An id is whole where the screen has room for it, and otherwise keeps its end.
func TestLongIDs(t *testing.T) {
	f := someFacts()
	id := "embedder-of-the-search-team-in-production-7"
	f.Leases.Leases[0].ID = id
	for width, want := range map[int]string{80: "…duction-7 ", 120: id, 200: id} {
		if s := scene(width, 40, f); !strings.Contains(frameText(s), want) {
			t.Errorf("at %d columns there is no %q:\n%s", width, want, frameText(s))
		}
	}
}

// A process that runs under no lease cannot be ended here, and one under a lease ends
// with its lease; of a lease that a job has, the job is cancelled.
func TestCancelFromTheProcesses(t *testing.T) {
	s := scene(80, 24, jobFacts(), "7", "/", "j", "u", "p", "enter", "c")
	if s.dialog != nil || !strings.Contains(frameText(s), "It runs under no lease") {
		t.Error(frameText(s))
	}
	s = scene(80, 24, jobFacts(), "7", "c")
	if !strings.Contains(frameText(s), "Cancel embedder of ada?") {
		t.Error(frameText(s))
	}
	s = scene(80, 24, jobFacts(), "7", "/", "t", "r", "a", "i", "n", "-", "enter", "c")
	if want := s.Press("y"); want.Act == nil || want.Act.Job != "train-vit-with-a-long-name-17" || want.Act.User != "bob" || want.Act.Verb != "cancel" {
		t.Errorf("%+v", want.Act)
	}
}
