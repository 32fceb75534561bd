package libprobe

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/berth-gpu/berth/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// python is the interpreter of this machine, without the wrappers that some
// machines put in front of it.
func python(t *testing.T) string {
	t.Helper()
	path, err := realPython()
	if err != nil {
		t.Fatalf("these tests start Python 3: %v", err)
	}
	return path
}

var realPython = sync.OnceValues(func() (string, error) {
	path, err := exec.Command("python3", "-c", "import sys; sys.stdout.write(sys.executable)").Output()
	return string(path), err
})

// modules writes Python modules, and returns an environment in which they are
// found.
func modules(t *testing.T, sources map[string]string) []string {
	t.Helper()
	folder := t.TempDir()
	for name, source := range sources {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return append(os.Environ(), "PYTHONPATH="+folder, "PYTHONDONTWRITEBYTECODE=") // as for most people
}

// The modules of one environment: nearly all are bad, and none hides another.
var badCompany = map[string]string{
	"fine.py":            `__version__ = "1.2.3"`,
	"silent.py":          ``,
	"noisy.py":           `import sys; print('{"status": "missing"}' * 1000); sys.stderr.write("rubbish\n" * 5000); __version__ = "0.1"`,
	"segfault.py":        `import os, signal, sys; sys.stderr.write("about to fall\n"); sys.stderr.flush(); os.kill(os.getpid(), signal.SIGSEGV)`,
	"exits.py":           `import sys; sys.exit("no licence")`,
	"vanishes.py":        `import os; os._exit(3)`,
	"quits.py":           `import os; os._exit(0)`,
	"broken.py":          `raise ImportError("libfoo.so.3: cannot open\nshared object file")`,
	"needy.py":           `import not_there`,
	"strange.py":         `__version__ = 7`,
	"packed/__init__.py": ``,
	"packed/inside.py":   `__version__ = "9"`,
	"forger.py":          "import sys\nopen(sys.argv[1], 'w').write('{\"status\": ')\nimport os; os._exit(0)",
	"liar.py":            "import sys\nopen(sys.argv[1], 'w').write('{\"status\": \"great\"}')\nimport os; os._exit(0)",
}

func TestProbe(t *testing.T) {
	ok := func(version string) api.Library {
		return api.Library{Status: api.LibraryOK, Version: version}
	}
	broken := func(reason string) api.Library {
		return api.Library{Status: api.LibraryBroken, Reason: reason}
	}
	want := map[string]api.Library{
		"fine":          ok("1.2.3"),
		"silent":        ok(""),
		"noisy":         ok("0.1"),
		"strange":       ok(""),
		"packed.inside": ok("9"),
		"segfault":      broken("it crashed: killed by SIGSEGV; its last words: about to fall"),
		"exits":         broken("SystemExit: no licence"),
		"vanishes":      broken("it gave no answer: it ended with status 3"),
		"quits":         broken("it gave no answer: it ended without one"),
		"broken":        broken("ImportError: libfoo.so.3: cannot open shared object file"),
		"needy":         broken("ModuleNotFoundError: No module named 'not_there'"),
		"forger":        broken("it gave no answer: its answer is not valid (unexpected end of JSON input)"),
		"liar":          broken(`it gave no answer: "great" is no status`),
		"absent":        {Status: api.LibraryMissing, Reason: "ModuleNotFoundError: No module named 'absent'"},
		"absent.inside": {Status: api.LibraryMissing, Reason: "ModuleNotFoundError: No module named 'absent'"},
	}
	names := []string{"fine"} // twice: it is asked once
	for name := range want {
		names = append(names, name)
	}
	report, err := Prober{}.Probe(t.Context(), python(t), modules(t, badCompany), names)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, report.Libraries); diff != "" {
		t.Error(diff)
	}
	if !strings.HasPrefix(report.Version, "3.") || report.Interpreter != python(t) || report.Cached {
		t.Errorf("report = %+v", report)
	}
	for name, cause := range map[string]error{
		"segfault": ErrCrashed, "vanishes": ErrNoAnswer, "quits": ErrNoAnswer, "forger": ErrNoAnswer, "liar": ErrNoAnswer,
	} {
		if !errors.Is(report.Failed[name], cause) {
			t.Errorf("%s failed with %v, want %v", name, report.Failed[name], cause)
		}
		delete(report.Failed, name)
	}
	if len(report.Failed) > 0 {
		t.Errorf("failed too: %v", report.Failed)
	}
}

// A library that hangs is killed at the limit with everything it started.
func TestHangingLibrary(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "alive")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	// The grandchild inherits the pipe, so the pipe ends when both are gone.
	env := append(modules(t, map[string]string{
		"hangs.py": `
import os, subprocess, time
alive = os.open(os.environ["ALIVE"], os.O_WRONLY)
subprocess.Popen(["sleep", "1000"], pass_fds=[alive])
os.write(alive, b"x")
time.sleep(1000)
`,
		"fine.py": `__version__ = "1"`,
	}), "ALIVE="+pipe)

	over, gone := make(chan time.Time), make(chan error, 1)
	go func() {
		file, err := os.Open(pipe) // returns when the library has opened it too
		if err != nil {
			gone <- err
			return
		}
		_, err = io.ReadFull(file, make([]byte, 1))
		close(over)
		if err == nil {
			_, err = io.Copy(io.Discard, file)
		}
		gone <- errors.Join(err, file.Close())
	}()
	p := Prober{expiry: func(library string) <-chan time.Time {
		if library == "hangs" {
			return over
		}
		return nil
	}}
	report, err := p.Probe(t.Context(), python(t), env, []string{"hangs", "fine"})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-gone; err != nil {
		t.Errorf("the pipe: %v", err)
	}
	if !errors.Is(report.Failed["hangs"], ErrTimeLimit) {
		t.Errorf("it failed with %v, want %v", report.Failed["hangs"], ErrTimeLimit)
	}
	want := api.Library{Status: api.LibraryBroken, Reason: "it did not end in time: the limit is 1m0s"}
	if diff := cmp.Diff(want, report.Libraries["hangs"]); diff != "" {
		t.Error(diff)
	}
	if report.Libraries["fine"].Status != api.LibraryOK {
		t.Errorf("the other library: %+v", report.Libraries["fine"])
	}
}

func TestInterpreters(t *testing.T) {
	folder := t.TempDir()
	program := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name, interpreter string
		want              error
		says              string
	}{
		{"missing", "/nowhere/python3", ErrNoInterpreter, "does not exist"},
		{"missing on the path", "python-of-nowhere", ErrNoInterpreter, "it is in no folder of PATH"},
		{"empty", "", ErrNoInterpreter, "its name is empty"},
		{"a folder", folder, ErrNoInterpreter, "is a folder"},
		{"not executable", program("text", "#!/bin/sh\n", 0o600), ErrNoInterpreter, "is not executable"},
		{"no program", program("noise", "\x00\x01\x02", 0o700), ErrNoInterpreter, "exec format error"},
		{"silent", program("silent", "#!/bin/sh\nexit 0\n", 0o700), ErrNoAnswer, "it ended without one"},
		{"failing", program("failing", "#!/bin/sh\necho no python here >&2\nexit 7\n", 0o700), ErrNoAnswer, "it ended with status 7; its last words: no python here"},
		{"rubbish", program("rubbish", "#!/bin/sh\necho rubbish >\"$3\"\n", 0o700), ErrNoAnswer, "rubbish"},
		{"another version", program("old", "#!/bin/sh\necho '{\"version\": \"2.7.18\"}' >\"$3\"\n", 0o700), ErrNoAnswer, "it is Python 2.7.18"},
		{"crashing", program("crashing", "#!/bin/sh\nkill -BUS $$\n", 0o700), ErrCrashed, "killed by SIGBUS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Prober{}.Probe(t.Context(), c.interpreter, nil, []string{"fine"})
			if e := (*Error)(nil); !errors.As(err, &e) || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("err = %v, want %v with %q", err, c.want, c.says)
			}
		})
	}
}

func TestHangingInterpreter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nsleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	over := make(chan time.Time)
	close(over)
	p := Prober{expiry: func(string) <-chan time.Time { return over }}
	if _, err := p.Probe(t.Context(), path, nil, nil); !errors.Is(err, ErrTimeLimit) {
		t.Errorf("err = %v, want %v", err, ErrTimeLimit)
	}
}

func TestRealTimerEndsAChild(t *testing.T) {
	path := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nsleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := (Prober{Limit: time.Millisecond}).Probe(t.Context(), path, nil, nil); !errors.Is(err, ErrTimeLimit) {
		t.Errorf("err = %v, want %v", err, ErrTimeLimit)
	}
}

func TestCancelledProbe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Prober{}).Probe(ctx, python(t), nil, []string{"json"}); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want %v", err, context.Canceled)
	}
}

// The interpreter is looked for on the PATH that it will have.
func TestInterpreterIsFoundOnTheGivenPath(t *testing.T) {
	folder := t.TempDir()
	if err := os.Symlink(python(t), filepath.Join(folder, "my-python")); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "PATH=relative:"+folder+":"+os.Getenv("PATH"))
	report, err := Prober{}.Probe(t.Context(), "my-python", env, []string{"json"})
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(folder, "my-python"); report.Interpreter != want {
		t.Errorf("interpreter = %s, want %s", report.Interpreter, want)
	}
	if report.Libraries["json"].Status != api.LibraryOK {
		t.Errorf("json: %+v", report.Libraries["json"])
	}
}
