package journaltest

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/berth-gpu/berth/internal/file/journal"
)

// script is a history that exercises everything a journal does: groups of all kinds, new
// files, compactions with and without appends after the number was noted, closing and
// opening, a kill.
func script(m *model) (failed bool) {
	step := func(err error) bool { failed = err != nil; return failed }
	for i := range 6 {
		if step(m.append(1+i%3, 25+7*i, journal.Care{Durable: i%2 == 0})) {
			return
		}
	}
	noted := len(m.history)
	if step(m.append(2, 30, quick)) || step(m.compact(noted)) || step(m.append(1, 200, durable)) {
		return
	}
	for range 4 {
		if step(m.append(2, 60, quick)) {
			return
		}
	}
	if step(m.close()) {
		return
	}
	if _, err := m.tryOpen(len(m.history)); step(err) {
		return
	}
	if step(m.append(1, 40, quick)) || step(m.compact(len(m.history))) || step(m.append(3, 90, journal.Care{Reserve: true})) {
		return
	}
	m.world.Kill()
	if _, err := m.tryOpen(len(m.history)); step(err) {
		return
	}
	_ = step(m.append(1, 40, durable)) || step(m.append(1, 40, quick))
	return
}

func countOps(t *testing.T, newWorld func() World) int {
	t.Helper()
	m := newModel(t, newWorld())
	if script(m) {
		t.Fatal("the script fails by itself")
	}
	return m.world.Ops()
}

// end is one way in which a life can end after it was stopped.
type end struct {
	name    string
	partial int // bytes of the write it was stopped in
	finish  func(m *model, seed int)
}

func ends() []end {
	chance := func(seed int) func(int) int {
		return rand.New(rand.NewPCG(uint64(seed), 1)).IntN
	}
	var all []end
	for _, partial := range []int{0, 1, 13, 40, 1 << 20} {
		all = append(all, end{fmt.Sprintf("killed after %d bytes", partial), partial,
			func(m *model, _ int) { m.kill() }})
	}
	all = append(all,
		end{"power cut, all lost", 1 << 20, func(m *model, _ int) { m.powerCut(lost) }},
		end{"power cut, all kept", 1 << 20, func(m *model, _ int) { m.powerCut(kept) }})
	for i := range 6 {
		all = append(all, end{fmt.Sprintf("power cut, dice %d", i), 1 << 20,
			func(m *model, seed int) { m.powerCut(chance(seed*10 + i)) }})
	}
	return all
}

// goOn checks that a reopened journal works like a new one.
func goOn(m *model) {
	m.t.Helper()
	m.mustAppend(2, 50, quick)
	m.powerCut(lost)
	m.mustAppend(1, 300, durable)
	if err := m.compact(len(m.history)); err != nil {
		m.t.Fatalf("compact: %v", err)
	}
	m.mustAppend(1, 50, durable)
	m.powerCut(lost)
	m.mustAppend(1, 50, quick)
	if err := m.close(); err != nil {
		m.t.Fatalf("close: %v", err)
	}
	m.open(len(m.history))
}

// crash stops the world at an operation of the script. The outcome of the last call is in
// doubt.
func crash(t TB, w World, op, partial int) *model {
	w.CrashAt(op, partial)
	m := &model{t: t, world: w}
	if _, err := m.tryOpen(0); err == nil {
		script(m)
	}
	return m
}

func testCrashPoints(t *testing.T, newWorld func() World) {
	for op := range countOps(t, newWorld) {
		for _, e := range ends() {
			tb := located{t, fmt.Sprintf("stopped at operation %d, %s", op, e.name)}
			m := crash(tb, newWorld(), op, e.partial)
			e.finish(m, op)
			goOn(m)
		}
	}
}

// A machine that crashes at one operation may crash again at any operation of the next
// start.
func testCrashInRecovery(t *testing.T, newWorld func() World) {
	all := ends()
	for op := 0; op < countOps(t, newWorld); op += 2 {
		for i := 0; ; i++ {
			first, second := all[(op+i)%len(all)], all[(op*7+i*5)%len(all)]
			tb := located{t, fmt.Sprintf("stopped at operation %d, %s, and at %d of the start, %s", op, first.name, i, second.name)}
			m := crash(tb, newWorld(), op, first.partial)
			least := m.endLife(first.name, op)
			m.world.CrashAt(m.world.Ops()+i, second.partial)
			if _, err := m.tryOpen(least); err == nil {
				m.world.Mend() // the start took fewer operations
				goOn(m)
				break
			}
			least = min(least, m.endLife(second.name, i))
			m.open(least)
			goOn(m)
		}
	}
}

// endLife does the first half of kill or powerCut, by the name of the end.
func (m *model) endLife(name string, seed int) (least int) {
	switch name[0] {
	case 'k':
		m.world.Kill()
		return len(m.history)
	default:
		m.world.PowerCut(rand.New(rand.NewPCG(uint64(seed), 2)).IntN)
		return m.durable
	}
}

func testFaultPoints(t *testing.T, newWorld func() World) {
	faults := []Fault{
		{Err: syscall.ENOSPC}, {Err: syscall.ENOSPC, Partial: 20}, {Err: syscall.EDQUOT, Stay: true},
		{Err: syscall.EIO}, {Err: syscall.EIO, Partial: 1 << 20}, {Err: syscall.EIO, Revert: true},
		{Err: syscall.EIO, Partial: 50, Stay: true}, {Err: syscall.EIO, Revert: true, Stay: true},
	}
	for op := range countOps(t, newWorld) {
		for _, f := range faults {
			tb := located{t, fmt.Sprintf("operation %d fails with %+v", op, f)}
			m := newModel(tb, newWorld())
			m.world.FailAt(op, f)
			script(m)
			if m.dead() { // opening or closing failed
				m.world.Kill()
				m.open(m.least(f))
			}
			if op%2 == 0 {
				// The disk works again, and the journal goes on without help.
				m.world.Mend()
				m.mustAppend(1, 40, durable)
				m.powerCut(lost)
			} else {
				least := m.least(f) // the process dies before the disk works again
				m.world.Kill()
				m.world.Mend()
				m.open(least)
			}
			goOn(m)
		}
	}
}

// least returns how many entries survive a kill. What the file system dropped after a
// failed sync is lost, unless it was durable before.
func (m *model) least(f Fault) int {
	if f.Revert && m.j.Stats().Fault != nil {
		return m.durable
	}
	return len(m.history)
}

// dead reports whether there is no open journal.
func (m *model) dead() bool {
	return m.j == nil || m.j.Append(nil, quick) == journal.ErrClosed
}

// located says in which of many runs a test failed.
type located struct {
	TB
	where string
}

func (l located) Fatalf(format string, args ...any) {
	l.TB.Helper()
	l.TB.Fatalf("%s: %s", l.where, fmt.Sprintf(format, args...))
}
