// Package trace reads recordings of a GPU: CSV with a header and a line for each
// sample.
//
// The columns t_s (seconds), temp_c and power_w are required, and others are ignored.
package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Point is one sample of a recording. An empty cell is absent.
type Point struct {
	At          time.Duration // since the time zero of the recording
	Temperature gpu.Opt[gpu.Celsius]
	Power       gpu.Opt[gpu.Watts]
}

// Trace is a recording, in the order of time.
type Trace struct {
	Points []Point
	Gaps   []Gap
}

// Gap is a time without samples, far longer than between other samples.
type Gap struct {
	Line int // the line after the gap
	At   time.Duration
	For  time.Duration
}

func (g Gap) String() string {
	return fmt.Sprintf("line %d: nothing was recorded for %v", g.Line, g.For.Round(time.Millisecond))
}

// columns are the columns that a recording must have.
var columns = []string{"t_s", "temp_c", "power_w"}

// Read reads a recording. It refuses a cell that is not a number and a time that goes
// back, and names the line. It keeps and reports gaps.
func Read(r io.Reader) (Trace, error) {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return Trace{}, errors.New("read a trace: it is empty; a trace begins with a header: t_s,temp_c,power_w")
	}
	if err != nil {
		return Trace{}, fmt.Errorf("read a trace: %w", err)
	}
	places, err := match(header)
	if err != nil {
		return Trace{}, fmt.Errorf("read a trace: line 1: %w", err)
	}
	var t Trace
	var lines []int
	for {
		cells, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Trace{}, fmt.Errorf("read a trace: %w", err)
		}
		line, _ := in.FieldPos(0)
		p, err := readPoint(places, cells)
		if err != nil {
			return Trace{}, fmt.Errorf("read a trace: line %d: %w", line, err)
		}
		if n := len(t.Points); n > 0 && p.At < t.Points[n-1].At {
			return Trace{}, fmt.Errorf("read a trace: line %d: the time goes back from %.3f s to %.3f s; cut the file there, or sort it by t_s", line, t.Points[n-1].At.Seconds(), p.At.Seconds())
		}
		t.Points, lines = append(t.Points, p), append(lines, line)
	}
	t.Gaps = gapsBetween(t.Points, lines)
	return t, nil
}

// match returns the places of the columns in a header.
func match(header []string) ([]int, error) {
	var places []int
	for i, name := range header {
		header[i] = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))
	}
	for _, name := range columns {
		at := slices.Index(header, name)
		if at < 0 {
			return nil, fmt.Errorf("there is no column %s; a trace has a header with t_s, temp_c and power_w", name)
		}
		if slices.Contains(header[at+1:], name) {
			return nil, fmt.Errorf("the column %s is there twice; leave one of them out", name)
		}
		places = append(places, at)
	}
	return places, nil
}

// mostSeconds is the last time that a trace can hold.
const mostSeconds = 9e9

func readPoint(places []int, cells []string) (p Point, err error) {
	var values [3]gpu.Opt[float64]
	for i, at := range places {
		cell := strings.TrimSpace(cells[at])
		if cell == "" && i > 0 {
			continue
		}
		v, err := strconv.ParseFloat(cell, 64)
		if err != nil || math.IsNaN(v) || math.Abs(v) > 1e15 {
			return p, fmt.Errorf("%s: %q is not a number", columns[i], cell)
		}
		values[i] = gpu.Some(v)
	}
	at := values[0].Or(0)
	if math.Abs(at) > mostSeconds {
		return p, fmt.Errorf("t_s: %g is not a time in seconds", at)
	}
	p.At = time.Duration(math.Round(at*1e6)) * time.Microsecond
	if v, known := values[1].Get(); known {
		p.Temperature = gpu.Some(gpu.Celsius(v))
	}
	if v, known := values[2].Get(); known {
		p.Power = gpu.Some(gpu.Watts(v))
	}
	return p, nil
}

// A gap is that many times longer than most steps, and no shorter than shortest.
const (
	longer   = 10
	shortest = 5 * time.Second
)

// gapsBetween returns the gaps between points, whose lines are given.
func gapsBetween(points []Point, lines []int) []Gap {
	var steps []time.Duration
	for i := 1; i < len(points); i++ {
		steps = append(steps, points[i].At-points[i-1].At)
	}
	if len(steps) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(steps))
	limit := max(shortest, longer*sorted[len(sorted)/2])
	var gaps []Gap
	for i, step := range steps {
		if step > limit {
			gaps = append(gaps, Gap{Line: lines[i+1], At: points[i].At, For: step})
		}
	}
	return gaps
}

// Every returns the recording with at most one point in each interval.
func (t Trace) Every(interval time.Duration) []Point {
	var kept []Point
	// A clock that ticks a little early must not lose a sample.
	early := interval / 20
	for _, p := range t.Points {
		if len(kept) == 0 || p.At >= kept[len(kept)-1].At+interval-early {
			kept = append(kept, p)
		}
	}
	return kept
}
