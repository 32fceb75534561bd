package ledger

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
	"github.com/berth-gpu/berth/internal/process/launch"
)

// ErrNoHolder refuses a process that must not hold a lease: ending a lease may
// end its processes, and with this one the daemon.
var ErrNoHolder = errors.New("the process is the daemon, or one that the daemon descends from")

// census reads the processes of the machine: their identities, their users and
// their ancestors. Package kinship decides what follows from that.
type census struct {
	process.Table
	names Names // may be nil
	boot  string

	mu     sync.Mutex // guards memory; nobody holds it while a process is read
	memory kinship.Memory
}

// unlocked reads processes for memory without its lock: a process can block that.
type unlocked struct{ of *census }

func (u unlocked) Ancestry(id process.ID) []process.ID {
	u.of.mu.Unlock()
	defer u.of.mu.Lock()
	return u.of.Ancestry(id)
}

func (u unlocked) Facts(id process.ID) kinship.Facts {
	u.of.mu.Unlock()
	defer u.of.mu.Lock()
	return u.of.Facts(id)
}

// usedBy is the memory that one process uses on a device.
type usedBy struct {
	kinship.Process
	memory gpu.MiB
	name   string
	kind   gpu.ProcessKind
	gone   bool // it is not among those that use the device any more
}

// used returns the processes of a sample with their facts, and the pids of those that it
// cannot look at now. It leaves out those that have just ended.
func (c *census) used(processes []gpu.Process, now time.Time) (used []*usedBy, unread []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.memory.Weed(now)
	for _, p := range processes {
		switch id, err := c.Identify(p.PID); {
		case err == nil:
			used = append(used, &usedBy{Process: c.memory.See(id, now, unlocked{c}), memory: p.Memory.Or(0), name: p.Name, kind: p.Kind})
		case !errors.Is(err, process.ErrGone):
			unread = append(unread, p.PID)
		}
	}
	return used, unread
}

// read returns a process as the process table has it now.
func (c *census) read(id process.ID) kinship.Process {
	return kinship.Process{Ancestry: c.Ancestry(id), Facts: c.Facts(id)}
}

// Facts reads the facts about a process that package kinship uses. It does not wait for
// the login name of its user.
func (c *census) Facts(id process.ID) kinship.Facts {
	f, said := c.Inspect(id)
	if script := launch.NameOf(said.Command()); script != "" {
		f.Programs = kinship.Programs(append(f.Programs, script, strings.TrimSuffix(script, path.Ext(script)))...)
	}
	if uid, known := f.UID.Get(); known && c.names != nil {
		f.User = c.names.Now(uid)
	}
	return f
}

// ownLine returns the daemon and its present ancestors, and the first process of the
// machine.
func (c *census) ownLine() []process.ID {
	var line []process.ID
	if own, err := c.Identify(os.Getpid()); err == nil {
		line = c.Ancestry(own)
	}
	if first, err := c.Identify(1); err == nil && !slices.Contains(line, first) {
		line = append(line, first)
	}
	return line
}

// speakFor identifies a process, and refuses an actor who may not speak for it.
func (c *census) speakFor(pid int, by access.Actor) (id process.ID, uid int, err error) {
	if id, err = c.Identify(pid); err != nil {
		return id, 0, err
	}
	if uid, err = c.UID(pid); err != nil {
		return id, 0, err
	}
	if err := access.May(by, access.Speak, access.Of(access.Process, uid, "")); err != nil {
		return id, uid, fmt.Errorf("process %d: %w", pid, err)
	}
	return id, uid, nil
}

// successor identifies a process that by may bind a lease to.
func (c *census) successor(pid int, by access.Actor) (process.ID, error) {
	id, _, err := c.speakFor(pid, by)
	if err == nil && slices.Contains(c.ownLine(), id) {
		err = fmt.Errorf("process %d: %w", pid, ErrNoHolder)
	}
	return id, err
}

// holder returns the holder that about describes, with the process pid in it. The
// pid in about is that of the process that asks.
func (c *census) holder(pid int, by access.Actor, about lease.Holder) (lease.Holder, error) {
	itself := about.PID == pid
	id, uid, err := c.speakFor(pid, by)
	if err != nil {
		return about, err
	}
	if pid == 1 && !itself { // everything descends from it
		return about, fmt.Errorf("process %d: %w", pid, ErrNoHolder)
	}
	about.PID, about.Start, about.Boot = id.PID, id.Start, c.boot
	if about.Name == "" || !itself {
		about.Name = c.Name(pid)
	}
	if !itself && by.UID != uid { // an administrator speaks for another user
		about.UID, about.User = uid, ""
	}
	if about.User == "" {
		about.UID, about.User = uid, c.userName(uid)
	}
	return about, nil
}

// userName returns the login name of a user, or the number in decimal.
func (c *census) userName(uid int) string {
	if c.names == nil {
		return strconv.Itoa(uid)
	}
	return c.names.Of(uid)
}
