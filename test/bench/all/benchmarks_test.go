package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A benchmark that is not listed is not run.
func TestEveryBenchmarkIsListed(t *testing.T) {
	others := []string{
		"all", "daemon", "figure", // what runs the others, and what they share
		"growth",     // make bench-growth
		"heavy",      // make bench-heavy, which makes thousands of processes
		"prometheus", // compares answers
	}
	programs, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	folders := map[string]bool{}
	for _, path := range programs {
		folders[filepath.Base(filepath.Dir(path))] = true
	}
	for name := range folders {
		if listed := slices.ContainsFunc(benchmarks(), func(b benchmark) bool { return b.name == name }); listed == slices.Contains(others, name) {
			t.Errorf("test/bench/%s has to be in benchmarks, or among the others here", name)
		}
	}
	for _, b := range benchmarks() {
		if !folders[b.name] {
			t.Errorf("there is no test/bench/%s", b.name)
		}
		_, err := os.Stat(filepath.Join("..", b.name, "go.mod"))
		if own := err == nil; own != b.own {
			t.Errorf("%s: own is %v, and a module of its own is there: %v", b.name, b.own, own)
		}
	}
}

func TestChoose(t *testing.T) {
	if some, err := choose("exec,lease"); err != nil || len(some) != 2 || some[0].name != "exec" {
		t.Errorf("got %v and %v", some, err)
	}
	if all, err := choose(""); err != nil || len(all) != len(benchmarks()) {
		t.Errorf("got %d and %v", len(all), err)
	}
	if _, err := choose("exce"); err == nil {
		t.Error("a benchmark that does not exist is chosen")
	}
}
