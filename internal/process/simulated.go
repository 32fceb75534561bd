package process

import "github.com/berth-gpu/berth/internal/process/kinship"

// lastPID is the largest pid that Linux gives to a process. A larger one belongs
// to a process that exists only in a simulation.
const lastPID = 1 << 22

// Simulated is a simulation that has processes.
type Simulated interface {
	// Started returns when a simulated process was started, as ID.Start counts
	// it, and false if there is no such process now.
	Started(pid int) (start uint64, runs bool)
	// End ends a simulated process, as a signal does.
	End(pid int)
	// Facts returns what the simulation says about a simulated process, and the
	// control group that it says a real process is in. It returns false if it
	// says nothing.
	Facts(pid int) (kinship.Facts, bool)
}

// With returns a table that has the processes of a simulation beside those of
// this machine.
func (t Table) With(s Simulated) Table {
	t.simulated = &simulations{s, t.simulated}
	return t
}

// simulations is a list of simulations; nil is the empty one.
type simulations struct {
	first Simulated
	rest  *simulations
}

// of returns the simulation that a process belongs to, and when the process was
// started there.
func (s *simulations) of(pid int) (found Simulated, start uint64) {
	if pid <= lastPID {
		return nil, 0
	}
	for ; s != nil; s = s.rest {
		if start, runs := s.first.Started(pid); runs {
			return s.first, start
		}
	}
	return nil, 0
}

// facts returns what a simulation says about a process.
func (s *simulations) facts(pid int) (kinship.Facts, bool) {
	for ; s != nil; s = s.rest {
		if f, says := s.first.Facts(pid); says {
			return f, true
		}
	}
	return kinship.Facts{}, false
}
