package kin

import (
	"path"
	"slices"
	"strings"
)

// Programs returns the names that a process goes by: its own name (comm), and
// the file names of its executable and of the first word of its command. If an
// interpreter runs, the script or the module is a name too; a script has its
// name with and without the extension.
func Programs(comm, executable string, command []string) []string {
	var names []string
	add := func(name string) {
		if name = path.Base(name); name != "." && name != "/" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	add(comm)
	add(strings.TrimSuffix(executable, " (deleted)"))
	if len(command) == 0 {
		return names
	}
	add(command[0])
	if slices.ContainsFunc(names, isInterpreter) {
		if script := script(command[1:]); script != "" {
			add(script)
			add(strings.TrimSuffix(script, path.Ext(script)))
		}
	}
	return names
}

// script returns the script or the module that an interpreter runs with these
// arguments; empty if that cannot be told.
func script(arguments []string) string {
	for i := 0; i < len(arguments); i++ {
		switch arg := arguments[i]; {
		case arg == "-m" || arg == "-jar":
			if i+1 < len(arguments) {
				return arguments[i+1]
			}
			return ""
		case arg == "-c" || arg == "-e" || arg == "-":
			return ""
		case arg == "-W" || arg == "-X": // of Python; their value follows
			i++
		case strings.HasPrefix(arg, "-"):
		default:
			return arg
		}
	}
	return ""
}

// interpreters are programs that run other programs, so that their names do not
// tell which program it is.
var interpreters = map[string]bool{
	"python": true, "pypy": true, "ipython": true, "sh": true, "bash": true, "dash": true, "zsh": true, "node": true, "java": true,
	"julia": true, "perl": true, "ruby": true, "R": true, "Rscript": true, "lua": true,
}

// isInterpreter reports whether a name is that of an interpreter, of whichever
// version: python3.12 is python.
func isInterpreter(name string) bool { return interpreters[strings.TrimRight(name, "0123456789.")] }

// isCalled reports whether the process goes by a name, where _ and - are the
// same.
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
