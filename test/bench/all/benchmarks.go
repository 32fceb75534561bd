package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// benchmark is a program that says figures, with arguments that make it short: a round of all
// of them takes about ten minutes on two quiet processors.
type benchmark struct {
	name  string
	own   bool // it is a module of its own
	args  []string
	berth func(path string) []string // more arguments, which name the binary; nil: none

	program, dir string // once it is built: what runs, and where
}

// benchmarks returns all of them, in the order in which they run. prometheus compares
// answers and not times, and what is in gpu needs one: they are not among them.
func benchmarks() []benchmark {
	with := func(berth string) []string { return []string{"-berth", berth} }
	front := func(berth string) []string {
		return []string{"-berth", filepath.Join(filepath.Dir(berth), "berth-serve")}
	}
	return []benchmark{
		{name: "lease", own: true, args: []string{"-peers", "redis", "-rounds", "3", "-each", "500ms"}, berth: with},
		{name: "handover", args: []string{"-kills", "100", "-releases", "1000"}, berth: with},
		{name: "event", args: []string{"-n", "200"}, berth: with},
		{name: "exec", args: []string{"-n", "300"}, berth: with},
		{name: "startup", args: []string{"-n", "150"}, berth: with},
		{name: "foundations", args: []string{"-parts", "scrapes,busy,idle", "-scrapes", "1000", "-idle", "20s"}, berth: with},
		{name: "many", args: []string{"-again", "3", "-rest", "10s"}, berth: with},
		{name: "jobs", args: []string{"-n", "30", "-jobs", "100", "-turns", "3"}, berth: with},
		{name: "batch", args: []string{"-part", "makespan,throughput,memory,map", "-bound", "1s", "-stream", "0.5", "-map", "50000"}, berth: with},
		{name: "front", args: []string{"-rounds", "3", "-each", "300ms", "-long", "20000", "-open", "200"}, berth: front},
		{name: "journal", own: true, args: []string{"-rounds", "5"}},
		{name: "past", args: []string{"-days", "7", "-every", "30s", "-seconds", "1h", "-beside"}},
		{name: "forecast"},
		{name: "access", berth: with},
		{name: "hostile", args: []string{"-fair", "-rounds", "1", "-length", "8s"}, berth: with},
	}
}

// choose returns the benchmarks with these names, separated by commas; empty: all.
func choose(only string) ([]benchmark, error) {
	all := benchmarks()
	if only == "" {
		return all, nil
	}
	var chosen []benchmark
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(all, func(b benchmark) bool { return b.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no benchmark %q: -list lists them", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// build builds a benchmark into a folder.
func (b *benchmark) build(ctx context.Context, dir string) error {
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	source := filepath.Join("test/bench", b.name)
	b.program, b.dir = filepath.Join(dir, b.name), root
	words := []string{"build", "-trimpath", "-o", b.program, "./" + source}
	if b.own {
		b.dir = filepath.Join(root, source)
		words = []string{"build", "-trimpath", "-o", b.program, "."}
	}
	cmd := exec.CommandContext(ctx, "go", words...)
	cmd.Dir = b.dir
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", b.name, err, said)
	}
	return nil
}
