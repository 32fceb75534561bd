package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// column is a known column.
type column struct {
	name   string
	needed bool
	read   func(p *Point, cell string) error
	write  func(p *Point) string
}

// columns are the columns that Write writes, in this order.
var columns = []column{
	{"t_s", true, readTime, func(p *Point) string { return strconv.FormatFloat(p.At.Seconds(), 'f', 3, 64) }},
	number("temp_c", true, func(p *Point) *gpu.Opt[gpu.Celsius] { return &p.Temperature }),
	number("power_w", true, func(p *Point) *gpu.Opt[gpu.Watts] { return &p.Power }),
	number("util", false, func(p *Point) *gpu.Opt[gpu.Percent] { return &p.Utilization }),
	number("mem_used_mb", false, func(p *Point) *gpu.Opt[gpu.MiB] { return &p.MemoryUsed }),
	number("mem_total_mb", false, func(p *Point) *gpu.Opt[gpu.MiB] { return &p.MemoryTotal }),
	number("memtemp_c", false, func(p *Point) *gpu.Opt[gpu.Celsius] { return &p.MemoryTemperature }),
	number("sm_mhz", false, func(p *Point) *gpu.Opt[gpu.MHz] { return &p.ClockSM }),
	number("fan_percent", false, func(p *Point) *gpu.Opt[gpu.Percent] { return &p.Fan }),
	number("energy_j", false, func(p *Point) *gpu.Opt[float64] { return &p.Energy }),
	{"throttle", false, func(p *Point, cell string) error { p.Throttle = cell; return nil }, func(p *Point) string { return p.Throttle }},
}

// number returns a column of numbers.
func number[T ~float64 | ~int64 | ~int](name string, needed bool, at func(*Point) *gpu.Opt[T]) column {
	return column{name, needed, func(p *Point, cell string) error {
		v, err := parse(cell)
		if err == nil {
			*at(p) = gpu.Some(T(v))
		}
		return err
	}, func(p *Point) string {
		v, known := at(p).Get()
		if !known {
			return ""
		}
		return strconv.FormatFloat(float64(v), 'f', -1, 64)
	}}
}

// largest is the largest number that is a measurement.
const largest = 1e15

func parse(cell string) (float64, error) {
	v, err := strconv.ParseFloat(cell, 64)
	if err != nil || math.IsNaN(v) || math.Abs(v) > largest {
		return 0, fmt.Errorf("%q is not a number", cell)
	}
	return v, nil
}

// mostSeconds is the last time that a trace can hold.
const mostSeconds = 9e9

func readTime(p *Point, cell string) error {
	v, err := parse(cell)
	if err == nil && math.Abs(v) > mostSeconds {
		err = fmt.Errorf("%q is not a time in seconds", cell)
	}
	p.At = time.Duration(math.Round(v*1e6)) * time.Microsecond
	return err
}

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
	known, err := match(header)
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
		p, err := readPoint(known, cells)
		if err != nil {
			return Trace{}, fmt.Errorf("read a trace: line %d: %w", line, err)
		}
		if n := len(t.Points); n > 0 && p.At < t.Points[n-1].At {
			return Trace{}, fmt.Errorf("read a trace: line %d: the time goes back from %.3f s to %.3f s; cut the file there, or sort it by t_s", line, t.Points[n-1].At.Seconds(), p.At.Seconds())
		}
		t.Points, lines = append(t.Points, p), append(lines, line)
	}
	times := make([]time.Duration, len(t.Points))
	for i, p := range t.Points {
		times[i] = p.At
	}
	t.Gaps = gapsBetween(times, func(i int) int { return lines[i] })
	return t, nil
}

// match returns the column for each name of a header, or nil for unknown names.
func match(header []string) ([]*column, error) {
	known := make([]*column, len(header))
	seen := map[string]bool{}
	for i, name := range header {
		name = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))
		for c := range columns {
			if columns[c].name != name {
				continue
			}
			if seen[name] {
				return nil, fmt.Errorf("the column %s is there twice; leave one of them out", name)
			}
			seen[name], known[i] = true, &columns[c]
		}
	}
	for _, c := range columns {
		if c.needed && !seen[c.name] {
			return nil, fmt.Errorf("there is no column %s; a trace has a header with t_s, temp_c and power_w", c.name)
		}
	}
	return known, nil
}

func readPoint(known []*column, cells []string) (Point, error) {
	var p Point
	for i, c := range known {
		if c == nil {
			continue
		}
		cell := strings.TrimSpace(cells[i])
		if cell == "" && c.name != "t_s" {
			continue
		}
		if err := c.read(&p, cell); err != nil {
			return p, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return p, nil
}

// Writer writes a recording, point by point.
type Writer struct {
	out   *csv.Writer
	begun bool
	times []time.Duration // of the points that were written
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{out: csv.NewWriter(w)} }

// Write writes a point, and the header before the first one. It flushes each point at
// once: a recording that is cut short holds all points but the last.
func (w *Writer) Write(p Point) error {
	if !w.begun {
		w.begun = true
		names := make([]string, len(columns))
		for i, c := range columns {
			names[i] = c.name
		}
		w.out.Write(names) // Error reports it
	}
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = c.write(&p)
	}
	w.out.Write(cells)
	w.out.Flush()
	if err := w.out.Error(); err != nil {
		return fmt.Errorf("write a trace: %w", err)
	}
	w.times = append(w.times, p.At)
	return nil
}

// Gaps returns the gaps between the written points, as Read finds them.
func (w *Writer) Gaps() []Gap {
	return gapsBetween(w.times, func(i int) int { return i + 2 }) // the header is line 1
}
