package child

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestProgram(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	for path, mode := range map[string]os.FileMode{
		first + "/text": 0o644, second + "/tool": 0o755, second + "/text": 0o755, first + "/only": 0o644,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	path := first + ":" + second + ":/nothing"
	for name, test := range map[string]struct {
		file string
		exit int
	}{
		"tool":            {second + "/tool", 0},
		"text":            {second + "/text", 0}, // the first one cannot be run
		"only":            {"", ExitNotExecutable},
		"missing":         {"", ExitNotFound},
		"":                {"", ExitNotFound},
		second + "/tool":  {second + "/tool", 0},
		first + "/only":   {"", ExitNotExecutable},
		first:             {"", ExitNotExecutable},
		dir + "/missing":  {"", ExitNotFound},
		first + "/only/x": {"", ExitNotFound}, // a file taken for a folder
	} {
		file, err := Program(name, path)
		exit := 0
		if refused := (*ProgramError)(nil); errors.As(err, &refused) {
			exit = refused.Exit
		}
		if file != test.file || exit != test.exit {
			t.Errorf("%q: found %q with %v, want %q with exit code %d", name, file, err, test.file, test.exit)
		}
	}
}

func TestPathOf(t *testing.T) {
	for want, environ := range map[string][]string{
		"/a:/b": {"X=y", "PATH=/a:/b", "PATH=/c"}, "": {"PATH="}, usualPath: {"MYPATH=/a"},
	} {
		if got := PathOf(environ); got != want {
			t.Errorf("with %q commands are in %q, want %q", environ, got, want)
		}
	}
}
