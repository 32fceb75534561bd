package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Control says what controls a process besides the scheduler: who stopped it, who traces
// it, and which job of a shell it belongs to.
type Control struct {
	Stopped bool // by a signal
	Tracer  int  // pid of the attached debugger; 0 if there is none

	// Manager is the process that runs the job of this process at a terminal, usually an
	// interactive shell. It notices when one of its jobs stops, and takes the terminal
	// back. Manager is 0 if there is none: the process has no terminal, or its group is
	// the one of its session.
	Manager    int
	Foreground bool // the job has the terminal
}

// Stopped reports whether a signal has stopped exactly this process.
func (t Table) Stopped(id ID) bool {
	s, err := t.stat(id.PID)
	return err == nil && s.start == id.Start && s.state == 'T'
}

// Control returns what controls exactly this process.
func (t Table) Control(id ID) (Control, error) {
	s, err := t.stat(id.PID)
	if err != nil {
		return Control{}, err
	}
	c := Control{Stopped: s.state == 'T', Tracer: t.tracer(id.PID)}
	if s.terminal != 0 {
		c.Manager, c.Foreground = t.manager(s), s.foreground == s.group
	}
	// Check the identity last, so that all facts are about this process.
	if err := t.lives(id); err != nil {
		return Control{}, err
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

// tracer returns the process that traces a process, or 0 if there is none or the process
// is gone.
func (t Table) tracer(pid int) int {
	text, err := t.text(pid, "status", mostText)
	if err != nil {
		return 0
	}
	tracer, _ := strconv.Atoi(strings.Join(wordsOf(text, "TracerPid"), "")) // 0 for what is not a number
	return tracer
}

// Program returns the path of the program that a process runs. It is empty if the process
// is gone, or if this process may not read it.
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
