package page

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

var (
	update = flag.Bool("update", false, "write the golden files")
	show   = flag.String("page.show", "", "write a report on a week to this folder, to look at")
)

var noon = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

const hostile = `<script>alert(1)</script>|x_"&` + "`\x1b[31m"

// week returns a report with made-up numbers on a machine with four GPUs, and a point
// every so often.
func week(step time.Duration) *api.Report {
	from := noon.Add(-7 * 24 * time.Hour)
	p := &api.PeriodReport{
		From: from, Until: noon, Covered: 6.5 * 24 * 3600, Source: "past", Step: step.Seconds(),
		Remarks: []string{"The numbers are of 6 d: 12 h of this time was not measured, and nothing is added for it."},
		Users: []api.HolderPeriod{
			{Name: "anna", Leased: 8e6, Measured: 8e6, Used: 6.5e6, Leases: 410, Waiting: 3.2, Energy: gpu.Some(gpu.Joules(4.1e8))},
			{Name: "bob", Leased: 5e6, Measured: 4.8e6, Used: 1.1e6, Leases: 160, Waiting: 11, Energy: gpu.Some(gpu.Joules(1.2e8))},
			{Name: hostile, Leased: 1e6, Measured: 0.9e6, Used: 0.5e6, Leases: 60},
		},
		Services: []api.HolderPeriod{{Name: "embedder", Leased: 9e6, Measured: 8.8e6, Used: 6e6, Leases: 420}, {Leased: 5e6, Measured: 4.9e6, Used: 2.1e6, Leases: 210}},
		Programs: []api.ProgramPeriod{
			{Program: "train.py", User: "anna", Service: "embedder", Leases: 21, Hours: 140, Leased: 7e6, Measured: 7e6, Used: 6e6, Idle: 3, Peak: 71000, Energy: gpu.Some(gpu.Joules(4e8))},
			{Program: "notebook", User: "bob", Leases: 4, Hours: 150, Leased: 5e6, Measured: 4.8e6, Used: 1.1e6, Idle: 121, Peak: 21000, Energy: gpu.Some(gpu.Joules(1.2e8))},
			{Program: hostile, User: "eve", Leases: 1, Hours: 60, Leased: 1e6, Measured: 0.9e6, Used: 0.5e6},
		},
		Waiting: api.WaitingPeriod{
			Answered: 1931, Refused: 12, Mean: gpu.Some(14.2), Queue: 0.4, Longest: 7,
			Times: []api.WaitCount{{Below: 0.1, Count: 1500}, {Below: 1, Count: 200}, {Below: 10, Count: 90}, {Below: 60, Count: 100}, {Count: 41}},
			Now:   []api.Waiting{{ID: "big|one", Holder: api.Holder{User: "bob"}, Memory: 100 << 10, GPUs: 2, Since: noon.Add(-20 * time.Minute)}},
		},
		Faults: []api.EventCount{{Code: "device_fault", Count: 3}, {Code: "overheat", Count: 1}},
	}
	for i := range 4 {
		uuid := fmt.Sprintf("GPU-%d", i)
		d := api.DevicePeriod{
			GPU: uuid, Index: gpu.Some(i), Name: "NVIDIA H200", Measured: 6.5 * 24 * 3600, Total: 143771, Utilization: gpu.Some(gpu.Percent([]float64{45, 35, 25, 14}[i])), Power: gpu.Some(gpu.Watts([]float64{346, 294, 242, 189}[i])),
			Hottest: gpu.Some(gpu.Celsius(86 - 4*i)), Leased: 9e6 - 2e6*float64(i), Used: 7e6 - 2e6*float64(i), Foreign: 1e4, Idle: 3600 * float64(20*i),
			States: map[gpu.State]float64{gpu.Optimal: 5.5 * 24 * 3600, gpu.Normal: 20 * 3600, gpu.Throttled: float64(4-i) * 3600}, Reasons: map[string]float64{"power_cap": 5400},
			Energy: gpu.Some(gpu.Joules(2.7e8 - 5e7*float64(i))), IdleEnergy: gpu.Some(gpu.Joules(5e7)),
		}
		if i == 3 {
			d.Corrected, d.Uncorrected, d.Unhealthy = 41, 2, 7200
		}
		p.GPUs = append(p.GPUs, d)
	}
	put := func(name, of string, state gpu.State, value func(at time.Time, day float64) float64) {
		c := api.Curve{Name: name, Of: of, State: state}
		for t := from.Add(step); !t.After(noon); t = t.Add(step) {
			if out := t.Sub(from); out > 60*time.Hour && out < 72*time.Hour {
				continue // the daemon was down
			}
			day := 0.5 - 0.5*math.Cos(2*math.Pi*(t.Sub(from).Hours()-6)/24)
			c.Points = append(c.Points, api.QueryPoint{Time: t, Value: value(t, day)})
		}
		p.Curves = append(p.Curves, c)
	}
	for i, d := range p.GPUs {
		wave := func(t time.Time) float64 { return math.Sin(t.Sub(from).Hours() * float64(3+i) / 2.7) }
		put("load", d.GPU, "", func(t time.Time, day float64) float64 { return min(max((95-22*float64(i))*day+8*wave(t), 0), 100) })
		put("heat", d.GPU, "", func(t time.Time, day float64) float64 { return 38 + (45-6*float64(i))*day + 3*wave(t) })
		put("power", d.GPU, "", func(t time.Time, day float64) float64 { return 80 + (560-110*float64(i))*day + 20*wave(t) })
		hot := func(day float64) float64 { return min(max((day-0.93+0.02*float64(i))*-14+1, 0), 1) }
		put("state", d.GPU, gpu.Optimal, func(_ time.Time, day float64) float64 { return map[bool]float64{true: 1}[day < 0.6] })
		put("state", d.GPU, gpu.Normal, func(_ time.Time, day float64) float64 { return map[bool]float64{true: hot(day)}[day >= 0.6] })
		put("state", d.GPU, gpu.Throttled, func(_ time.Time, day float64) float64 { return map[bool]float64{true: 1 - hot(day)}[day >= 0.6] })
	}
	put("used", "", "", func(_ time.Time, day float64) float64 { return 60e3 + 240e3*day })
	put("unused", "", "", func(_ time.Time, day float64) float64 { return 90e3 - 30e3*day })
	put("foreign", "", "", func(_ time.Time, day float64) float64 { return 8e3 })
	put("free", "", "", func(_ time.Time, day float64) float64 { return 575e3 - 8e3 - 150e3 - 210e3*day })
	for i, u := range p.Users {
		put("user", u.Name, "", func(_ time.Time, day float64) float64 { return (140e3 + 60e3*day) / float64(i+1) })
	}
	put("queue", "", "", func(t time.Time, day float64) float64 { return max(0, 6*day-3) })
	return &api.Report{
		Time: noon, Period: p, Energy: api.Energy{Price: gpu.Some(0.32), Currency: "EUR"},
		Advice: []api.Advice{{Code: "oversized", Text: hostile + " left 77 % of the memory that it leased unused, in 4 leases: it could lease less.", Command: "berth leases"}},
	}
}

// The page and the mail are as they were looked at.
func TestGolden(t *testing.T) {
	for name, write := range map[string]func() ([]byte, error){
		"report.html": func() ([]byte, error) {
			var b bytes.Buffer
			err := HTML(&b, week(6*time.Hour))
			return b.Bytes(), err
		},
		"report.md": func() ([]byte, error) {
			var b bytes.Buffer
			err := Markdown(&b, week(6*time.Hour))
			return b.Bytes(), err
		},
	} {
		got, err := write()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got; -update writes it):\n%s", name, diff)
		}
	}
	if *show != "" {
		for name, write := range map[string]func(w *bytes.Buffer) error{
			"week.html": func(w *bytes.Buffer) error { return HTML(w, week(30*time.Minute)) },
			"week.md":   func(w *bytes.Buffer) error { return Markdown(w, week(30*time.Minute)) },
		} {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(*show, name), b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A page needs nothing but itself: no script, no address, no handler, and no name
// that a browser would take for markup.
func TestPageIsAlone(t *testing.T) {
	var b bytes.Buffer
	if err := HTML(&b, week(6*time.Hour)); err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(b.String(), `xmlns="http://www.w3.org/2000/svg"`, "")
	for _, bad := range []string{"<script", "<link", "<img", "<iframe", "url(", "@import", "://", " src=", " href=", "javascript:", "\x1b"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if handler := regexp.MustCompile(`<[^>]* on[a-z]+=`).FindString(page); handler != "" {
		t.Errorf("the page has a handler: %s", handler)
	}
	if !strings.Contains(page, "&lt;script&gt;alert(1)&lt;/script&gt;") {
		t.Error("the page does not show the name")
	}
}

// In Markdown, a name stays in its cell.
func TestMarkdownKeepsCells(t *testing.T) {
	var b bytes.Buffer
	if err := Markdown(&b, week(6*time.Hour)); err != nil {
		t.Fatal(err)
	}
	columns := 0
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, "| ") {
			columns = 0
			continue
		}
		n := strings.Count(line, "|") - strings.Count(line, `\|`)
		if columns == 0 {
			columns = n
		}
		if n != columns {
			t.Errorf("%d borders of cells, and %d above: %s", n, columns, line)
		}
	}
	outside := regexp.MustCompile("(?s)```text.*?```").ReplaceAllString(b.String(), "")
	if strings.Contains(outside, "<script") || strings.Contains(b.String(), "\x1b") {
		t.Error("a name is not escaped")
	}
}

// A machine without anything has a report, too.
func TestEmpty(t *testing.T) {
	r := &api.Report{Time: noon, Period: &api.PeriodReport{From: noon.Add(-time.Hour), Until: noon, Source: "samples", Remarks: []string{"Nothing was measured in this time."}}}
	for _, write := range []func(*bytes.Buffer) error{func(b *bytes.Buffer) error { return HTML(b, r) }, func(b *bytes.Buffer) error { return Markdown(b, r) }} {
		var b bytes.Buffer
		if err := write(&b); err != nil || !strings.Contains(b.String(), "Nothing was measured in this time.") || strings.Contains(b.String(), "NaN") {
			t.Errorf("%v\n%s", err, b.String())
		}
	}
}
