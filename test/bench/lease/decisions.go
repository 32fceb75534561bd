package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/test/bench/figure"
)

// decisions prints how long it takes to choose among 8, 1,000 and 10,000
// devices, which is a part of every acquire. It runs a benchmark with go; if go
// is missing, it prints only that.
func decisions(ctx context.Context, w io.Writer) error {
	if _, err := exec.LookPath("go"); err != nil {
		fmt.Fprintf(w, "\nThe table of decisions is left out: %v\n", err)
		return nil
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-C", "../../..", "-run", "^$", "-bench", "^BenchmarkChoose$/^devices=[0-9]+$", "-benchtime", "300ms", "./internal/lease/placement")
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("run the benchmark of decisions: %w", err)
	}
	fmt.Fprint(w, "\n| devices | one decision | garbage |\n|---:|---:|---:|\n")
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) < 8 || !strings.HasPrefix(fields[0], "BenchmarkChoose/") {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(fields[0], "BenchmarkChoose/devices="), "-")
		if took, err := strconv.ParseFloat(fields[2], 64); err == nil {
			figure.Say("choose among devices: "+strings.ReplaceAll(name, "/", ", "), took/1e3, "µs", figure.Less)
		}
		fmt.Fprintf(w, "| %s | %s %s | %s %s |\n", strings.ReplaceAll(name, "/", ", "), fields[2], fields[3], fields[4], fields[5])
	}
	return nil
}
