// Package health decides how far to trust a device after something went wrong
// on it.
//
// It has only rules: faults, answers and times come in as arguments, a standing goes out.
//
// A device with a fault of its own goes into quarantine: berth grants nothing there. When
// it has answered without a new fault for long enough, and has passed a check if the
// rules require one, it is on probation with half its slots, and after that it is trusted
// again. If it fails again within a day, its quarantine lasts twice as long each time.
//
// A device whose memory ran out loses one slot each time, and gets the slots back one by
// one while its memory lasts.
//
// Pure: no clock, no I/O.
package health

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Phase is the degree of trust in a device.
type Phase string

// The phases. A device that was never in trouble has the empty phase.
const (
	Trusted     Phase = ""
	Quarantined Phase = "quarantine"
	Probation   Phase = "probation"
)

// Rules says how long the phases take.
type Rules struct {
	Quarantine time.Duration // from the last fault to probation
	Probation  time.Duration // from there to trust
	SlotReturn time.Duration // from memory running out to the return of one slot

	// Check means that a device leaves its quarantine only after it passed a check, or
	// could not be checked.
	Check bool
}

// DefaultRules returns the rules without configuration.
func DefaultRules() Rules {
	return Rules{Quarantine: time.Minute, Probation: 5 * time.Minute, SlotReturn: 5 * time.Minute}
}

// Standing is the trust in a device, with everything that must survive a restart. The
// zero Standing is that of a device that was never in trouble.
type Standing struct {
	Phase Phase     `json:"phase,omitempty"`
	Since time.Time `json:"since,omitzero"` // when the phase began
	Until time.Time `json:"until,omitzero"` // the earliest end of the phase
	Why   string    `json:"why,omitempty"`  // the fault that began it

	Check   string `json:"check,omitempty"`   // text of the last check since then; empty if there was none
	Cleared bool   `json:"cleared,omitempty"` // whether no check keeps it in quarantine any more
	Failed  int    `json:"failed,omitempty"`  // number of failed checks in this quarantine

	Relapses int       `json:"relapses,omitempty"` // number of faults within a day after another was dealt with
	Fault    time.Time `json:"fault,omitzero"`     // the newest one

	Withheld int       `json:"withheld,omitempty"` // slots withheld after memory ran out
	Full     bool      `json:"full,omitempty"`     // whether memory has run out, and still is out
	Counted  time.Time `json:"counted,omitzero"`   // when Withheld or Full last changed
}

const (
	memory       = 24 * time.Hour // how long a fault makes the next one worse
	mostRelapses = 6              // more relapses do not lengthen the quarantine, which is an hour then by default
	mostWithheld = 4
	lull         = time.Minute // memory that runs out again sooner is the same trouble
)

// Bounded returns the standing with its counts inside the limits of these rules, which a
// file edited by hand may exceed, and without times after the present: the clock was
// ahead when they were written. A phase then lasts as long from now on as it had to.
func (s Standing) Bounded(now time.Time) Standing {
	from := s.Since
	if s.Fault.After(from) {
		from = s.Fault
	}
	if from.After(now) {
		s.Until = now.Add(max(s.Until.Sub(from), 0))
	}
	for _, at := range []*time.Time{&s.Since, &s.Fault, &s.Counted} {
		if at.After(now) {
			*at = now
		}
	}
	s.Relapses = min(max(s.Relapses, 0), mostRelapses)
	s.Failed = min(max(s.Failed, 0), mostRelapses)
	s.Withheld = min(max(s.Withheld, 0), mostWithheld)
	return s
}

// Quarantines reports whether a fault puts its device in quarantine. A fault of a program
// never does: the device is well.
func Quarantines(f gpu.Fault) bool {
	return f.Severity == gpu.Serious && f.Class != gpu.FaultProgram
}

// Fail records a fault of the device itself. A fault during a quarantine prolongs it:
// drivers often report one cause several times.
func (s *Standing) Fail(r Rules, now time.Time, why string) {
	if s.Phase != Quarantined {
		if s.Fault.IsZero() || now.Sub(s.Fault) > memory {
			s.Relapses = 0
		} else {
			s.Relapses = min(s.Relapses+1, mostRelapses)
		}
		s.Phase, s.Since, s.Why, s.Check, s.Failed = Quarantined, now, why, "", 0
	}
	s.Fault, s.Cleared = now, false
	s.Until = s.wait(r, now)
}

// wait returns the end of a quarantine that begins now, or begins again because a check
// failed.
func (s *Standing) wait(r Rules, now time.Time) time.Time {
	return now.Add(r.Quarantine << min(s.Relapses+s.Failed, mostRelapses))
}

// Return records that a device which fell off the bus is back. It was reset, which cures
// most faults, so it is on probation at once, or as soon as a check allows it. A
// device that comes and goes, or has failed a check, has to wait like any other.
func (s *Standing) Return(r Rules, now time.Time) {
	if s.Phase == Quarantined && s.Relapses == 0 && s.Failed == 0 {
		s.Until = now
		s.release(r, now)
	}
}

// release begins the probation of a device in quarantine, if nothing keeps it there.
func (s *Standing) release(r Rules, now time.Time) {
	if !now.Before(s.Until) && (s.Cleared || !r.Check) {
		s.probation(r, now)
	}
}

func (s *Standing) probation(r Rules, now time.Time) {
	s.Phase, s.Since, s.Until = Probation, now, now.Add(r.Probation)
}

// Answer records that the device answered, and whether its memory has run out. Only a
// device that answers regains trust.
func (s *Standing) Answer(r Rules, now time.Time, full bool) {
	*s = s.Bounded(now) // the clock may have been set back
	if s.Phase != Trusted && !now.Before(s.Until) {
		if s.Phase == Quarantined {
			s.release(r, now)
		} else {
			s.Phase, s.Since, s.Until, s.Why, s.Check, s.Cleared, s.Failed = Trusted, time.Time{}, time.Time{}, "", "", false, 0
		}
	}
	switch {
	case full && !s.Full:
		if s.Withheld == 0 || now.Sub(s.Counted) >= lull {
			s.Withheld = min(s.Withheld+1, mostWithheld)
		}
		s.Full, s.Counted = true, now
	case !full && s.Full:
		s.Full, s.Counted = false, now
	case !full && s.Withheld > 0 && now.Sub(s.Counted) >= r.SlotReturn:
		s.Withheld, s.Counted = s.Withheld-1, now
	}
}

// Slots returns how many of a device's slots may be used: at least one, as long as
// anything may be granted at all.
func (s Standing) Slots(all int) int {
	left := all - s.Withheld
	if s.Phase == Probation {
		left /= 2
	}
	return min(max(left, 1), all)
}

// Reason says why the device is not trusted, to follow a colon. It returns "" if the
// device is trusted.
func (s Standing) Reason() string {
	switch s.Phase {
	case Quarantined:
		return fmt.Sprintf("in quarantine until %s at least: %s", s.until(), s.Cause())
	case Probation:
		return fmt.Sprintf("on probation until %s, with half its slots: %s", s.until(), s.Cause())
	}
	return ""
}

// Cause returns the fault that began the phase, and the text of the last check.
func (s Standing) Cause() string {
	if s.Check == "" {
		return s.Why
	}
	return s.Why + "; " + s.Check
}

func (s Standing) until() string { return moment(s.Until) }

// moment writes a time for people.
func moment(t time.Time) string { return t.UTC().Format("Jan 2 15:04:05 MST") }
