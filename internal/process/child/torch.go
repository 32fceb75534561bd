package child

import (
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Torch returns the version of PyTorch that a program would import in an environment, or ""
// if there is none. It looks into the folders of the program, of the environment, and of the
// user.
func Torch(program string, environ []string) string {
	variables := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if _, twice := variables[name]; !twice { // the first one counts, as for getenv
			variables[name] = value
		}
	}
	version := torchOf(program, variables)
	for _, prefix := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if version == "" && variables[prefix] != "" {
			version = torchBelow(variables[prefix])
		}
	}
	if version != "" {
		return version
	}
	if python, err := Program("python3", PathOf(environ)); err == nil {
		version = torchOf(python, variables)
	}
	if home := variables["HOME"]; version == "" && home != "" {
		version = torchBelow(home + "/.local")
	}
	return version
}

// torchOf looks for PyTorch where a program lies, and where it leads to as a link or as one
// of pyenv's shims. The python of a virtual environment is a link too, but the packages are
// those of the environment.
func torchOf(program string, variables map[string]string) string {
	path := program
	for range 16 { // links may lead in a circle
		prefix := filepath.Join(path, "../..")
		if version := torchBelow(prefix); version != "" {
			return version
		}
		target, err := os.Readlink(path)
		if _, isVenv := os.Stat(prefix + "/pyvenv.cfg"); err != nil || isVenv == nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	root, _, shim := strings.Cut(program, "/shims/")
	if !shim {
		return ""
	}
	chosen, _, _ := strings.Cut(variables["PYENV_VERSION"], ":")
	if chosen == "" {
		chosen = chosenHere()
	}
	if chosen == "" {
		chosen = firstWord(root + "/version")
	}
	if chosen == "" {
		return ""
	}
	return torchBelow(root + "/versions/" + chosen)
}

// chosenHere returns which version pyenv uses in this folder: the nearest .python-version
// says so, here or further up. It returns "" if there is none.
func chosenHere() string {
	folder, err := os.Getwd()
	for ; err == nil; folder = filepath.Dir(folder) {
		if version := firstWord(folder + "/.python-version"); version != "" || folder == "/" {
			return version
		}
	}
	return ""
}

// torchBelow returns the version of PyTorch in the packages below a prefix such as /usr or a
// virtual environment.
func torchBelow(prefix string) string {
	pythons, _ := os.ReadDir(prefix + "/lib")
	for _, python := range pythons {
		if !strings.HasPrefix(python.Name(), "python3") {
			continue
		}
		for _, packages := range []string{"site-packages", "dist-packages"} {
			text := beginning(filepath.Join(prefix, "lib", python.Name(), packages, "torch/version.py"))
			if _, after, found := strings.Cut(text, "__version__ = '"); found {
				return after[:strings.IndexAny(after+"'", "'\n")]
			}
		}
	}
	return ""
}

// firstWord returns the first word of a file, "" if there is none.
func firstWord(path string) string {
	for word := range strings.FieldsSeq(beginning(path)) {
		return word
	}
	return ""
}

// beginning returns the first bytes of a file, "" if it cannot be read.
func beginning(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	text := make([]byte, 512)
	n, _ := io.ReadFull(file, text)
	return string(text[:n])
}
