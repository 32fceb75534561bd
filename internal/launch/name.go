package launch

import (
	"path"
	"strings"
	"unicode"
)

// interpreters run a program that is named by an argument.
var interpreters = []string{"python", "pypy", "bash", "sh", "dash", "zsh", "node", "perl", "ruby", "julia", "Rscript", "torchrun", "accelerate", "uv", "env"}

// NameOf is what a command is remembered under: the program, or for an
// interpreter what it runs, without the folder. "python3 -u src/train.py" is
// train.py, "python -m demo.train" is demo.train.
func NameOf(command []string) string {
	if len(command) == 0 {
		return ""
	}
	name := path.Base(command[0])
	if isInterpreter(name) {
		if program := programOf(name, command[1:]); program != "" {
			name = program
		}
	}
	return clipName(name)
}

func isInterpreter(name string) bool {
	bare := strings.TrimRight(name, "0123456789.")
	for _, known := range interpreters {
		if bare == known {
			return true
		}
	}
	return false
}

// programOf is what an interpreter runs: the module after -m, or the first
// argument that is neither an option, nor a program text, nor a variable.
func programOf(interpreter string, arguments []string) string {
	shell := strings.HasSuffix(interpreter, "sh") // where -e is an option
	for i, a := range arguments {
		switch {
		case a == "-m" && i+1 < len(arguments):
			return arguments[i+1]
		case a == "-c", a == "-e" && !shell:
			return ""
		case strings.HasPrefix(a, "-"), strings.Contains(a, "="), a == "run", a == "launch":
		case isInterpreter(path.Base(a)):
			return programOf(path.Base(a), arguments[i+1:])
		default:
			return path.Base(a)
		}
	}
	return ""
}

// clipName keeps a name to what a lease takes.
func clipName(name string) string {
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name)
	const most = 100
	if runes := []rune(name); len(runes) > most {
		name = string(runes[:most])
	}
	return name
}
