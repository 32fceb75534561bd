package worker

import (
	"strings"
	"testing"
)

func TestOutput(t *testing.T) {
	var log strings.Builder
	w := newOutput("[w] ", &sharedLog{to: &log})
	for _, text := range []string{"one\ntw", "o\n", "\n", strings.Repeat("x", lineBytes), "rest\n", "Traceback\n  line\nError: \xff boom"} {
		if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	w.flush()
	w.flush()
	lines := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
	if len(lines) != 8 || lines[1] != "[w] two" || lines[4] != "[w] rest" || lines[7] != "[w] Error: ? boom" {
		t.Errorf("%d lines: %.300q", len(lines), lines)
	}
	if got := w.last(); got != "Traceback |   line | Error: ? boom" {
		t.Errorf("last output: %q", got)
	}
}

// A line that a worker draws on a terminal is logged in its last state, without
// commands to the terminal.
func TestOutputHasNoTerminalCommands(t *testing.T) {
	for _, test := range []struct {
		name string
		text []string
		want string
	}{
		{"a bar", []string{"\r  0%", "\r 50%", "\r100%\n"}, "[w] 100%\n"},
		{"a bar without an end", []string{"  0%\r", " 50%\r"}, "[w]  50%\n"},
		{"a long bar", []string{strings.Repeat("0123456789\r", lineBytes)}, "[w] 0123456789\n"},
		{"a line of another system", []string{"one\r\ntwo\r\n"}, "[w] one\n[w] two\n"},
		{"a cleared screen", []string{"\x1b[2J\x1b[1;31mred\x1b[0m\n"}, "[w] red\n"},
		{"a title", []string{"\x1b]0;title\x07text\x07\b\n"}, "[w] text\n"},
		{"an escape in two pieces", []string{"a\x1b[3", "1mb\n"}, "[w] ab\n"},
	} {
		var log strings.Builder
		w := newOutput("[w] ", &sharedLog{to: &log})
		for _, text := range test.text {
			if _, err := w.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		w.flush()
		if log.String() != test.want {
			t.Errorf("%s: %q, want %q", test.name, log.String(), test.want)
		}
	}
}
