package park_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/lease"
)

var (
	places = []park.Place{park.Here, park.Leaving, park.Parked, park.Checking, park.Coming, park.Lost, park.Left, park.Noted, park.Halfway, park.Forgotten}
	whats  = []park.What{
		park.Ordered, park.Departed, park.Refused, park.Failed, park.Intruded, park.Checked, park.Called, park.CallOver, park.Woken, park.Asked,
		park.WaitOver, park.Arrived, park.GaveUp, park.Emptied, park.Recovered, park.Changed,
	}
	books = []lease.State{lease.Active, lease.Parked, ""}
	// works are the acts that move memory, or wait for it, by the places in which they
	// go on.
	works = map[park.Place][]park.Act{
		park.Leaving: {park.Depart}, park.Checking: {park.Check, park.Confine}, park.Coming: {park.Bring}, park.Left: {park.Watch},
	}
)

// phaseOf returns the phase of a place; the phases that are possible where it keeps what
// it had.
func phaseOf(at park.Place) []move.Phase {
	switch at {
	case park.Leaving:
		return []move.Phase{move.Parking}
	case park.Parked, park.Checking, park.Noted:
		return []move.Phase{move.Parked}
	case park.Coming, park.Lost:
		return []move.Phase{move.Resuming}
	case park.Left:
		return []move.Phase{move.Parked, move.Resuming}
	case park.Halfway:
		return []move.Phase{move.Parking, move.Resuming}
	}
	return []move.Phase{""}
}

// Every state answers everything that can happen: with a state that can be, in which
// nothing more is to be done, and with at most one goroutine at work on its memory.
func TestEveryStateAnswersEveryEvent(t *testing.T) {
	for _, at := range places {
		for _, phase := range phaseOf(at) {
			for _, what := range whats {
				for _, book := range books {
					for flags := range 8 {
						s := park.State{At: at, Phase: phase, Source: move.ByLadder, Returns: flags&1 > 0, Waits: flags&2 > 0, Calls: flags >> 2}
						if what == park.CallOver {
							s.Calls++
						}
						answer(t, s, park.Event{What: what, Book: book, Now: at0, Source: move.ByHand})
					}
				}
			}
		}
	}
}

var at0 = time.Unix(1_000_000, 0)

// answer fails unless an event has an answer.
func answer(t *testing.T, s park.State, e park.Event) {
	t.Helper()
	next, acts := park.Next(s, e)
	name := fmt.Sprintf("%+v, %s with %q in the book: %+v, %v", s, e.What, e.Book, next, acts)
	if !slices.Contains(places, next.At) || !slices.Contains(phaseOf(next.At), next.Phase) {
		t.Errorf("%s: there is no such state", name)
	}
	var begun []park.Act
	for _, act := range acts {
		if slices.ContainsFunc([]park.Place{park.Leaving, park.Checking, park.Coming, park.Left}, func(at park.Place) bool { return slices.Contains(works[at], act) }) {
			begun = append(begun, act)
		}
	}
	switch works := works[next.At]; {
	case next.At == s.At && len(begun) > 0, next.At != s.At && len(works) == 0 && len(begun) > 0:
		t.Errorf("%s: two goroutines are at work", name)
	case next.At != s.At && len(works) > 0 && (len(begun) != 1 || !slices.Contains(works, begun[0])):
		t.Errorf("%s: the wrong goroutine is at work", name)
	}
	if slices.Contains(acts, park.Queue) != (next.Waits && (!s.Waits || e.What == park.WaitOver)) {
		t.Errorf("%s: whether it waits in the queue is not known", name)
	}
	if s.Calls > 0 && e.What != park.CallOver && slices.Contains(acts, park.Queue) {
		t.Errorf("%s: it has two requests in the queue", name)
	}
	if working := len(works[s.At]) > 0; working && e.What == park.Changed && next.At != s.At {
		t.Errorf("%s: it is taken from the goroutine that moves it", name)
	}
	if e.What == park.Changed {
		return
	}
	if again, more := park.Next(next, park.Event{What: park.Changed, Book: e.Book, Now: at0}); len(more) > 0 || again != next {
		t.Errorf("%s: and then there is more to do: %v", name, more)
	}
}

// What a state carries from place to place: why and since when it is parked, how often it
// was, and who waits for it.
func TestWhatAStateCarries(t *testing.T) {
	const hand, pressure, ladder = move.ByHand, move.ByPressure, move.ByLadder
	was, now, booked := at0, at0.Add(time.Minute), at0.Add(time.Second)
	type state = park.State
	type acts = []park.Act
	for _, x := range []struct {
		name string
		from state
		what park.What
		book lease.State
		to   state
		acts acts
	}{
		{"it is ordered to leave", state{At: park.Here, Returns: true, Wanted: was, Times: 1}, park.Ordered, lease.Active,
			state{At: park.Leaving, Phase: move.Parking, Since: now, Source: hand, Times: 1}, acts{park.Depart}},
		{"it has left by hand", state{At: park.Leaving, Phase: move.Parking, Source: hand, Times: 1}, park.Departed, lease.Parked,
			state{At: park.Parked, Phase: move.Parked, Since: now, Source: hand, Times: 2, ParkedAt: now}, acts{park.Write, park.Tell}},
		{"it has left for others", state{At: park.Leaving, Phase: move.Parking, Source: pressure}, park.Departed, lease.Parked,
			state{At: park.Parked, Phase: move.Parked, Since: now, Source: pressure, Times: 1, ParkedAt: now, Returns: true, Waits: true}, acts{park.Write, park.Tell, park.Queue}},
		{"it has left by hand, and was woken meanwhile", state{At: park.Leaving, Phase: move.Parking, Source: hand, Returns: true}, park.Departed, lease.Parked,
			state{At: park.Parked, Phase: move.Parked, Since: now, Source: hand, Times: 1, ParkedAt: now, Returns: true, Waits: true}, acts{park.Write, park.Tell, park.Queue}},
		{"a process begins", state{At: park.Parked, Phase: move.Parked, Since: was}, park.Intruded, lease.Parked,
			state{At: park.Checking, Phase: move.Parked, Since: was}, acts{park.Confine}},
		{"somebody calls", state{At: park.Parked, Phase: move.Parked, Returns: true, Waits: true}, park.Called, lease.Parked,
			state{At: park.Parked, Phase: move.Parked, Returns: true, Waits: true, Calls: 1}, acts{park.Unqueue}},
		{"one call is over, and another is not", state{At: park.Parked, Phase: move.Parked, Returns: true, Calls: 2}, park.CallOver, lease.Parked,
			state{At: park.Parked, Phase: move.Parked, Returns: true, Calls: 1}, nil},
		{"the call is over", state{At: park.Parked, Phase: move.Parked, Returns: true, Calls: 1}, park.CallOver, lease.Parked,
			state{At: park.Parked, Phase: move.Parked, Returns: true, Waits: true}, acts{park.Queue}},
		{"it is woken where it is", state{At: park.Here, Source: ladder}, park.Woken, lease.Active, state{At: park.Here, Source: ladder}, nil},
		{"it is woken after it was parked by hand", state{At: park.Parked, Phase: move.Parked, Source: hand}, park.Woken, lease.Parked,
			state{At: park.Parked, Phase: move.Parked, Source: hand, Returns: true, Wanted: now, Waits: true}, acts{park.Queue}},
		{"it is woken again", state{At: park.Parked, Phase: move.Parked, Source: hand, Returns: true, Wanted: was, Waits: true}, park.Woken, lease.Parked,
			state{At: park.Parked, Phase: move.Parked, Source: hand, Returns: true, Wanted: was, Waits: true}, nil},
		{"it is woken in the pause of the ladder", state{At: park.Parked, Phase: move.Parked, Source: ladder, Returns: true, Waits: true}, park.Woken, lease.Parked,
			state{At: park.Parked, Phase: move.Parked, Source: pressure, Returns: true, Waits: true}, acts{park.Unqueue}},
		{"its lease ends before it waits", state{At: park.Parked, Phase: move.Parked, Returns: true}, park.Changed, "",
			state{At: park.Left, Phase: move.Parked, Returns: true}, acts{park.Watch}},
		{"it is back", state{At: park.Coming, Phase: move.Resuming, Source: hand, Returns: true, Wanted: was, ParkedAt: was, Times: 3}, park.Arrived, lease.Active,
			state{At: park.Here, Since: now, Source: hand, Times: 3}, acts{park.Drop, park.Write, park.Release, park.Tell}},
		{"a daemon finds it parked by hand", state{At: park.Noted, Phase: move.Parked, Since: was, Source: hand}, park.Recovered, lease.Parked,
			state{At: park.Checking, Phase: move.Parked, Since: was, Source: hand, Times: 1, ParkedAt: booked}, acts{park.Check}},
		{"a daemon finds it parked by hand and woken", state{At: park.Noted, Phase: move.Parked, Source: hand, Returns: true, Times: 4}, park.Recovered, lease.Parked,
			state{At: park.Checking, Phase: move.Parked, Source: hand, Returns: true, Times: 4, ParkedAt: booked}, acts{park.Check}},
		{"a daemon finds it halfway", state{At: park.Halfway, Phase: move.Parking, Since: was, Source: pressure}, park.Recovered, lease.Parked,
			state{At: park.Checking, Phase: move.Parked, Since: booked, Source: pressure, Returns: true, Times: 1, ParkedAt: booked}, acts{park.Check}},
		{"a daemon finds its room leased again", state{At: park.Noted, Phase: move.Parked, Since: was, Source: hand, Times: 1}, park.Recovered, lease.Active,
			state{At: park.Coming, Phase: move.Resuming, Since: now, Source: hand, Times: 1, ParkedAt: was}, acts{park.Write, park.Bring}},
	} {
		got, does := park.Next(x.from, park.Event{What: x.what, Book: x.book, Now: now, ParkedAt: booked, Source: hand})
		if got != x.to || !slices.Equal(does, x.acts) {
			t.Errorf("%s: %+v, %v; want %+v, %v", x.name, got, does, x.to, x.acts)
		}
	}
}

// where says where the memory of the processes is, as the driver knows.
type where string

const (
	onDevice where = "on the device"
	between  where = "on its way"
	inHost   where = "in the memory of the machine"
	nowhere  where = "nowhere" // its processes have ended
)

// machine is a model of a machine with one lease: what survives a daemon, and what a
// daemon knows.
type machine struct {
	*rapid.T
	book   lease.State
	file   *park.State // nil: the lease is not in it
	memory where
	gone   bool // the driver has lost it

	state  park.State
	known  bool     // the daemon has a record of it
	work   park.Act // that goes on; empty: none does
	stage  int      // how far it is
	waits  bool     // a goroutine waits in the queue
	told   bool     // that goroutine is to stop
	calls  int
	queued int  // calls that are in the queue
	late   bool // the book has changed, and the daemon does not know yet
	calm   bool // nothing goes wrong any more
}

// crash means that the daemon was killed.
type crash struct{}

func (m *machine) maybe(name string) bool { return !m.calm && rapid.Bool().Draw(m.T, name) }

// dies kills the daemon here, perhaps.
func (m *machine) dies() {
	if !m.calm && rapid.IntRange(0, 25).Draw(m.T, "dies") == 0 {
		panic(crash{})
	}
}

// happen has something happen to the lease, and does what follows. The daemon may be
// killed before and after each act.
func (m *machine) happen(what park.What) {
	if !m.known {
		return
	}
	source := rapid.SampledFrom([]move.Source{move.ByHand, move.ByPressure, move.ByLadder}).Draw(m.T, "source")
	next, acts := park.Next(m.state, park.Event{What: what, Book: m.book, Now: at0, ParkedAt: at0, Source: source})
	m.state = next
	for _, act := range acts {
		m.dies()
		switch act {
		case park.Write:
			m.write()
		case park.Forget:
			m.known = false
		case park.Queue:
			if m.waits || m.queued > 0 {
				m.Fatalf("it waits in the queue twice")
			}
			m.waits, m.told = true, false
		case park.Unqueue:
			m.told = true
		case park.Tell, park.Release, park.Drop:
		default:
			if m.work != "" {
				m.Fatalf("%s begins, and %s goes on", act, m.work)
			}
			m.work, m.stage = act, 0
		}
	}
	m.dies()
}

func (m *machine) write() {
	m.file = nil
	if m.known && m.state.Phase != "" {
		kept := m.state
		m.file = &kept
	}
}

// report ends the work that goes on, with what came of it.
func (m *machine) report(what park.What) {
	m.work = ""
	m.happen(what)
}

// goOn lets the work that goes on take its next step.
func (m *machine) goOn() {
	m.dies()
	switch m.work {
	case park.Depart:
		m.leave()
	case park.Check, park.Confine:
		if m.book == lease.Parked { // otherwise others may decide about it
			if m.maybe("it refuses") {
				return // and is asked again
			}
			m.memory = inHost
		}
		m.report(park.Checked)
	case park.Bring:
		if m.book == lease.Parked {
			m.Fatalf("its memory comes back, and the room is not leased for it")
		}
		if m.memory = between; m.maybe("it fails") {
			return // and is tried again
		}
		if m.maybe("it is lost") {
			m.gone = true
			m.report(park.GaveUp)
			return
		}
		m.memory, m.gone = onDevice, false
		m.report(park.Arrived)
	case park.Watch:
		if m.calm || m.maybe("they end") {
			m.memory = nowhere
			m.report(park.Emptied)
		}
	}
}

// leave takes the next step of parking the lease.
func (m *machine) leave() {
	fails := m.maybe("it fails")
	m.stage++
	switch {
	case m.stage <= 2 && fails:
		m.report(park.Refused)
	case m.stage == 1:
		m.write() // before anything is touched
	case m.stage == 2:
		m.memory = between
	case m.stage == 3 && !fails && m.book != "":
		m.memory = inHost
	case m.stage == 4 && !fails && m.book != "":
		if m.memory != inHost {
			m.Fatalf("others get its room, and its memory is %s", m.memory)
		}
		m.book = lease.Parked
		m.dies()
		m.report(park.Departed)
	default:
		m.report(park.Failed)
	}
}

// room leases the room of the lease again, if the book can.
func (m *machine) room() {
	m.dies()
	if m.book == lease.Parked && !m.maybe("there is no room") {
		m.book, m.late = lease.Active, true
	}
	m.dies()
}

// step lets anything happen that can.
func (m *machine) step() {
	switch rapid.IntRange(0, 11).Draw(m.T, "step") {
	case 0:
		if m.book == lease.Active && !m.known {
			m.known, m.state = true, park.State{At: park.Here}
		}
		if m.book == lease.Active && m.state.At == park.Here {
			m.happen(park.Ordered)
		}
	case 1:
		m.happen(park.Woken)
	case 2:
		if m.state.Phase == move.Resuming {
			m.happen(park.Asked)
		} else if m.book == lease.Parked && m.known && m.calls < 2 {
			m.calls++
			m.happen(park.Called)
		}
	case 3: // a call gets into the queue when nothing else waits there
		if m.calls > m.queued && m.queued == 0 && !m.waits {
			m.queued++
		}
	case 4:
		if m.queued > 0 {
			m.room()
			m.queued--
			m.calls--
			m.happen(park.CallOver)
		}
	case 5:
		if m.calls > m.queued {
			m.calls-- // it gives up before
			m.happen(park.CallOver)
		}
	case 6:
		m.waiter()
	case 7:
		if m.book == lease.Parked && m.state.At == park.Parked && m.memory == inHost {
			m.memory = between // a process begins
			m.happen(park.Intruded)
		}
	case 8:
		if rapid.IntRange(0, 9).Draw(m.T, "ends") == 0 && !m.calm {
			m.book, m.late = "", true
		}
	case 9:
		if m.late {
			m.late = false
			m.happen(park.Changed)
		}
	default:
		m.goOn()
	}
}

// waiter lets the goroutine go on that waits in the queue.
func (m *machine) waiter() {
	if !m.waits {
		return
	}
	if !m.told {
		if m.room(); m.book == lease.Parked {
			return // it waits on
		}
	}
	m.waits = false
	m.happen(park.WaitOver)
}

// play plays steps, and starts a new daemon whenever one is killed.
func (m *machine) play(do func()) {
	defer func() {
		switch killed := recover(); killed.(type) {
		case nil:
		case crash:
			m.safe()
			m.play(m.restart)
		default:
			panic(killed)
		}
	}()
	do()
	m.whole()
}

// restart starts a new daemon, which knows the book and the file.
func (m *machine) restart() {
	m.state, m.known, m.work, m.waits, m.told, m.calls, m.queued, m.late = park.State{}, false, "", false, false, 0, 0, false
	switch {
	case m.file != nil:
		m.known, m.state = true, *m.file
		m.state.Waits, m.state.Calls = false, 0
		if m.state.At = park.Halfway; m.state.Phase == move.Parked {
			m.state.At = park.Noted
		}
	case m.book == lease.Parked:
		m.known, m.state = true, park.State{At: park.Noted, Phase: move.Parked, Source: move.ByHand, Returns: true}
	}
	m.happen(park.Recovered)
}

// safe fails unless the daemon may be killed now.
func (m *machine) safe() {
	switch {
	case m.book == lease.Parked && m.memory == onDevice:
		m.Fatalf("others can have its room, and its memory is there: %+v", m.state)
	case m.memory != onDevice && m.memory != nowhere && m.file == nil && m.book != lease.Parked:
		m.Fatalf("its memory is %s, and a daemon that begins would not know it: %+v", m.memory, m.state)
	}
}

// whole fails if something is so that must never be.
func (m *machine) whole() {
	m.safe()
	if m.known && (m.work != "") != (len(works[m.state.At]) > 0) {
		m.Fatalf("it is %s, and %q goes on", m.state.At, m.work)
	}
}

// finish lets everything come to an end without further faults: the lease has its memory
// back, or stays parked because somebody wants that, or has ended.
func (m *machine) finish() {
	m.calm = true
	for range 200 {
		for m.work != "" {
			m.goOn()
		}
		m.queued = 0
		for ; m.calls > 0; m.calls-- {
			m.happen(park.CallOver)
		}
		m.waiter()
		m.happen(park.Changed)
		if m.state.At == park.Lost { // somebody tries again, and the driver can by now
			m.happen(park.Asked)
		}
	}
	m.whole()
	by := m.state
	switch {
	case m.book == "" && m.known:
		m.Fatalf("it has ended, and is not forgotten: %+v", m.state)
	case m.book == "" && m.memory != onDevice && m.memory != nowhere:
		m.Fatalf("it has ended, and its memory is %s", m.memory)
	case m.book == lease.Active && (m.memory != onDevice || m.known && by.At != park.Here):
		m.Fatalf("it is active, and its memory is %s: %+v", m.memory, by)
	case m.book == lease.Parked && (by.At != park.Parked || by.Returns || m.memory != inHost):
		m.Fatalf("it is parked, and did not get its turn: %+v, its memory is %s", by, m.memory)
	}
}

// Over all histories of the table, with a daemon that is killed before and after every
// act: no memory is promised twice, a daemon that begins knows of all memory that is not
// on its device, and every parked lease comes back when it is wanted, or has ended.
func TestHistoriesOfTheTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{T: t, book: lease.Active, memory: onDevice}
		for range rapid.IntRange(10, 120).Draw(t, "steps") {
			m.play(m.step)
		}
		m.play(m.finish)
	})
}
