package alert

import "time"

// Repeat is how long after an alert was told it is told again, if it still fires
// and nobody has acknowledged it.
const Repeat = 4 * time.Hour

// Tell returns the alerts that people have to hear of now, in the order of their
// labels, and notes that they have: those that have begun to fire, and those that
// nobody cares for. An acknowledgement ends with its time, and then the alert is
// told at once.
func (a Active) Tell(at time.Time) []State {
	var due []State
	for _, s := range a.List() {
		if s.Acknowledged != nil && !at.Before(s.Acknowledged.Until) {
			s.Acknowledged, s.Told = nil, time.Time{}
		}
		switch {
		case s.Phase != Firing:
			s.Told = time.Time{}
		case s.Told.IsZero(), s.Acknowledged == nil && at.Sub(s.Told) >= Repeat:
			s.Told = at
			due = append(due, s)
		}
		a[s.Fingerprint] = s
	}
	return due
}
