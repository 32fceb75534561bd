package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/berth-gpu/berth/test/bench/figure"
)

// report is a table of figures, as it is kept in a file.
type report struct {
	head    []string // about the machine and the runs, one line each
	entries []entry
}

// write writes a table: lines of the head after a #, and one line for each figure with its
// benchmark, name, unit, what is better, whether it was stolen, and the value of each run.
func (r report) write(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, line := range r.head {
		fmt.Fprintf(out, "# %s\n", line)
	}
	for _, e := range r.entries {
		when := "own"
		if e.stolen {
			when = "stolen"
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s", e.benchmark, e.Name, e.Unit, e.Better, when)
		for _, v := range e.values {
			fmt.Fprintf(out, "\t%s", strconv.FormatFloat(v, 'g', 5, 64))
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}

// readReport reads what write wrote.
func readReport(r io.Reader) (report, error) {
	var t report
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if text, head := strings.CutPrefix(lines.Text(), "# "); head {
			t.head = append(t.head, text)
			continue
		}
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) < 6 {
			return t, fmt.Errorf("%q has %d fields, and at least 6 are wanted", lines.Text(), len(fields))
		}
		e := entry{benchmark: fields[0], stolen: fields[4] == "stolen"}
		for _, text := range fields[5:] {
			f, err := figure.Parse([]string{fields[1], text, fields[2], fields[3]})
			if err != nil {
				return t, fmt.Errorf("%q: %w", lines.Text(), err)
			}
			e.Figure, e.values = f, append(e.values, f.Value)
		}
		e.Value = mean(e.values)
		t.entries = append(t.entries, e)
	}
	return t, lines.Err()
}

// readLast reads the table of a file; it is empty if there is none.
func readLast(path string) (report, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return report{}, nil
	}
	if err != nil {
		return report{}, err
	}
	defer f.Close()
	t, err := readReport(f)
	if err != nil {
		return t, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// print prints a table beside the last one, for people.
func (r report) print(w io.Writer, last report) (counts map[mark]int) {
	for _, line := range r.head {
		fmt.Fprintln(w, line)
	}
	if len(last.head) > 0 {
		fmt.Fprintf(w, "\nbeside the last table:\n")
		for _, line := range last.head[:min(3, len(last.head))] {
			fmt.Fprintln(w, "  "+line)
		}
	}
	counts = map[mark]int{}
	benchmark, lines := "", moved(r.entries, last.entries)
	width := 0
	for _, l := range lines {
		width = max(width, utf8.RuneCountInString(l.now.Name), utf8.RuneCountInString(l.last.Name))
	}
	for _, l := range lines {
		counts[l.mark]++
		e := l.now
		if l.mark == gone {
			e = l.last
		}
		if e.benchmark != benchmark {
			benchmark = e.benchmark
			fmt.Fprintf(w, "\n%-*s %26s %9s %8s %8s\n", width+2, benchmark, "two runs", "last", "change", "noise")
		}
		change, noise, old := "", "", ""
		if l.mark != fresh && l.mark != gone {
			change, noise, old = fmt.Sprintf("%+.0f %%", 100*l.change), fmt.Sprintf("%.0f %%", 100*l.noise), number(l.last.Value)
		}
		if l.mark == once {
			noise = ""
		}
		var runs []string
		for _, v := range l.now.values {
			runs = append(runs, number(v))
		}
		fmt.Fprintf(w, "  %-*s %26s %9s %8s %8s %s\n", width, e.Name, strings.Join(runs, " / ")+" "+short(e.Unit), old, change, noise, l.mark)
	}
	return counts
}

// short leaves out what says nothing.
func short(unit string) string {
	if unit == "ratio" {
		return "×"
	}
	return unit
}

// number writes a value with three digits that count.
func number(v float64) string {
	if v >= 1000 || v <= -1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
