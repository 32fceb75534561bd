package kin

import "time"

// Memory remembers processes as they were when they were first seen: a child
// whose parent has ended still belongs to the lease of that parent. The zero
// Memory is empty.
type Memory struct {
	seen   map[int]memory // by pid
	weeded time.Time      // when Memory last forgot processes
}

type memory struct {
	Process
	last time.Time // when it was last seen
}

// forgetAfter is for how long Memory knows a process that it does not see any
// more.
const forgetAfter = 5 * time.Minute

// See notes that a process is there, and returns what is known about it. If the
// process is new, See asks for it with read.
func (m *Memory) See(id ID, now time.Time, read func(ID) Process) Process {
	known, ok := m.seen[id.PID]
	if !ok || known.ID() != id {
		known = memory{Process: read(id)}
	}
	known.last = now
	if m.seen == nil {
		m.seen = map[int]memory{}
	}
	m.seen[id.PID] = known
	return known.Process
}

// Len returns the number of processes that Memory knows.
func (m *Memory) Len() int { return len(m.seen) }

// Weed forgets processes that were not seen for long. Calls that come soon after
// the last one do nothing.
func (m *Memory) Weed(now time.Time) {
	if now.Sub(m.weeded) < forgetAfter {
		return
	}
	m.weeded = now
	for pid, p := range m.seen {
		if now.Sub(p.last) > forgetAfter {
			delete(m.seen, pid)
		}
	}
}
