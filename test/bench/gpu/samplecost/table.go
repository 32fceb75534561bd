package main

import (
	"fmt"
	"io"
	"strings"
)

// print writes the result as a table.
func (r *result) print(out io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s (%s), driver %s, %d processes on it\n\n", r.GPU.Name, r.GPU.UUID, r.GPU.Driver, len(r.Sample.Processes))
	fmt.Fprintf(&text, "%-32s %10s %10s %9s %10s %9s\n", "call", "median µs", "p99 µs", "CPU µs", "cold µs", "cold CPU")
	for _, group := range [][]cost{{r.Fast, r.Slow, r.Scan}, r.Calls, r.SMI} {
		for _, c := range group {
			line := fmt.Sprintf("%-32s %10.1f %10.1f %9.1f %10s %9s  %s", c.Name, c.Median, c.P99, c.CPU, ifAny(c.Cold), ifAny(c.ColdCPU), c.Note)
			text.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		text.WriteString("\n")
	}
	if r.Factor > 0 {
		fmt.Fprintf(&text, "An nvidia-smi query for the same numbers costs %.0f times as much as a fast reading.\n", r.Factor)
	} else {
		text.WriteString("nvidia-smi is not installed, so there is nothing to compare with.\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func ifAny(v float64) string {
	if v == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f", v)
}
