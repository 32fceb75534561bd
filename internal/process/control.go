package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Control is what controls a process besides the scheduler: who stopped it, who
// traces it, and which job of a shell it belongs to.
type Control struct {
	Stopped bool // by a signal
	Tracer  int  // pid of the debugger that it is attached to; 0: none

	// Manager is the process that runs the job that the process belongs to, at a
	// terminal: an interactive shell, as a rule. Such a manager notices that one
	// of its jobs was stopped, and takes the terminal back. It is 0 if there is
	// none: the process has no terminal, or its group is the one of its session.
	Manager    int
	Foreground bool // the job has the terminal
}

// Stopped reports whether a signal has stopped this very process.
func (t Table) Stopped(id ID) bool {
	s, err := t.stat(id.PID)
	return err == nil && s.start == id.Start && s.state == 'T'
}

// Control returns what controls this very process.
func (t Table) Control(id ID) (Control, error) {
	s, err := t.stat(id.PID)
	if err != nil {
		return Control{}, err
	}
	c := Control{Stopped: s.state == 'T', Tracer: t.tracer(id.PID)}
	if s.terminal != 0 {
		c.Manager, c.Foreground = t.manager(s), s.foreground == s.group
	}
	// The identity comes last: then all of it was about this process.
	if !t.Alive(id) {
		return Control{}, fmt.Errorf("process %d: %w", id.PID, ErrGone)
	}
	return c, nil
}

// manager follows the parents of a process until one is outside of its process
// group, and returns that one if it is in the same session: it made the group.
func (t Table) manager(s stat) int {
	const most = 64
	group, session := s.group, s.session
	for range most {
		parent, err := t.stat(s.parent)
		switch {
		case err != nil || parent.session != session:
			return 0
		case parent.group != group:
			return s.parent
		}
		s = parent
	}
	return 0
}

// tracer returns the process that a process is attached to; 0: none, or it is
// gone.
func (t Table) tracer(pid int) int {
	text, err := os.ReadFile(t.file(pid, "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "TracerPid:"); found {
			tracer, _ := strconv.Atoi(strings.TrimSpace(rest)) // what is no number is nobody
			return tracer
		}
	}
	return 0
}

// Program returns the path of the program that a process runs; empty if it is
// gone, or if this process may not know.
func (t Table) Program(pid int) string {
	path, err := os.Readlink(t.file(pid, "exe"))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(path, " (deleted)")
}

// ProgramOwner returns the owner of the file that a process runs, and whether
// other users can change the file.
func (t Table) ProgramOwner(pid int) (uid int, changeable bool, err error) {
	var about unix.Stat_t
	if err := unix.Stat(t.file(pid, "exe"), &about); err != nil {
		return 0, false, fmt.Errorf("find the program of process %d: %w", pid, err)
	}
	return int(about.Uid), about.Mode&0o022 != 0, nil
}
