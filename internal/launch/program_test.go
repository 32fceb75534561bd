package launch

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

func TestNameOf(t *testing.T) {
	for want, command := range map[string][]string{
		"true":        {"/bin/true"},
		"train.py":    {"python3.12", "-u", "src/train.py", "--epochs", "3"},
		"demo.train":  {"/opt/venv/bin/python", "-m", "demo.train", "x"},
		"python":      {"python", "-c", "import torch"},
		"bash":        {"bash"},
		"run.sh":      {"bash", "-e", "./run.sh"},
		"serve.py":    {"env", "A=b", "python", "serve.py"},
		"fit.py":      {"torchrun", "--nproc-per-node=2", "fit.py"},
		"app.py":      {"uv", "run", "app.py"},
		"my ? prog":   {"/opt/my \x07 prog"},
		"pythonic":    {"pythonic", "x.py"},
		"":            nil,
		"julia1.jl":   {"julia", "julia1.jl"},
		"nvidia-smi":  {"nvidia-smi", "-l"},
		"python-tool": {"/usr/bin/python-tool"},
	} {
		if got := NameOf(command); got != want {
			t.Errorf("%q is called %q, want %q", command, got, want)
		}
	}
}
