package jobs

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/berth-gpu/berth/internal/cli/console"
)

// mark begins a line of a file that has flags for berth submit.
const mark = "#BERTH"

// longestScript is how much of a file fits into one argument of a program: Linux takes
// 128 KiB.
const longestScript = 120 << 10

// readFlags sets flags from the lines of a file that begin with #BERTH. Such lines stand
// before the first line that is neither a comment nor empty. A flag that was given already
// keeps its value.
func readFlags(text []byte, flags *pflag.FlagSet) error {
	given := map[string]bool{}
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	number, below := 0, false // below: a command has come
	for line := range bytes.Lines(text) {
		number++
		line := strings.TrimSpace(string(line))
		rest, marked := strings.CutPrefix(line, mark)
		switch {
		case marked && rest != "" && rest[0] != ' ' && rest[0] != '\t': // #BERTHA is a comment
		case marked && below:
			return fmt.Errorf("line %d: %s lines must come before the first command", number, mark)
		case marked:
			if err := setFlags(rest, flags, given); err != nil {
				return fmt.Errorf("line %d: %w", number, err)
			}
		case line != "" && line[0] != '#':
			below = true
		}
	}
	return nil
}

// setFlags sets flags from the text of one line, except those that were given.
func setFlags(text string, flags *pflag.FlagSet, given map[string]bool) error {
	args, err := splitWords(text)
	if err != nil {
		return err
	}
	line := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Name == "help":
		case given[f.Name]:
			ignored := *f
			ignored.Value, ignored.Changed = &unused{f.Value.Type()}, false
			line.AddFlag(&ignored)
		default:
			line.AddFlag(f)
		}
	})
	if err := line.Parse(args); err != nil {
		return console.FlagMistake(line, err)
	}
	if stray := line.Args(); len(stray) > 0 {
		return fmt.Errorf("%q is no flag: %s lines have flags only, and the commands follow below", stray[0], mark)
	}
	return nil
}

// unused is the value of a flag that the command line gives in place of the file.
type unused struct{ kind string }

func (u *unused) Set(string) error { return nil }
func (u *unused) String() string   { return "" }
func (u *unused) Type() string     { return u.kind }

// splitWords splits a line into words as a shell does: blanks between quotes, and after
// a backslash, belong to a word. A # at the beginning of a word begins a comment. Nothing
// is expanded.
func splitWords(text string) (words []string, err error) {
	var word strings.Builder
	within, quote := false, rune(0) // in a word; in quotes
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			if quote == '"' && !strings.ContainsRune("\\\"$`", r) {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			within, escaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			within, quote = true, r
		case r == ' ' || r == '\t':
			if within {
				words = append(words, word.String())
				word.Reset()
				within = false
			}
		case r == '#' && !within:
			return words, nil
		default:
			within = true
			word.WriteRune(r)
		}
	}
	switch {
	case quote != 0:
		return nil, fmt.Errorf("a quote %c has no end", quote)
	case escaped:
		return nil, errors.New("a backslash at the end of the line has nothing after it")
	case within:
		words = append(words, word.String())
	}
	return words, nil
}

// shells are the programs that run a text, which follows -c.
var shells = []string{"sh", "bash", "dash", "zsh", "ksh"}

// scriptCommand returns the command that runs a file with arguments. A script of a shell
// becomes part of the command, so that the job runs it as it was submitted, whatever
// becomes of the file. Any other file runs as it is when the job starts.
func scriptCommand(path string, text []byte, arguments []string) ([]string, error) {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	line, marked := strings.CutPrefix(strings.TrimSpace(string(first)), "#!")
	interpreter := strings.Fields(line)
	switch {
	case bytes.HasPrefix(text, []byte("\x7fELF")):
		return append([]string{path}, arguments...), nil
	case !marked || len(interpreter) == 0:
		return nil, fmt.Errorf("%s does not say what runs it: begin it with a line such as #!/bin/sh, or give a command after --", path)
	}
	program := interpreter[0]
	if filepath.Base(program) == "env" && len(interpreter) > 1 {
		program = interpreter[1]
	}
	if !slices.Contains(shells, filepath.Base(program)) {
		return slices.Concat(interpreter, []string{path}, arguments), nil
	}
	switch {
	case len(text) > longestScript:
		return nil, fmt.Errorf("%s is longer than the %d KiB that a script may have: run a program from it", path, longestScript>>10)
	case bytes.IndexByte(text, 0) >= 0:
		return nil, fmt.Errorf("%s is no text", path)
	}
	return slices.Concat(interpreter, []string{"-c", string(text), path}, arguments), nil
}
