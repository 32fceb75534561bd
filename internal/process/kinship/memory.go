package kinship

import "time"

// Memory remembers processes. A process keeps the ancestors that it had when Memory first
// saw it: a child whose parent has ended still belongs to the lease of that parent. It
// also keeps an origin, because it was started under that lease even if its environment
// changes. Memory reads its other facts again from time to time. The zero Memory is
// empty.
type Memory struct {
	seen   map[int]memory // by pid
	weeded time.Time      // when Memory last forgot processes
}

type memory struct {
	Process
	last time.Time // when the process was last seen
	read time.Time // when its facts were last read
}

// Table reads processes. While it does, others may use the Memory that asked.
type Table interface {
	Ancestry(ID) []ID
	Facts(ID) Facts
}

// freshFor is how long facts are used before they are read again. Reading them takes some
// tenths of a millisecond, and they rarely change: by an exec, or by a move to another
// control group.
const freshFor = 10 * time.Second

// forgetAfter is how long Memory keeps a process that it does not see any more.
const forgetAfter = 5 * time.Minute

// See records that a process exists, and returns what is known about it. See asks the
// table about a process that is new, or whose facts are old. Meanwhile others get the old
// ones.
func (m *Memory) See(id ID, now time.Time, from Table) Process {
	known, is := m.find(id)
	if is {
		fresh := now.Sub(known.read) < freshFor
		if known.last = now; !fresh {
			known.read = now
		}
		if m.seen[id.PID] = known; fresh {
			return known.Process
		}
	}
	line := known.Ancestry
	if !is {
		line = from.Ancestry(id)
	}
	facts := from.Facts(id)
	if known, is = m.find(id); is {
		known.renew(facts)
	} else {
		known = memory{Process{line, facts}, now, now}
	}
	if facts.Unread {
		known.read = time.Time{} // to ask such a process again costs nothing
	}
	if m.seen == nil {
		m.seen = map[int]memory{}
	}
	m.seen[id.PID] = known
	return known.Process
}

// find returns what is known about a process.
func (m *Memory) find(id ID) (memory, bool) {
	if known, is := m.seen[id.PID]; is && known.ID() == id {
		return known, true
	}
	return memory{}, false
}

// renew stores facts that were read again. Facts without a user are those of a process
// that has just ended.
func (m *memory) renew(f Facts) {
	if !f.UID.Known() {
		return
	}
	if m.Origin != (Origin{}) {
		f.Origin = m.Origin
	}
	m.Facts = f
}

// Len returns the number of processes that Memory knows.
func (m *Memory) Len() int { return len(m.seen) }

// Weed forgets processes that were not seen for long. It does nothing soon after the last
// call.
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
