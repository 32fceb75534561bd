package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/cli"
	"github.com/berth-gpu/berth/internal/daemon/daemontest"
)

// TestMistakes makes plausible mistakes at the command line, and compares the answers with
// testdata/mistakes.golden: lines that begin with $ are command lines, and below each stand
// its exit code and its answer. -update writes the answers.
//
// Lines that begin with # are comments, and those that begin with + prepare something and
// must succeed. A line that begins with = has a phrase that the answer below it must have,
// and one that begins with ! a phrase that it must not have. Every answer must name the
// next step, and none may be a sentence of a library.
func TestMistakes(t *testing.T) {
	const golden = "testdata/mistakes.golden"
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	for name, content := range map[string]string{
		"berth.yaml": "hooks:\n  pager: {command: [/bin/true]}\n",
		"open.yaml":  "hooks:\n  pager: {url: http://127.0.0.1:1/, secret: abcdefghijklmnopqrstuvwxyz}\n",
		"bad.yaml":   "gpu: {temp_optimum: 60}\n",
		"train.py":   "print()\n",
		"train.sh":   "#!/bin/sh\ntrue\n",
		"slurm.sh":   "#!/bin/sh\n#SBATCH --gres=gpu:2\n#SBATCH -t 4:00:00\n#SBATCH --mail-type=END\n#SBATCH -Jtrain\ntrue\n",
		"job.sh":     "#!/bin/sh\n#BERTH --memry 8GiB\ntrue\n",
	} {
		mode := os.FileMode(0o600) // one that others can read must have no secrets
		if name == "open.yaml" {
			mode = 0o644
		}
		if err := os.WriteFile(filepath.Join(work, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(work)
	d, err := daemontest.Start(daemontest.Options{Devices: "sim:2", State: filepath.Join(work, "daemon"), File: filepath.Join(work, "berth.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Stop() })
	var got strings.Builder
	mistakes := 0
	var phrases []string // of the answer that comes next
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "#"):
			fmt.Fprintln(&got, line)
		case strings.HasPrefix(line, "+ "):
			fmt.Fprintln(&got, line)
			if code, said := mistake(t, d, work, line[2:]); code != 0 {
				t.Errorf("%s: exit code %d: %s", line, code, said)
			}
		case strings.HasPrefix(line, "= "), strings.HasPrefix(line, "! "):
			fmt.Fprintln(&got, line)
			phrases = append(phrases, line)
		case strings.HasPrefix(line, "$ "):
			mistakes++
			code, said := mistake(t, d, work, line[2:])
			for _, phrase := range phrases {
				if strings.Contains(said, phrase[2:]) != (phrase[0] == '=') {
					t.Errorf("%s: %s: the answer is not as \"%s\" asks", line, said, phrase)
				}
			}
			phrases = nil
			fmt.Fprintf(&got, "%s\n%d %s\n", line, code, strings.ReplaceAll(said, "\n", "\n  "))
			judge(t, line, code, said)
		case line == "":
			fmt.Fprintln(&got)
		}
	}
	if mistakes < 100 {
		t.Errorf("there are %d mistakes", mistakes)
	}
	if *update {
		if err := os.WriteFile(filepath.Join(source, golden), []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := strings.Split(string(text), "\n")
	for i, line := range strings.Split(got.String(), "\n") {
		if i >= len(want) || line != want[i] {
			t.Fatalf("line %d is %q; -update writes what is said now, and git diff shows it", i+1, line)
		}
	}
}

// source is the folder of this test.
var source, _ = os.Getwd()

// mistake runs a command line with a daemon, and returns its exit code and what it says.
func mistake(t *testing.T, d *daemontest.Daemon, work, line string) (code int, said string) {
	t.Helper()
	args, environment := fields(line), map[string]string{"BERTH_SOCKET": d.Socket}
	for len(args) > 0 && strings.Contains(args[0], "=") && (strings.HasPrefix(args[0], "BERTH_") || args[0] == "TERMINAL=1") {
		name, value, _ := strings.Cut(args[0], "=")
		environment[name], args = value, args[1:]
	}
	var out, errs bytes.Buffer
	env := scriptEnv()
	env.Env.In, env.Env.Out, env.Env.Err = strings.NewReader(""), &out, &errs
	env.Env.Getenv = func(name string) string { return environment[name] }
	env.Env.Now = func() time.Time { return time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC) }
	env.Env.Terminal = func() (int, bool) { return 80, false }
	env.Env.ErrTerminal = func() (int, bool) { return 80, environment["TERMINAL"] != "" }
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	code = cli.Run(ctx, env, args[1:])
	text := strings.NewReplacer(d.Socket, "SOCKET", work, "WORK").Replace(errs.String())
	if code == 0 {
		text += out.String()
	}
	return code, strings.TrimRight(text, "\n")
}

// fields splits a line at blanks that are not between single quotes.
func fields(line string) (all []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			all = append(all, part)
			continue
		}
		all = append(all, strings.Fields(part)...)
	}
	return all
}

var (
	// library finds sentences of the framework, of packages of Go and of the parsers.
	library = regexp.MustCompile(`arg\(s\)|unknown (?:command|flag|shorthand)|invalid argument|flag needs an|strconv\.|\btime: (?:invalid|unknown|missing)|\bjson: (?:cannot|invalid|unknown)|yaml: |parse error|invalid parameter|dial |connect: |unexpected end|cannot unmarshal|EOF|0x[0-9a-f]+|%!`)

	// step finds a next step.
	step = regexp.MustCompile(`(?i)did you mean|for example|\b(?:write|give|use|see|name|choose|leave|ask for|wait|say|start|try|look|find|set|take|close|install|list|lists|must be|takes|look at)\b|berth [a-z]+|as in|--[a-z]+`)
)

// judge checks an answer.
func judge(t *testing.T, line string, code int, said string) {
	t.Helper()
	switch {
	case said == "":
		t.Errorf("%s: exit code %d and no word", line, code)
	case library.MatchString(said):
		t.Errorf("%s: %s: %q is of a library", line, said, library.FindString(said))
	case !step.MatchString(said):
		t.Errorf("%s: %s: no next step", line, said)
	}
}
