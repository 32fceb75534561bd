package alert

import "time"

// Repeat is the time after which an alert is published again if it still fires and nobody
// has acknowledged it.
const Repeat = 4 * time.Hour

// Tell returns the alerts to publish now, in the order of their labels, and marks them as
// published: those that have begun to fire, and those that are due again and not
// acknowledged. When an acknowledgement expires, Tell returns the alert at once.
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
