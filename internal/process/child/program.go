package child

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// The exit codes of a shell for a command that it cannot run.
const (
	ExitNotExecutable = 126
	ExitNotFound      = 127
)

// ProgramError says why a command cannot be run.
type ProgramError struct {
	Name   string
	Reason string
	Exit   int // the exit status of a shell in this case
}

func (e *ProgramError) Error() string { return fmt.Sprintf("run %s: %s", e.Name, e.Reason) }

// usualPath is where a shell looks for commands if there is no PATH.
const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// PathOf returns the search path for commands in this environment.
func PathOf(environ []string) string {
	for _, entry := range environ {
		if path, is := strings.CutPrefix(entry, "PATH="); is {
			return path
		}
	}
	return usualPath
}

// Program returns the file that a command would run, as a shell finds it: a name with a
// slash is a path, and any other name is searched for in the folders of path. Its error
// is a *ProgramError.
func Program(name, path string) (string, error) {
	if name == "" {
		return "", &ProgramError{`""`, "there is no name", ExitNotFound}
	}
	if strings.Contains(name, "/") {
		if reason, exit := unfit(name); reason != "" {
			return "", &ProgramError{name, reason, exit}
		}
		return name, nil
	}
	refused := &ProgramError{name, "there is no such command in the folders of PATH", ExitNotFound}
	if Quoted(name, path) {
		refused.Reason += ": write it without quotes, as in -- " + name
	}
	for dir := range strings.SplitSeq(path, ":") {
		file := cmp.Or(dir, ".") + "/" + name
		reason, exit := unfit(file)
		if reason == "" {
			return file, nil
		}
		if exit == ExitNotExecutable && refused.Exit != ExitNotExecutable {
			refused = &ProgramError{file, reason, exit} // report the first match
		}
	}
	return "", refused
}

// Quoted reports whether a name looks like a command with its arguments that somebody put
// in quotes: its first word is a program, and the whole is not.
func Quoted(name, path string) bool {
	first, _, several := strings.Cut(name, " ")
	if !several || first == "" {
		return false
	}
	_, err := Program(first, path)
	return err == nil
}

// unfit returns why a file cannot be run, or "" if it can.
func unfit(file string) (reason string, exit int) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return "there is no such file", ExitNotFound
	case err != nil:
		return rootOf(err).Error(), ExitNotExecutable
	case info.IsDir():
		return "it is a folder", ExitNotExecutable
	case syscall.Access(file, accessExecute) != nil:
		return "it is not executable; chmod +x makes it so", ExitNotExecutable
	}
	return "", 0
}

const accessExecute = 1 // X_OK

func rootOf(err error) error {
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}
