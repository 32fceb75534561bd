package launch

import (
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"strings"
	"unicode"
)

// runner describes a program that runs another one, which an argument names.
type runner struct {
	command bool     // it runs a command with arguments, not a file that it reads itself
	values  string   // short options that take a value: the rest of the word, or else the next one
	long    []string // long options that take the next word
	module  bool     // -m takes the name of the program
	text    string   // short options that take the text of the program
	before  int      // words that come before the program, such as the time limit of timeout
	verb    string   // the word that makes it run something; empty if it always does

	// guess is for a runner with options of all kinds: the word after an option is its
	// value, unless it looks like the program to run.
	guess bool
}

// runners lists the runners, without their versions.
var runners = map[string]runner{
	"python": {values: "WX", long: []string{"--check-hash-based-pycs"}, module: true, text: "c"},
	"pypy":   {values: "WX", module: true, text: "c"},
	"bash":   {values: "oO", long: []string{"--rcfile", "--init-file"}, text: "c"},
	"sh":     {values: "o", text: "c"}, "dash": {values: "o", text: "c"}, "zsh": {values: "o", text: "c"},
	"node":    {values: "rC", long: []string{"--require", "--import", "--env-file"}, text: "e"},
	"perl":    {values: "IMm", text: "eE"},
	"ruby":    {values: "IrC", text: "e"},
	"julia":   {guess: true, text: "eE"},
	"Rscript": {text: "e"},

	"env":     {command: true, values: "uCS", long: []string{"--unset", "--chdir"}},
	"nohup":   {command: true},
	"setsid":  {command: true},
	"nice":    {command: true, values: "n", long: []string{"--adjustment"}},
	"ionice":  {command: true, values: "cnpPu", long: []string{"--class", "--classdata"}},
	"time":    {command: true, values: "fo", long: []string{"--format", "--output"}},
	"timeout": {command: true, values: "ks", long: []string{"--kill-after", "--signal"}, before: 1},
	"taskset": {command: true, before: 1},
	"chrt":    {command: true, values: "TPD", before: 1},
	"stdbuf":  {command: true, values: "ioe", long: []string{"--input", "--output", "--error"}},
	"numactl": {command: true, values: "iwpPmNC", long: []string{
		"--interleave", "--weighted-interleave", "--preferred", "--preferred-many", "--membind", "--cpunodebind", "--physcpubind",
	}},
	"mpirun": {command: true, guess: true}, "mpiexec": {command: true, guess: true},

	"torchrun":   {guess: true, module: true},
	"deepspeed":  {guess: true, module: true},
	"accelerate": {guess: true, module: true, verb: "launch"},
	"conda":      {command: true, verb: "run", values: "np", long: []string{"--name", "--prefix", "--cwd"}},
	"poetry":     {command: true, verb: "run", values: "CP", long: []string{"--directory", "--project"}},
	"uv": {command: true, verb: "run", module: true, values: "pwifPC", long: []string{
		"--python", "--with", "--with-editable", "--with-requirements", "--extra", "--no-extra", "--group", "--no-group", "--only-group",
		"--package", "--project", "--directory", "--env-file", "--index", "--default-index", "--index-url", "--extra-index-url", "--find-links",
		"--index-strategy", "--keyring-provider", "--upgrade-package", "--reinstall-package", "--refresh-package", "--resolution",
		"--prerelease", "--fork-strategy", "--exclude-newer", "--link-mode", "--config-setting", "--config-file", "--cache-dir",
		"--no-build-package", "--no-binary-package", "--python-platform", "--python-preference", "--allow-insecure-host", "--color",
	}},
}

// launchers maps modules that run another program to their names as commands.
var launchers = map[string]string{
	"torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun",
	"accelerate.commands.launch": "torchrun", "deepspeed.launcher.runner": "deepspeed",
}

// programEndings lists the endings of program files.
var programEndings = []string{".py", ".pyc", ".sh", ".bash", ".jl", ".R", ".r", ".js", ".mjs", ".ts", ".pl", ".rb"}

// NameOf returns the name under which berth remembers a command: the program or, for a
// program that runs another one, that other one, without the folder. "python3 -u
// src/train.py" is train.py, and so is "timeout 5 python train.py"; "python -m
// demo.train" is demo.train. For a program written out in the command, NameOf makes a
// name from its text.
func NameOf(command []string) string {
	if len(command) == 0 {
		return ""
	}
	return clipName(nameOf(command[0], command[1:]))
}

func nameOf(program string, arguments []string) string {
	name := path.Base(program)
	if by, is := runnerOf(name); is {
		if runs := runners[by].runs(by, arguments); runs != "" {
			return runs
		}
	}
	return name
}

// runnerOf returns the name of a runner without its version.
func runnerOf(program string) (bare string, is bool) {
	bare = strings.TrimRight(path.Base(program), "0123456789.")
	_, is = runners[bare]
	return bare, is
}

// runs returns the name of the program that a runner runs, or "" if it runs none.
func (r runner) runs(by string, arguments []string) string {
	before, verb := r.before, r.verb
	for i := 0; i < len(arguments); i++ {
		word, rest := arguments[i], arguments[i+1:]
		switch {
		case word == "-": // the program comes through a pipe
			return ""
		case word == "--":
			continue
		case isOption(by, word):
			letter, value, takes := r.option(by, word, rest)
			switch {
			case letter == 'm' && r.module && value != "":
				return moduleName(value, rest[min(takes, len(rest)):])
			case letter != 0 && strings.ContainsRune(r.text, letter) && value != "":
				return textName(by, value)
			}
			i += takes
		case by == "env" && strings.Contains(word, "="): // a variable
		case word == verb:
			verb = ""
		case before > 0:
			before--
		case r.command:
			return nameOf(word, rest)
		default:
			return path.Base(word)
		}
	}
	return ""
}

func isShell(name string) bool { return strings.HasSuffix(name, "sh") }

func isOption(by, word string) bool {
	return strings.HasPrefix(word, "-") || isShell(by) && strings.HasPrefix(word, "+")
}

// option reads an option: the letter of a short one that takes a value, its value, and
// the number of words after it that belong to it. Short options may share a dash, as in
// -uc.
func (r runner) option(by, word string, rest []string) (letter rune, value string, takes int) {
	next := ""
	if len(rest) > 0 {
		next = rest[0]
	}
	if strings.HasPrefix(word, "--") {
		switch {
		case word == "--module" && r.module:
			return 'm', next, 1
		case slices.Contains(r.long, word), r.guesses(word, next):
			return 0, "", 1
		}
		return 0, "", 0
	}
	valued := r.values + r.text
	if r.module {
		valued += "m"
	}
	for at, letter := range word[1:] {
		if !strings.ContainsRune(valued, letter) || r.guess && at > 0 {
			continue
		}
		if attached := word[1+at+len(string(letter)):]; attached != "" && !isShell(by) {
			return letter, attached, 0
		}
		return letter, next, 1
	}
	if r.guesses(word, next) {
		return 0, "", 1
	}
	return 0, "", 0
}

// guesses reports whether to take the word after an unknown option for its value.
func (r runner) guesses(option, next string) bool {
	_, runs := runnerOf(next)
	return r.guess && !strings.Contains(option, "=") && !strings.HasPrefix(next, "-") && !runs && !isProgramFile(next)
}

// moduleName returns the name of a module, or of the program that it runs.
func moduleName(module string, arguments []string) string {
	if by := launchers[module]; by != "" {
		if runs := runners[by].runs(by, arguments); runs != "" {
			return runs
		}
	}
	return module
}

func isProgramFile(word string) bool { return slices.Contains(programEndings, path.Ext(word)) }

// textName returns a name for a program written out in the command: the first
// program file that a shell runs, or else a hash of the text.
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

// clipName cuts a name to the length that a lease takes.
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
