// Command all runs every benchmark twice, in turns, and writes one table beside the last one.
//
// It marks the figures that moved by more than the noise that it measured itself: how far
// the two runs lie apart, now and in the last table. While a benchmark runs, it looks at how
// much of the processors others took; if that was more than a tenth, the run is repeated
// once, and marked if that does not help.
//
//	make bench-all
//
// The table goes to all-NUMBERcpu.tsv in the folder of results, for the next run to compare
// with, and to all-NUMBERcpu.txt, for people. What each benchmark printed stays in a folder
// that is named at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/test/bench/figure"
)

func main() {
	berth := flag.String("berth", "bin/berth", "the binary to measure")
	results := flag.String("results", "test/bench/results", "the folder of the tables")
	only := flag.String("only", "", "run only these `BENCHMARKS`, separated by commas, and write no table")
	list := flag.Bool("list", false, "list the benchmarks")
	flag.Parse()
	if *list {
		for _, b := range benchmarks() {
			fmt.Printf("%-12s %s\n", b.name, strings.Join(b.args, " "))
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *berth, *results, *only); err != nil {
		fmt.Fprintln(os.Stderr, "all:", err)
		os.Exit(1)
	}
}

const (
	rounds     = 2
	mostStolen = 0.1
)

func run(ctx context.Context, berth, results, only string) error {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	if berth, err = filepath.Abs(berth); err != nil {
		return err
	}
	head, err := machine(berth)
	if err != nil {
		return err
	}
	base := filepath.Join(results, fmt.Sprintf("all-%dcpu", runtime.NumCPU()))
	last, err := readLast(base + ".tsv")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-all-")
	if err != nil {
		return err
	}
	for i := range chosen {
		if err := chosen[i].build(ctx, dir); err != nil {
			return err
		}
	}
	began := time.Now()
	runs := map[string][]outcome{}
	for round := range rounds {
		for _, b := range chosen {
			o, err := b.measure(ctx, berth, filepath.Join(dir, fmt.Sprintf("%s-%d", b.name, round+1)))
			if err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, rounds, o)
			runs[b.name] = append(runs[b.name], o)
		}
	}
	head = append(head, fmt.Sprintf("took: %v", time.Since(began).Round(time.Second)))
	t := report{head: head}
	var silent []error
	for _, b := range chosen {
		all := runs[b.name]
		var said [][]figure.Figure
		taken := false
		for _, o := range all {
			t.head = append(t.head, o.String())
			said, taken = append(said, o.figures), taken || o.shares.stolen > mostStolen
		}
		entries := gather(b.name, said, taken)
		if len(entries) == 0 {
			silent = append(silent, fmt.Errorf("%s said no figure: look at %s/%s-1.txt", b.name, dir, b.name))
		}
		t.entries = append(t.entries, entries...)
	}
	if only != "" { // the figures of the others are not gone
		last.entries = slices.DeleteFunc(last.entries, func(e entry) bool { return len(runs[e.benchmark]) == 0 })
		base = ""
	}
	counts, err := t.save(base, last)
	if err != nil {
		return err
	}
	fmt.Printf("\n%d figures, %d better, %d worse, %d stolen, %d new, %d gone; what each benchmark printed is in %s\n",
		len(t.entries), counts[better], counts[worse], counts[stolen], counts[fresh], counts[gone], dir)
	return errors.Join(silent...)
}

// save prints the table, and writes it for the next run and for people into two files that
// begin with base; empty: into none.
func (r report) save(base string, last report) (map[mark]int, error) {
	var text, data strings.Builder
	counts := r.print(&text, last)
	if err := r.write(&data); err != nil {
		return nil, err
	}
	fmt.Print(text.String())
	if base == "" {
		return counts, nil
	}
	return counts, errors.Join(os.WriteFile(base+".txt", []byte(text.String()), 0o644), os.WriteFile(base+".tsv", []byte(data.String()), 0o644))
}

// outcome is what one run of a benchmark said.
type outcome struct {
	name    string
	figures []figure.Figure
	took    time.Duration
	shares  shares
	load    string
	again   bool   // the run was repeated
	failed  string // how it ended; empty: well
}

func (o outcome) String() string {
	text := fmt.Sprintf("%-12s %3.0f s, load %s, processors %2.0f %% busy, %4.1f %% stolen", o.name, o.took.Seconds(), o.load, 100*o.shares.busy, 100*o.shares.stolen)
	if o.again {
		text += ", repeated"
	}
	if o.shares.stolen > mostStolen {
		text += ", STOLEN"
	}
	if o.failed != "" {
		text += "; " + o.failed
	}
	return text
}

// measure runs a benchmark, and once more if its processors were taken away.
func (b benchmark) measure(ctx context.Context, berth, base string) (outcome, error) {
	first, err := b.once(ctx, berth, base)
	if err != nil || first.shares.stolen <= mostStolen {
		return first, err
	}
	second, err := b.once(ctx, berth, base+"-again")
	second.again = true
	if err == nil && first.shares.stolen < second.shares.stolen && len(first.figures) >= len(second.figures) {
		first.again = true
		return first, nil
	}
	return second, err
}

// longest is how long one run may take; the longest one takes two minutes on a quiet machine.
const longest = 15 * time.Minute

// once runs a benchmark. That a benchmark ends with an error is part of the outcome: it may
// have missed one of its own targets.
func (b benchmark) once(ctx context.Context, berth, base string) (outcome, error) {
	limit, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	out, err := os.Create(base + ".txt")
	if err != nil {
		return outcome{}, err
	}
	defer out.Close()
	cmd := exec.CommandContext(limit, b.program, b.args...)
	if b.berth != nil {
		cmd.Args = append(cmd.Args, b.berth(berth)...)
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.dir, out, out
	cmd.Env = append(os.Environ(), figure.Variable+"="+base+".figures")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it stops what it started
	cmd.WaitDelay = 30 * time.Second
	before, err := nowTicks()
	if err != nil {
		return outcome{}, err
	}
	began := time.Now()
	failed := cmd.Run()
	if err := ctx.Err(); err != nil {
		return outcome{}, err
	}
	o := outcome{name: b.name, took: time.Since(began), load: load()}
	if failed != nil {
		o.failed = failed.Error() + ": " + lastLine(base+".txt")
	}
	after, err := nowTicks()
	if err != nil {
		return o, err
	}
	o.shares = after.since(before)
	said, err := os.Open(base + ".figures")
	if err != nil {
		return o, nil // it said nothing
	}
	defer said.Close()
	o.figures, err = figure.Read(said)
	return o, err
}

// lastLine returns the last line of a file that says something.
func lastLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}
