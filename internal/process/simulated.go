package process

import "github.com/berth-gpu/berth/internal/process/kinship"

// lastPID is the largest pid that Linux gives to a process. A larger one belongs
// to a process that exists only in a simulation.
const lastPID = 1 << 22

// Simulated is a simulation that has processes.
type Simulated interface {
	// Started returns the start of a simulated process, in the unit of ID.Start. It
	// returns false if there is no such process now.
	Started(pid int) (start uint64, runs bool)
	// End ends a simulated process, as a signal does.
	End(pid int)
	// Facts returns the facts of a simulated process, or for a real process the control
	// group that the simulation gives it. It returns false if the simulation says nothing
	// about the process.
	Facts(pid int) (kinship.Facts, bool)
}

// World is a simulation that is a machine of its own. Its processes have families, take
// signals, and can be watched.
type World interface {
	Simulated
	Boot() string
	PIDs() []int
	// Look returns the parent of a process, and whether a signal has stopped the process.
	Look(pid int) (parent int, stopped bool)
	// Deliver sends a signal to a process.
	Deliver(pid int, signal Signal)
	// Watch calls ended once the process has ended. The process runs, or has just ended.
	Watch(pid int, ended func(killed bool)) (stop func())
}

// Of returns the table of a simulated machine, without the processes of this one.
func Of(w World) Table {
	t := At("/nonexistent").With(w)
	t.world = w
	return t
}

// With returns a table with the processes of a simulation beside those of this machine.
func (t Table) With(s Simulated) Table {
	t.simulated = &simulations{s, t.simulated}
	return t
}

// simulations is a list of simulations; nil is empty.
type simulations struct {
	first Simulated
	rest  *simulations
}

// of returns the simulation of a process, and the start of the process there.
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

// facts returns the facts that a simulation gives about a process.
func (s *simulations) facts(pid int) kinship.Facts {
	for ; s != nil; s = s.rest {
		if f, says := s.first.Facts(pid); says {
			return f
		}
	}
	return kinship.Facts{}
}
