package child

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// install puts a PyTorch of this version below a prefix.
func install(t *testing.T, prefix, packages, version string) {
	t.Helper()
	dir := filepath.Join(prefix, packages, "torch")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text := "from typing import Optional\n\n__all__ = ['__version__']\n__version__ = '" + version + "'\ndebug = False\n"
	if err := os.WriteFile(filepath.Join(dir, "version.py"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func program(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTorchIsTheOneThatWouldBeImported(t *testing.T) {
	root := t.TempDir()
	own, venv, conda, system, home := root+"/own", root+"/venv", root+"/conda", root+"/system", root+"/home"
	install(t, own, "lib/python3.12/site-packages", "2.12.0a0+git1234")
	install(t, venv, "lib/python3.11/site-packages", "2.10.1+cu128")
	install(t, conda, "lib/python3.10/site-packages", "2.4.1")
	install(t, system, "lib/python3/dist-packages", "1.13.1")
	install(t, home+"/.local", "lib/python3.9/site-packages", "2.0.0")
	train := program(t, own+"/bin/train")
	plain := program(t, root+"/plain/bin/true")
	program(t, system+"/bin/python3")

	for name, test := range map[string]struct {
		program                 string
		venv, conda, path, home string
		want                    string
	}{
		"beside the program":                {train, venv, conda, system + "/bin", home, "2.12.0a0+git1234"},
		"of the active virtual environment": {plain, venv, conda, system + "/bin", home, "2.10.1+cu128"},
		"of the active conda":               {plain, "", conda, system + "/bin", home, "2.4.1"},
		"of the python in PATH":             {plain, "", "", "/nothing:" + system + "/bin", home, "1.13.1"},
		"of the user":                       {plain, "", "", "/nothing", home, "2.0.0"},
		"none":                              {plain, "", "", "/nothing", "/nothing", ""},
	} {
		t.Run(name, func(t *testing.T) {
			environ := []string{"VIRTUAL_ENV=" + test.venv, "CONDA_PREFIX=" + test.conda, "PATH=" + test.path, "HOME=" + test.home, "HOME=" + own}
			if got := Torch(test.program, environ); got != test.want {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}

// link makes a link, and the folder that it lies in.
func link(t *testing.T, target, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTorchBehindLinksAndShims(t *testing.T) {
	root := t.TempDir()
	packages := "lib/python3.12/site-packages"
	install(t, root+"/system", "lib/python3/dist-packages", "1.13.1")
	install(t, root+"/venv", packages, "2.4.1")
	install(t, root+"/pyenv/versions/3.12.1", packages, "2.9.0")
	install(t, root+"/pyenv/versions/3.11.2", packages, "2.8.0")
	install(t, root+"/pyenv/versions/3.10.3", packages, "2.7.0")
	write(t, root+"/pyenv/version", "3.12.1\nsystem\n")
	write(t, root+"/project/.python-version", "3.11.2\n")
	if err := os.MkdirAll(root+"/project/src/deep", 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, root+"/bare/pyvenv.cfg", "home = "+root+"/system/bin\n")
	python := program(t, root+"/system/bin/python3")
	train := program(t, root+"/venv/bin/train")
	shim := program(t, root+"/pyenv/shims/python")
	here := link(t, train, root+"/home/bin/here")
	for name, test := range map[string]struct{ program, folder, chosen, want string }{
		"a link to a program":                  {here, root, "", "2.4.1"},
		"a link to a link, by a relative path": {link(t, "../../home/bin/here", root+"/other/bin/train"), root, "", "2.4.1"},
		"the python of a virtual environment":  {link(t, train, root+"/bare/bin/python"), root, "", ""},
		"a link to itself":                     {link(t, "loop", root+"/x/bin/loop"), root, "", ""},
		"the python of the system":             {python, root, "", "1.13.1"},
		"a shim":                               {shim, root, "", "2.9.0"},
		"a shim, in a folder with its version": {shim, root + "/project", "", "2.8.0"},
		"a shim, below a folder with its own":  {shim, root + "/project/src/deep", "", "2.8.0"},
		"a shim, in a shell with its version":  {shim, root + "/project", "3.10.3", "2.7.0"},
		"a shim of a version that is not here": {shim, root + "/project", "2.7", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(test.folder)
			if got := Torch(test.program, []string{"PATH=/nothing", "HOME=/nothing", "PYENV_VERSION=" + test.chosen}); got != test.want {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}

// A version that is not written as it should be, and one without an end, do no harm.
func TestTorchWithoutAVersion(t *testing.T) {
	root := t.TempDir()
	environ := []string{"VIRTUAL_ENV=" + root, "PATH=/nothing", "HOME=/nothing"}
	install(t, root, "lib/python3.12/site-packages", "")
	for text, want := range map[string]string{
		"":                            "",
		"version = 3":                 "",
		"__version__ = '":             "",
		"__version__ = '2.9":          "2.9",
		"__version__ = '2.9\nx = 'y'": "2.9",
		strings.Repeat("#", 600) + "\n__version__ = '2.9'": "", // far behind where it stands
	} {
		write(t, root+"/lib/python3.12/site-packages/torch/version.py", text)
		if got := Torch("/nothing/bin/true", environ); got != want {
			t.Errorf("with %q it is %q, want %q", text, got, want)
		}
	}
}
