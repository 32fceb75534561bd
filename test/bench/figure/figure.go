// Package figure hands the figures of a benchmark to a program that compares them.
//
// A benchmark prints tables for people. Where the variable BENCH_FIGURES names a file, it
// also adds a line to that file for each figure: name, value, unit and what is better,
// separated by tabs. `make bench-all` reads them.
package figure

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Variable names the file that figures are added to. Empty: none are written.
const Variable = "BENCH_FIGURES"

// Better says which way a figure should move.
type Better string

// The ways.
const (
	Less Better = "less"
	More Better = "more"
)

// Figure is one number that a benchmark measures.
type Figure struct {
	Name   string // what is measured, as a table has it; the same in every run
	Value  float64
	Unit   string // such as "µs", "MiB" or "ratio"
	Better Better
}

func (f Figure) String() string {
	return f.Name + "\t" + strconv.FormatFloat(f.Value, 'g', 5, 64) + "\t" + f.Unit + "\t" + string(f.Better)
}

// Say adds a figure to the file, if there is one. A figure that is no number, such as the
// ratio of two times of which one is missing, is left out. What cannot be written is told on
// standard error: the measurement itself goes on.
func Say(name string, value float64, unit string, better Better) {
	path := os.Getenv(Variable)
	if path == "" || math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err == nil {
		_, err = fmt.Fprintln(f, Figure{name, value, unit, better})
		err = cmp.Or(err, f.Close())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "the figure %q is not written: %v\n", name, err)
	}
}

// Read reads lines that Say wrote.
func Read(r io.Reader) ([]Figure, error) {
	var all []Figure
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f, err := Parse(strings.Split(lines.Text(), "\t"))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		all = append(all, f)
	}
	return all, lines.Err()
}

// Parse makes a figure of the fields of a line.
func Parse(fields []string) (Figure, error) {
	if len(fields) != 4 {
		return Figure{}, fmt.Errorf("it has %d fields; a figure has 4, separated by tabs: name, value, unit, less or more", len(fields))
	}
	value, err := strconv.ParseFloat(fields[1], 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		return Figure{}, fmt.Errorf("%q is no number", fields[1])
	}
	better := Better(fields[3])
	if better != Less && better != More {
		return Figure{}, fmt.Errorf("%q is neither less nor more", fields[3])
	}
	return Figure{fields[0], value, fields[2], better}, nil
}

// Quantile returns the quantile q of values, in any order: 0 is the least, 0.5 the median
// and 1 the most. Of no values it is zero.
func Quantile[T cmp.Ordered](values []T, q float64) T {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		var none T
		return none
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
