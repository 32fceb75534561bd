package kinship

import (
	"path"
	"slices"
	"strings"
)

// Programs returns these names of a process, each once and without its folder. It leaves
// out empty ones.
func Programs(names ...string) []string {
	var programs []string
	for _, name := range names {
		if name = path.Base(strings.TrimSuffix(name, " (deleted)")); name != "." && name != "/" && !slices.Contains(programs, name) {
			programs = append(programs, name)
		}
	}
	return programs
}

// interpreters lists programs that run other programs, so that their names do not say
// which program it is.
var interpreters = map[string]bool{
	"python": true, "pypy": true, "ipython": true, "sh": true, "bash": true, "dash": true, "zsh": true, "node": true, "java": true,
	"julia": true, "perl": true, "ruby": true, "R": true, "Rscript": true, "lua": true,
}

// isInterpreter reports whether a name is that of an interpreter, in any version:
// python3.12 is python.
func isInterpreter(name string) bool { return interpreters[strings.TrimRight(name, "0123456789.")] }

// isCalled reports whether the process has this name, where _ and - are the same.
func (f *Facts) isCalled(name string) bool {
	return slices.ContainsFunc(f.Programs, func(own string) bool { return sameName(own, name) })
}

func sameName(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if dashed(a[i]) != dashed(b[i]) {
			return false
		}
	}
	return true
}

func dashed(c byte) byte {
	if c == '_' {
		return '-'
	}
	return c
}
