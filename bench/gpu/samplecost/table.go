package main

import (
	"fmt"
	"io"
	"strings"
)

// print writes the result for people.
func (r *result) print(out io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s (%s), driver %s, %d processes on it\n\n", r.GPU.Name, r.GPU.UUID, r.GPU.Driver, len(r.Sample.Processes))
	fmt.Fprintf(&text, "%-32s %11s %11s %7s\n", "call", "median µs", "p99 µs", "calls")
	for _, group := range [][]cost{{r.Fast, r.Slow, r.Scan}, r.Calls, r.SMI} {
		for _, c := range group {
			line := fmt.Sprintf("%-32s %11.1f %11.1f %7d  %s", c.Name, c.Median, c.P99, c.Calls, c.Note)
			text.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		text.WriteString("\n")
	}
	if r.Factor > 0 {
		fmt.Fprintf(&text, "An nvidia-smi query for the same numbers costs %.0f times as much as a fast reading.\n", r.Factor)
	} else {
		text.WriteString("nvidia-smi was not found, so there is nothing to compare with.\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}
