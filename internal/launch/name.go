package launch

import (
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"strings"
	"unicode"
)

// anyOption marks an interpreter of which nobody can list the options that take
// a value.
const anyOption = "*"

// interpreters run a program that is named by an argument. With each, the
// options that take the next word.
var interpreters = map[string][]string{
	"python": {"-W", "-X", "--check-hash-based-pycs"}, "pypy": {"-W", "-X"},
	"bash": {"-o", "+o", "-O", "+O", "--rcfile", "--init-file"}, "sh": {"-o", "+o"}, "dash": {"-o", "+o"}, "zsh": {"-o", "+o"},
	"node": {"-r", "--require", "--import"}, "perl": {"-I"}, "ruby": {"-I", "-r"}, "julia": {anyOption}, "Rscript": nil,
	"env": {"-u", "--unset", "-C", "--chdir"}, "nohup": nil, "nice": {"-n"},
	"torchrun": {anyOption}, "accelerate": {anyOption}, "deepspeed": {anyOption}, "uv": {anyOption}, "conda": {anyOption}, "poetry": {anyOption},
}

// programEndings are those of files with programs in them.
var programEndings = []string{".py", ".pyc", ".sh", ".bash", ".jl", ".R", ".r", ".js", ".mjs", ".ts", ".pl", ".rb"}

// NameOf is what a command is remembered under: the program, or for an
// interpreter what it runs, without the folder. "python3 -u src/train.py" is
// train.py, "python -m demo.train" is demo.train. A program that is written out
// in the command gets a name that is made from its text.
func NameOf(command []string) string {
	if len(command) == 0 {
		return ""
	}
	return clipName(nameOf(command[0], command[1:]))
}

func nameOf(program string, arguments []string) string {
	name := path.Base(program)
	if bare, is := interpreter(name); is {
		if runs := programOf(bare, arguments); runs != "" {
			return runs
		}
	}
	return name
}

// interpreter is the name of an interpreter without its version.
func interpreter(name string) (bare string, is bool) {
	bare = strings.TrimRight(path.Base(name), "0123456789.")
	_, is = interpreters[bare]
	return bare, is
}

// programOf is what an interpreter runs: the module after -m, or the first
// argument that is neither an option, nor the value of one, nor a variable.
func programOf(by string, arguments []string) string {
	for i := 0; i < len(arguments); i++ {
		a, next := arguments[i], ""
		if i+1 < len(arguments) {
			next = arguments[i+1]
		}
		_, nested := interpreter(a)
		switch {
		case next != "" && isModule(by, a):
			return next
		case next != "" && isText(by, a):
			return textName(by, next)
		case strings.HasPrefix(a, "-"), strings.HasPrefix(a, "+"):
			if takesNext(by, a, next) {
				i++
			}
		case strings.Contains(a, "="), launches(by) && (a == "run" || a == "launch"):
		case nested:
			return nameOf(a, arguments[i+1:])
		default:
			return path.Base(a)
		}
	}
	return ""
}

func isShell(name string) bool { return strings.HasSuffix(name, "sh") }

// launches reports whether an interpreter is one with options of all kinds.
func launches(by string) bool { return slices.Contains(interpreters[by], anyOption) }

// isModule reports whether an option says that the next word is a module.
func isModule(by, option string) bool {
	return (by == "python" || by == "pypy" || launches(by)) && (option == "-m" || option == "--module")
}

// isText reports whether an option says that the next word is the program
// itself. Shells let several options share a dash.
func isText(by, option string) bool {
	if isShell(by) {
		return strings.HasPrefix(option, "-") && !strings.HasPrefix(option, "--") && strings.HasSuffix(option, "c")
	}
	return option == "-c" || option == "-e"
}

// takesNext reports whether the word after an option is its value. Of an option
// that is not known it is, unless it looks like what is to be run.
func takesNext(by, option, next string) bool {
	if slices.Contains(interpreters[by], option) {
		return true
	}
	_, nested := interpreter(next)
	return launches(by) && !strings.Contains(option, "=") && !strings.HasPrefix(next, "-") && !nested && !isProgramFile(next)
}

func isProgramFile(word string) bool { return slices.Contains(programEndings, path.Ext(word)) }

// textName is what a program is remembered under that is written out in the
// command: the first file with a program that a shell is told to run, or else
// something that is the same for the same text.
func textName(by, text string) string {
	if isShell(by) {
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(";&|()'\"", r) }) {
			if isProgramFile(word) {
				return path.Base(word)
			}
		}
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(text)) // cannot fail
	return fmt.Sprintf("%s-%08x", by, sum.Sum32())
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
