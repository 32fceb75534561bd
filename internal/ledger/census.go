package ledger

import (
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process"
)

// usedBy is what one process uses, with its line of descent: itself, its
// parent, and so on.
type usedBy struct {
	line   []process.ID
	memory gpu.MiB
	name   string
	kind   gpu.ProcessKind
	claim  claim
}

// claim is the lease that a process was started under, by its environment. It
// tells whose a process is whose ancestors have all gone, also after a restart
// of the daemon. Anybody can claim anything, so it counts only between a
// process and a lease of the same user.
type claim struct {
	lease string // empty: none
	fence uint64
	uid   int
}

func claimOf(t process.Table, pid int) claim {
	id, named := t.Variable(pid, "BERTH_LEASE")
	text, _ := t.Variable(pid, "BERTH_FENCE")
	fence, err := strconv.ParseUint(text, 10, 64)
	uid, err2 := t.UID(pid)
	if !named || err != nil || err2 != nil {
		return claim{}
	}
	return claim{id, fence, uid}
}

// kinship remembers who descends from whom, as it was when first seen: a child
// whose parent has gone still belongs to the lease of that parent.
type kinship struct {
	mu     sync.Mutex
	seen   map[int]ancestry
	weeded time.Time // when those were last forgotten who are gone
}

type ancestry struct {
	line  []process.ID
	claim claim
	last  time.Time // when it was on a device
}

// forgetAfter is for how long a process that is not on a device any more is
// remembered.
const forgetAfter = 5 * time.Minute

func (k *kinship) resolve(t process.Table, processes []gpu.Process, now time.Time) []usedBy {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.weed(now)
	var used []usedBy
	for _, p := range processes {
		id, err := t.Identify(p.PID)
		if err != nil {
			continue // it has just ended
		}
		known, ok := k.seen[p.PID]
		if !ok || known.line[0] != id {
			known = ancestry{line: t.Line(id), claim: claimOf(t, p.PID)}
		}
		known.last = now
		k.seen[p.PID] = known
		used = append(used, usedBy{known.line, p.Memory.Or(0), p.Name, p.Kind, known.claim})
	}
	return used
}

// weed forgets those who have not been seen for long. The caller holds mu.
func (k *kinship) weed(now time.Time) {
	if now.Sub(k.weeded) < forgetAfter {
		return
	}
	k.weeded = now
	for pid, a := range k.seen {
		if now.Sub(a.last) > forgetAfter {
			delete(k.seen, pid)
		}
	}
}

// ownLine is the daemon and those it descends from, the first process of the
// machine among them, as that is now.
func (l *Ledger) ownLine() []process.ID {
	var line []process.ID
	if own, err := l.processes.Identify(os.Getpid()); err == nil {
		line = l.processes.Line(own)
	}
	if first, err := l.processes.Identify(1); err == nil && !slices.Contains(line, first) {
		line = append(line, first)
	}
	return line
}
