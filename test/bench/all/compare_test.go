package main

import (
	"math"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/test/bench/figure"
)

// of makes an entry of the runs of one figure.
func of(name string, better figure.Better, values ...float64) entry {
	var runs [][]figure.Figure
	for _, v := range values {
		runs = append(runs, []figure.Figure{{Name: name, Value: v, Unit: "ms", Better: better}})
	}
	return gather("bench", runs, false)[0]
}

func taken(e entry) entry { e.stolen = true; return e }

func TestMoved(t *testing.T) {
	for _, c := range []struct {
		name      string
		now, last entry
		want      mark
	}{
		{"equal", of("a", figure.Less, 10, 10), of("a", figure.Less, 10, 10), same},
		{"less is better", of("a", figure.Less, 7, 7.2), of("a", figure.Less, 10, 10.2), better},
		{"less is worse", of("a", figure.More, 7, 7.2), of("a", figure.More, 10, 10.2), worse},
		{"more is worse", of("a", figure.Less, 13, 13.2), of("a", figure.Less, 10, 10.2), worse},
		{"more is better", of("a", figure.More, 13, 13.2), of("a", figure.More, 10, 10.2), better},
		{"within the noise of now", of("a", figure.Less, 10, 15), of("a", figure.Less, 10, 10), same},
		{"within the noise of then", of("a", figure.Less, 12, 12), of("a", figure.Less, 8, 12), same},
		{"within the noise of both", of("a", figure.Less, 12, 13), of("a", figure.Less, 10, 11.5), same},
		{"beyond the noise of both", of("a", figure.Less, 15, 16), of("a", figure.Less, 10, 11.5), worse},
		{"stolen now", taken(of("a", figure.Less, 30, 30)), of("a", figure.Less, 10, 10), stolen},
		{"stolen then", of("a", figure.Less, 30, 30), taken(of("a", figure.Less, 10, 10)), stolen},
		{"one run now", of("a", figure.Less, 30), of("a", figure.Less, 10, 10), once},
		{"one run then", of("a", figure.Less, 30, 30), of("a", figure.Less, 10), once},
		{"from nothing", of("a", figure.Less, 3, 3), of("a", figure.Less, 0, 0), worse},
		{"to nothing", of("a", figure.Less, 0, 0), of("a", figure.Less, 3, 3), better},
		{"still nothing", of("a", figure.Less, 0, 0), of("a", figure.Less, 0, 0), same},
		{"another figure", of("a", figure.Less, 1, 1), of("b", figure.Less, 1, 1), fresh},
	} {
		lines := moved([]entry{c.now}, []entry{c.last})
		if lines[0].mark != c.want {
			t.Errorf("%s: the mark is %q, want %q (%+v)", c.name, lines[0].mark, c.want, lines[0])
		}
	}
}

// Two runs that agree by chance do not make a figure exact: its neighbours tell the noise.
func TestNeighboursTellTheNoise(t *testing.T) {
	lucky := of("lucky", figure.Less, 10, 10)
	shaky := func(name string) entry { return of(name, figure.Less, 9, 11) }
	before := []entry{lucky, shaky("b"), shaky("c")}
	now := []entry{of("lucky", figure.Less, 12, 12), shaky("b"), shaky("c")}
	if got := moved(now, before)[0]; got.mark != same {
		t.Errorf("a change of %.2f with neighbours that differ by 0.4 is marked %q", got.change, got.mark)
	}
	other := now[0]
	other.benchmark = "another"
	old := lucky
	old.benchmark = "another"
	if got := moved(append(now[1:], other), append(before[1:], old)); got[2].mark != worse {
		t.Errorf("the noise of another benchmark counts: %+v", got[2])
	}
}

func TestNewAndGone(t *testing.T) {
	lines := moved([]entry{of("stays", figure.Less, 1, 1), of("comes", figure.Less, 1, 1)}, []entry{of("goes", figure.Less, 1, 1), of("stays", figure.Less, 1, 1)})
	var got []string
	for _, l := range lines {
		got = append(got, l.now.Name+l.last.Name+":"+string(l.mark))
	}
	if text := strings.Join(got, " "); text != "staysstays: comes:new goes:gone" {
		t.Errorf("got %q", text)
	}
}

func TestGather(t *testing.T) {
	runs := [][]figure.Figure{{{Name: "a", Value: 1}, {Name: "b", Value: 5}}, {{Name: "b", Value: 7}, {Name: "c", Value: 2}}}
	got := gather("x", runs, true)
	if len(got) != 3 || got[1].Value != 6 || got[1].apart() != 2 || !math.IsInf(got[0].apart(), 1) || !got[2].stolen {
		t.Errorf("got %+v", got)
	}
}

func TestATableIsReadAsItWasWritten(t *testing.T) {
	table := report{head: []string{"machine: one", "commit: abc"}, entries: []entry{of("a", figure.Less, 10, 11), taken(of("b, with ÷", figure.More, 0.125))}}
	var text strings.Builder
	if err := table.write(&text); err != nil {
		t.Fatal(err)
	}
	got, err := readReport(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(got.head, "|") != "machine: one|commit: abc" || len(got.entries) != 2 {
		t.Fatalf("got %+v", got)
	}
	for i, l := range moved(got.entries, table.entries) {
		if want := []mark{same, stolen}[i]; l.mark != want || l.change != 0 {
			t.Errorf("%+v is marked %q", l, l.mark)
		}
	}
	if _, err := readReport(strings.NewReader("a\tb\n")); err == nil {
		t.Error("a line with two fields is read")
	}
}

func TestStolenTime(t *testing.T) {
	const before = "cpu  100 0 100 700 0 0 0 100 0 0\ncpu0 1 2 3\n"
	const after = "cpu  200 0 200 1300 0 0 0 300 0 0\n"
	a, err := readTicks(before)
	if err != nil {
		t.Fatal(err)
	}
	b, err := readTicks(after)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.since(a); got.stolen != 0.2 || got.busy != 0.2 {
		t.Errorf("got %+v, want a fifth stolen and a fifth busy", got)
	}
	if _, err := readTicks("cpu 1 2\n"); err == nil {
		t.Error("a line that is cut is read")
	}
}
