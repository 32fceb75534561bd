package libprobe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// kept lists the files of a cache.
func kept(t *testing.T, folder string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestCache(t *testing.T) {
	env := modules(t, map[string]string{"fine.py": `__version__ = "1"`})
	folder := filepath.Join(t.TempDir(), "deep", "cache")
	p := Prober{Cache: folder}
	probe := func(env []string, libraries ...string) Report {
		t.Helper()
		report, err := p.Probe(t.Context(), python(t), env, libraries)
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	first := probe(env, "fine")
	if first.Cached {
		t.Fatal("the first answer is from the cache")
	}
	again := probe(env, "fine", "fine")
	if !again.Cached {
		t.Error("the same question was asked again")
	}
	if diff := cmp.Diff(first.Libraries, again.Libraries); diff != "" || again.Version != first.Version || again.Interpreter != first.Interpreter {
		t.Errorf("the answer from the cache differs:\n%s", diff)
	}
	if probe(env, "fine", "json").Cached {
		t.Error("other libraries, the same answer")
	}
	for _, name := range variables {
		if strings.HasPrefix(name, "PYTHON") || strings.HasPrefix(name, "LD_") {
			continue // these change what is found, which other tests see
		}
		if probe(append(env, name+"=other"), "fine").Cached {
			t.Errorf("another %s, the same answer", name)
		}
	}
	if !probe(append(env, "HOME=/other"), "fine").Cached {
		t.Error("a variable that does not matter makes a difference")
	}
}

// Something was installed: the folder that it is in has changed.
func TestInstallingMakesAnAnswerOld(t *testing.T) {
	env := modules(t, map[string]string{"fine.py": `__version__ = "1"`})
	p := Prober{Cache: t.TempDir()}
	if _, err := p.Probe(t.Context(), python(t), env, []string{"fine"}); err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(variable(env, "PYTHONPATH"), "fine.py")
	if err := os.WriteFile(library, []byte(`__version__ = "2"`), 0o600); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(filepath.Dir(library), later, later); err != nil {
		t.Fatal(err)
	}
	report, err := p.Probe(t.Context(), python(t), env, []string{"fine"})
	if err != nil || report.Cached || report.Libraries["fine"].Version != "2" {
		t.Errorf("after an update: %+v, %v", report, err)
	}
}

func TestBadAnswersAreNotKept(t *testing.T) {
	env := modules(t, map[string]string{
		"broken.py": `raise ImportError("no")`, "torch.py": fakeTorchCPU, "cupy.py": fakeCupyIll,
		"vanishes.py": `import os; os._exit(3)`,
	})
	p := Prober{Cache: t.TempDir()}
	for _, library := range []string{"absent", "broken", "vanishes", "torch", "cupy"} {
		if _, err := p.Probe(t.Context(), python(t), env, []string{library}); err != nil {
			t.Fatal(err)
		}
		if paths := kept(t, p.Cache); len(paths) > 0 {
			t.Fatalf("the answer about %s is kept: %v", library, paths)
		}
	}
}

func TestUselessCacheFilesAreIgnored(t *testing.T) {
	env := modules(t, map[string]string{"fine.py": `__version__ = "1"`})
	p := Prober{Cache: t.TempDir(), MaxAge: time.Hour}
	probe := func() Report {
		t.Helper()
		report, err := p.Probe(t.Context(), python(t), env, []string{"fine"})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	probe()
	path := kept(t, p.Cache)[0]
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty": "", "rubbish": "\x00\xff", "half": string(whole[:len(whole)/2]), "another key": `{"key": "x", "report": {"libraries": {}}}`,
		"no libraries": strings.Replace(string(whole), `"libraries"`, `"books"`, 1), "huge": strings.Repeat(" ", maxAnswer) + string(whole),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if probe().Cached {
			t.Errorf("a file that is %s was believed", name)
		}
		if !probe().Cached {
			t.Errorf("a file that is %s was not replaced", name)
		}
	}
	for name, shift := range map[string]time.Duration{"too old": -2 * time.Hour, "from the future": time.Hour} {
		when := time.Now().Add(shift)
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
		if probe().Cached {
			t.Errorf("a file that is %s was believed", name)
		}
	}
}

func TestOldFilesArePruned(t *testing.T) {
	env := modules(t, map[string]string{"fine.py": `__version__ = "1"`})
	p := Prober{Cache: t.TempDir()}
	stranger := filepath.Join(p.Cache, "somebody-elses.json")
	old := filepath.Join(p.Cache, "probe-0123.json")
	when := time.Now().Add(-48 * time.Hour)
	for _, path := range []string{stranger, old} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Probe(t.Context(), python(t), env, []string{"fine"}); err != nil {
		t.Fatal(err)
	}
	paths := kept(t, p.Cache)
	if len(paths) != 2 || paths[1] != stranger {
		t.Errorf("left: %v; want the new answer and what is not ours", paths)
	}
}

// A cache that cannot be written costs time, and nothing else.
func TestUnwritableCache(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := Prober{Cache: filepath.Join(file, "cache")}
	for range 2 {
		report, err := p.Probe(t.Context(), python(t), nil, []string{"json"})
		if err != nil || report.Cached {
			t.Errorf("Probe = %+v, %v", report, err)
		}
	}
}
