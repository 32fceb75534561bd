package alert

import "time"

// The limits of Restore, which are Prometheus' own.
const (
	// Tolerance is how long the daemon may have been down: what was true before
	// that says nothing about now.
	Tolerance = time.Hour
	// Grace is how long a restored alert stays pending at least. Whatever was
	// about to fire when the daemon went down gets this time to end by itself.
	Grace = 10 * time.Minute
)

// Restore returns the alerts of a rule after a restart at the given time, from
// those that were kept when the daemon was last seen. It is Prometheus' own
// decision, but for one thing: an alert that fired goes on firing, so that the
// restart is not the end of it and the beginning of another one. It returns the
// alerts that fired and are dropped, because the daemon was down for too long.
//
// A pending alert of a rule with a time below Grace begins anew. One that had
// less than Grace to go fires after Grace; another one after the time it had to
// go: the time in which the daemon was down does not count.
func (r *Rule) Restore(kept []State, seen, at time.Time) (active Active, dropped []State) {
	active = Active{}
	down := max(at.Sub(seen), 0) // a clock that went back
	// What was read from a file follows the clock of the wall. From here on the
	// times follow the clock of at, which may be one that never jumps.
	rebase := func(t time.Time) time.Time {
		if t.IsZero() {
			return t
		}
		return at.Add(t.Sub(at))
	}
	seen = rebase(seen)
	for _, s := range kept {
		s.ActiveAt, s.FiredAt, s.KeptSince, s.Told = rebase(s.ActiveAt), rebase(s.FiredAt), rebase(s.KeptSince), rebase(s.Told)
		if s.ActiveAt.After(seen) {
			s.ActiveAt = seen
		}
		switch left := r.For - seen.Sub(s.ActiveAt); {
		case down > Tolerance:
			if s.Phase == Firing {
				dropped = append(dropped, s)
			}
			continue
		case s.Phase == Firing:
			// Times on a clock that went back lie ahead.
			s.ActiveAt, s.FiredAt, s.Told = earlier(s.ActiveAt, at.Add(-r.For)), earlier(s.FiredAt, at), earlier(s.Told, at)
			if !s.KeptSince.IsZero() {
				s.KeptSince = earlier(s.KeptSince, at)
			}
		case r.For < Grace:
			continue
		case left <= 0:
			s.ActiveAt = earlier(s.ActiveAt, at.Add(-r.For))
		case left < Grace:
			s.ActiveAt = at.Add(Grace - r.For)
		default:
			s.ActiveAt = at.Add(left - r.For)
		}
		active[s.Fingerprint] = s
	}
	return active, dropped
}

// earlier returns the earlier of two times.
func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
