// Package process knows operating-system processes: their identity, their
// ancestors, and when they end.
//
// It never trusts a pid alone, because pids are used again; a process is its
// pid together with its start time.
package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// ErrGone means that the process does not exist, or has ended.
var ErrGone = errors.New("the process is gone")

// ID identifies one process, and never another one that got the same pid later.
type ID = kinship.ID

// userHz is the number of ticks per second in the numbers that Linux shows to programs.
const userHz = 100

// Now returns the time in the unit of ID.Start, or 0 if the kernel does not say.
func Now() uint64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return 0
	}
	return uint64(t.Nano()) / (1e9 / userHz)
}

// Uptime returns how long the machine has run, with the time that it slept, or 0 if the
// kernel does not say.
func Uptime() time.Duration { return time.Duration(Now()) * (time.Second / userHz) }

// Age returns how long a process has run, according to its start time.
func Age(id ID) time.Duration {
	return time.Duration(Now()-min(id.Start, Now())) * (time.Second / userHz)
}

// Table reads processes from a proc file system, and from simulations.
type Table struct {
	root      string
	simulated *simulations // may be nil
	world     World        // nil: this machine
}

// Proc returns the table of this machine.
func Proc() Table { return At("/proc") }

// At returns the table of a proc file system in a folder.
func At(root string) Table { return Table{root: root} }

// Identify returns the process that has a pid now.
func (t Table) Identify(pid int) (ID, error) {
	s, err := t.stat(pid)
	if err != nil {
		return ID{}, err
	}
	return ID{PID: pid, Start: s.start}, nil
}

// Alive reports whether exactly this process still runs. A zombie does not: it holds only
// its exit status.
func (t Table) Alive(id ID) bool { return t.lives(id) == nil }

// Ended reports whether exactly this process has ended. A process that cannot be looked at
// now, as when no file can be opened, is neither Alive nor Ended.
func (t Table) Ended(id ID) bool { return errors.Is(t.lives(id), ErrGone) }

// lives returns nil if exactly this process still runs, and ErrGone if it has ended.
func (t Table) lives(id ID) error {
	s, err := t.stat(id.PID)
	if err == nil && (s.start != id.Start || s.over()) {
		err = fmt.Errorf("process %d: %w", id.PID, ErrGone)
	}
	return err
}

// Parent returns the parent of a process, which may have taken it over; 0 at the root.
func (t Table) Parent(pid int) (int, error) {
	s, err := t.stat(pid)
	return s.parent, err
}

// Ancestry returns a process and its ancestors, nearest first, without the first
// process of the machine, which is an ancestor of all.
func (t Table) Ancestry(id ID) []ID {
	line := []ID{id}
	for len(line) < 64 {
		parent, err := t.Parent(line[len(line)-1].PID)
		if err != nil || parent <= 1 {
			break
		}
		next, err := t.Identify(parent)
		if err != nil {
			break
		}
		line = append(line, next)
	}
	return line
}

// Name returns the short name of a process, or "" if it is gone. A process chooses its
// name itself, so Name replaces what is not safe to show.
func (t Table) Name(pid int) string {
	text, err := t.text(pid, "comm", mostText)
	if err != nil {
		return ""
	}
	return gpu.Printable(strings.TrimSpace(string(text)), 128)
}

// UID returns the effective user of a process, which decides what the process may do.
func (t Table) UID(pid int) (int, error) {
	uids, err := t.UIDs(pid)
	return uids.Effective, err
}

// UIDs returns the user ids of a process. Those of a simulated one are all the same.
func (t Table) UIDs(pid int) (kinship.UIDs, error) {
	if pid > lastPID {
		said := t.simulated.facts(pid)
		if uid, known := said.UID.Get(); known {
			return kinship.UIDs{Real: uid, Effective: uid, Saved: uid}, nil
		}
	}
	text, err := t.text(pid, "status", mostText)
	if err != nil {
		return kinship.UIDs{}, gone(pid, err)
	}
	return parseUIDs(pid, wordsOf(text, "Uid"))
}

// wordsOf returns the words after a key in a status file, or nil.
func wordsOf(status []byte, key string) []string {
	for line := range strings.Lines(string(status)) {
		if name, rest, _ := strings.Cut(line, ":"); name == key {
			return strings.Fields(rest)
		}
	}
	return nil
}

// parseUIDs reads the user ids in a status: real, effective, saved and file system.
func parseUIDs(pid int, fields []string) (u kinship.UIDs, err error) {
	if len(fields) < 3 {
		return u, fmt.Errorf("process %d: its status names %d users", pid, len(fields))
	}
	for i, into := range []*int{&u.Real, &u.Effective, &u.Saved} {
		if *into, err = strconv.Atoi(fields[i]); err != nil {
			return kinship.UIDs{}, fmt.Errorf("process %d: its status names no user: %w", pid, err)
		}
	}
	return u, nil
}

// Groups returns the ids of the groups that a process is in, as the kernel
// counts them: its own group and the supplementary ones. It returns false if the
// process has ended, or does not say.
func (t Table) Groups(id ID) ([]int, bool) {
	if id.PID <= 0 || id.PID > lastPID {
		return nil, false
	}
	text, err := t.text(id.PID, "status", mostText)
	if now, same := t.Identify(id.PID); err != nil || same != nil || now != id {
		return nil, false
	}
	own, others := wordsOf(text, "Gid"), wordsOf(text, "Groups")
	if len(own) < 2 || others == nil {
		return nil, false
	}
	groups := []int{}
	for _, word := range slices.Concat(own[1:2], others) { // of its own, the effective one
		gid, err := strconv.Atoi(word)
		if err != nil {
			return nil, false
		}
		groups = append(groups, gid)
	}
	return groups, true
}

// Boot returns an id that differs for every boot of the machine. It is the one that
// process 1 sees, where that may be looked at: a machine in a container has an id of its
// own, which a service whose view of /proc/sys is another one does not see.
func (t Table) Boot() (string, error) {
	if t.world != nil {
		return t.world.Boot(), nil
	}
	const name = "sys/kernel/random/boot_id"
	text, err := os.ReadFile(t.file(1, "root/proc/"+name))
	if err != nil {
		text, err = os.ReadFile(filepath.Join(t.root, name))
	}
	if err != nil {
		return "", fmt.Errorf("read the boot id: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

type stat struct {
	state      byte
	parent     int
	group      int
	session    int
	terminal   int // number of the device; 0 if there is none
	foreground int // the process group that has the terminal; -1 if there is none
	threads    int // that have not ended, and the first one; 0 where that is not known
	start      uint64
	cpu        uint64 // that it and its threads have computed, in ticks of the clock
	resident   uint64 // pages of memory
	exit       int    // status of a process that has ended; 0 where this process may not inspect it
}

// over reports whether the process has ended. One whose first thread has exited is a zombie
// while others run.
func (s *stat) over() bool { return s.state == 'Z' && s.threads <= 1 || s.state == 'X' }

func (t Table) stat(pid int) (stat, error) {
	if in, start := t.simulated.of(pid); in != nil {
		s := stat{state: 'R', start: start}
		if t.world != nil {
			stopped := false
			if s.parent, stopped = t.world.Look(pid); stopped {
				s.state = 'T'
			}
		}
		return s, nil
	}
	text, err := os.ReadFile(t.file(pid, "stat"))
	if err != nil {
		return stat{}, gone(pid, err)
	}
	s, err := parseStat(text)
	if err != nil {
		return stat{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return s, nil
}

// parseStat reads a line of the form `pid (name) state ppid …`. The name may hold
// anything, so parseStat counts the fields from its last parenthesis on.
func parseStat(text []byte) (stat, error) {
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return stat{}, errors.New("its stat line has no name")
	}
	fields := strings.Fields(string(text[end+1:]))
	const state, parent, computed, threads, start, resident, exit = 0, 1, 11, 17, 19, 21, 49 // fields 3, 4, 14, 20, 22, 24 and 52 of proc(5)
	if len(fields) <= start {
		return stat{}, errors.New("its stat line is too short")
	}
	var s stat
	s.state = fields[state][0]
	for i, into := range []*int{&s.parent, &s.group, &s.session, &s.terminal, &s.foreground} {
		n, err := strconv.Atoi(fields[parent+i])
		if err != nil {
			return stat{}, err
		}
		*into = n
	}
	var err error
	s.start, err = strconv.ParseUint(fields[start], 10, 64)
	s.threads, _ = strconv.Atoi(fields[threads]) // what is not a number counts as nothing
	if len(fields) > resident {
		user, _ := strconv.ParseUint(fields[computed], 10, 62)
		system, _ := strconv.ParseUint(fields[computed+1], 10, 62)
		s.cpu = user + system
		s.resident, _ = strconv.ParseUint(fields[resident], 10, 40)
	}
	if len(fields) > exit {
		s.exit, _ = strconv.Atoi(fields[exit])
	}
	return s, err
}

func gone(pid int, err error) error {
	if errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), "no such process") {
		return fmt.Errorf("process %d: %w", pid, ErrGone)
	}
	return fmt.Errorf("process %d: %w", pid, err)
}

// Family reads all living processes, each with its parent. A process whose
// parent has ended belongs to the process that took it over.
func (t Table) Family() kinship.Family {
	all := kinship.Family{}
	for _, pid := range t.PIDs() {
		if s, err := t.stat(pid); err == nil && !s.over() {
			all[pid] = kinship.Relative{ID: ID{PID: pid, Start: s.start}, Parent: s.parent}
		}
	}
	return all
}

// PIDs returns the pids of all processes.
func (t Table) PIDs() []int {
	if t.world != nil {
		return t.world.PIDs()
	}
	pids, _ := numbers(t.root) // an incomplete list is better than none
	return pids
}

// Threads returns the numbers of the threads of a process.
func (t Table) Threads(pid int) ([]int, error) { return numbers(t.file(pid, "task")) }

// numbers returns the names in a folder that are numbers.
func numbers(folder string) ([]int, error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	var list []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			list = append(list, n)
		}
	}
	return list, err
}
