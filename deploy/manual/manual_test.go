package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryCommandHasAPage(t *testing.T) {
	folder := t.TempDir()
	if err := write(folder, foot{"1.2.3", "2026-01-31"}); err != nil {
		t.Fatal(err)
	}
	for file, wants := range map[string][]string{
		"man/berth.1":            {`"berth 1.2.3"`, "berth\\-status(1)", "berth help topics, berth help cli"},
		"man/berth-exec.1":       {".SH NAME\nberth\\-exec \\- ", ".SH EXAMPLES", "\\-\\-memory", ".SH OPTIONS OF ALL COMMANDS", "berth help leasing"},
		"man/berth-config-set.1": {"berth\\-config(1)"},
		"completions/berth.bash": {"__start_berth"},
		"completions/_berth":     {"#compdef berth"},
		"completions/berth.fish": {"complete -c berth"},
	} {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Error(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s has no %q", file, want)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "man/berth-front.1")); err == nil {
		t.Error("berth front is hidden, and has a page")
	}
}

func TestTextIsNoInstruction(t *testing.T) {
	for in, want := range map[string]string{
		".TH":       `\&.TH`,
		"'quoted'":  `\(aqquoted\(aq`,
		`a\b --c`:   `a\eb \-\-c`,
		"~/berth ^": `\(ti/berth \(ha`,
	} {
		if got := text(in); got != want {
			t.Errorf("text(%q) = %q, want %q", in, got, want)
		}
	}
}
