package batch

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/internal/batch/outcome"
)

func outcomes(first, n, size int) []outcome.Outcome {
	out := make([]outcome.Outcome, n)
	for i := range out {
		out[i] = outcome.Outcome{Index: int64(first + i), Data: []byte(strings.Repeat("x", size))}
	}
	return out
}

// Outcomes wait for company, but not for long.
func TestSinkGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var groups []int
		var at []time.Duration
		start := time.Now()
		s := newSink(time.Second, 100, func(g []outcome.Outcome) error {
			if len(g) > 0 {
				groups = append(groups, len(g))
				at = append(at, time.Since(start))
			}
			return nil
		})
		s.put(outcomes(0, 3, 1))
		time.Sleep(500 * time.Millisecond) // within the bubble, time is not waited for
		s.put(outcomes(3, 2, 1))
		time.Sleep(10 * time.Second)
		s.put(outcomes(5, 1, 200)) // enough at once
		synctest.Wait()
		s.put(outcomes(6, 4, 1))
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int{5, 1, 4}, groups); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]time.Duration{time.Second, 10500 * time.Millisecond, 10500 * time.Millisecond}, at); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A slow disk makes those wait who bring more, and a broken one nobody.
func TestSinkHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan error)
		s := newSink(time.Second, 100, func([]outcome.Outcome) error { return <-goOn })
		s.put(outcomes(0, 1, 100)) // being written
		synctest.Wait()
		s.put(outcomes(1, 1, 100)) // gathered
		third := make(chan struct{})
		go func() {
			s.put(outcomes(2, 1, 100))
			close(third)
		}()
		synctest.Wait()
		select {
		case <-third:
			t.Error("there was room for a third group")
		default:
		}
		goOn <- nil
		<-third
		broken := errors.New("broken")
		goOn <- broken
		for i := range 10 {
			s.put(outcomes(10+i, 1, 100)) // nobody waits for a disk that is broken
		}
		if err := s.close(); !errors.Is(err, broken) {
			t.Errorf("close = %v, want %v", err, broken)
		}
	})
}

func TestLastWords(t *testing.T) {
	var log strings.Builder
	w := &lastWords{prefix: "[w] ", to: &sharedLog{to: &log}}
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
		t.Errorf("last words: %q", got)
	}
}

// What a worker draws on a terminal is a line like any other: the last state of
// it, without commands to the terminal.
func TestLastWordsAreTame(t *testing.T) {
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
		w := &lastWords{prefix: "[w] ", to: &sharedLog{to: &log}}
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
