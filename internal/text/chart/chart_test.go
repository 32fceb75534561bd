package chart

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files")

var noon = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

// hourly returns a point for every value, an hour apart.
func hourly(values ...float64) (list []Point) {
	for i, v := range values {
		list = append(list, Point{noon.Add(time.Duration(i) * time.Hour), v})
	}
	return list
}

func example() Time {
	gap := math.NaN()
	return Time{
		Title: "Load <of> all", Desc: `a "description"`, From: noon, Until: noon.Add(6 * time.Hour), Step: time.Hour, Unit: " %", Most: 100,
		Series: []Series{{Name: "GPU 0", Points: hourly(10, 20, gap, 40, 50, 60, 80)}, {Name: `<b>&"` + strings.Repeat("long", 20), Points: hourly(5, 5, 5, 5)}},
	}
}

func examples() map[string]string {
	return map[string]string{
		"lines.svg": Lines(example()),
		"stack.svg": Stack(example()),
		"spark.svg": Spark(example()),
		"bars.svg": Bars(BarPlot{
			Title: "Waste", Unit: " GiB·h", Parts: []Series{{Name: "used"}, {Name: "not used"}},
			Bars: []Bar{{"train.py", []float64{10, 5}, "5 not used"}, {"<i>", []float64{1, math.NaN()}, "&"}, {"none", []float64{0, 0}, ""}},
		}),
		"strips.svg": Strips(StripPlot{
			Title: "States", From: noon, Until: noon.Add(4 * time.Hour), States: []Series{{Name: "OPTIMAL", Class: "fine"}, {Name: "CRITICAL", Class: "bad"}},
			Strips: []Strip{{"GPU 0", []Cell{
				{noon, noon.Add(time.Hour), []float64{1, 0}}, {noon.Add(time.Hour), noon.Add(2 * time.Hour), []float64{1, 0}}, {noon.Add(3 * time.Hour), noon.Add(4 * time.Hour), []float64{0.25, 0.75}},
			}}},
		}),
	}
}

func TestGolden(t *testing.T) {
	for name, got := range examples() {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got; -update writes it):\n%s", name, diff)
		}
	}
}

// check parses a picture, and returns the names of its elements.
func check(t interface{ Fatalf(string, ...any) }, svg string) map[string]int {
	found := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok {
			found[e.Name.Local]++
			for _, a := range e.Attr {
				if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "href" || strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Fatalf("<%s %s=%q>", e.Name.Local, a.Name.Local, a.Value)
				}
			}
		}
	}
}

// Whatever names and numbers a picture gets, it is well-formed, has a title, holds
// only the elements that this package draws, and no coordinate that is no number.
func TestAnything(t *testing.T) {
	value := rapid.OneOf(rapid.Float64Range(-10, 1e6), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.MaxFloat64, 5e-324}))
	name := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "</text><script>x</script>", "\x00\x1b[1m", "\u202egnp.exe", `" onload="x`, "]]>"}))
	rapid.Check(t, func(t *rapid.T) {
		plot := Time{
			Title: name.Draw(t, "title"), Desc: name.Draw(t, "desc"), Unit: name.Draw(t, "unit"), From: noon, Step: time.Hour,
			Until: noon.Add(time.Duration(rapid.Int64Range(-1, int64(400*day)).Draw(t, "length"))),
		}
		bars := BarPlot{Title: plot.Title, Unit: plot.Unit}
		strips := StripPlot{Title: plot.Title, From: plot.From, Until: plot.Until}
		for range rapid.IntRange(0, 10).Draw(t, "series") {
			values := rapid.SliceOfN(value, 0, 12).Draw(t, "values")
			series := Series{Name: name.Draw(t, "name"), Points: hourly(values...)}
			plot.Series = append(plot.Series, series)
			bars.Parts, strips.States = append(bars.Parts, series), append(strips.States, series)
		}
		bars.Bars = []Bar{{name.Draw(t, "bar"), rapid.SliceOfN(value, len(bars.Parts), len(bars.Parts)).Draw(t, "parts"), name.Draw(t, "note")}}
		strips.Strips = []Strip{{name.Draw(t, "strip"), []Cell{{noon, noon.Add(time.Hour), rapid.SliceOfN(value, 0, 4).Draw(t, "shares")}}}}
		for _, svg := range []string{Lines(plot), Stack(plot), Spark(plot), Bars(bars), Strips(strips)} {
			found := check(t, svg)
			if found["title"] == 0 || found["svg"] != 1 {
				t.Fatalf("no title: %s", svg)
			}
			for element := range found {
				if !strings.Contains(" svg title desc g line path rect text ", " "+element+" ") {
					t.Fatalf("<%s> in %s", element, svg)
				}
			}
		}
	})
}

func TestTicks(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("this machine has no time zones")
	}
	for _, c := range []struct {
		from   time.Time
		length time.Duration
		want   string
	}{
		{noon, 10 * time.Minute, "12:00 12:02 12:04 12:06 12:08 12:10"},
		{noon.Add(7 * time.Minute), 6 * time.Hour, "13:00 14:00 15:00 16:00 17:00 18:00"},
		{noon, day, "12:00 15:00 18:00 21:00 00:00 03:00 06:00 09:00 12:00"},
		{noon, 2 * day, "Mon 12:00 Mon 18:00 Tue 00:00 Tue 06:00 Tue 12:00 Tue 18:00 Wed 00:00 Wed 06:00 Wed 12:00"},
		{noon, 7 * day, "17 Nov 18 Nov 19 Nov 20 Nov 21 Nov 22 Nov 23 Nov"},
		{noon, 90 * day, "30 Nov 14 Dec 28 Dec 11 Jan 25 Jan 8 Feb"},
		{time.Date(2026, 10, 24, 0, 0, 0, 0, berlin), 4 * day, "Sat 00:00 Sat 12:00 Sun 00:00 Sun 11:00 Sun 23:00 Mon 11:00 Mon 23:00 Tue 11:00 Tue 23:00"},
	} {
		list, format := span{c.from, c.from.Add(c.length)}.ticks()
		var got []string
		for _, each := range list {
			got = append(got, each.Format(format))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%v from %v:\ngot  %s\nwant %s", c.length, c.from, text, c.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		most float64
		want string
	}{{1, "0.00 0.25 0.50 0.75 1.00"}, {100, "0 25 50 75 100"}, {7, "0 2 4 6 8"}, {450, "0 200 400 600"}, {33000, "0 10k 20k 30k 40k"}, {0, "0.00 0.25 0.50 0.75 1.00"}} {
		a := newAxis(c.most, 0, 100, "")
		var got []string
		for i := 0; float64(i)*a.step <= a.most*(1+1e-9); i++ {
			got = append(got, number(float64(i)*a.step, a.step))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("up to %g: %s, want %s", c.most, text, c.want)
		}
	}
}
