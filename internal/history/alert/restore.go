package alert

import "time"

// The limits of Restore, which are those of Prometheus.
const (
	// Tolerance is how long the daemon may have been down. Older alerts say nothing about
	// the present.
	Tolerance = time.Hour
	// Grace is the shortest time for which a restored alert stays pending. An alert that
	// was about to fire when the daemon went down gets this time to end by itself.
	Grace = 10 * time.Minute
)

// Restore returns the alerts of a rule after a restart at the given time, from those that
// were kept when the daemon was last seen. It decides as Prometheus does, with one
// exception: an alert that fired goes on firing, so that the restart does not end it and
// begin another one. Restore also returns the firing alerts that it drops, because the
// daemon was down for too long.
//
// A pending alert of a rule with a time below Grace begins anew. An alert that had less
// than Grace to go fires after Grace. Any other fires after the time that it had to go:
// the downtime of the daemon does not count.
func (r *Rule) Restore(kept []State, seen, at time.Time) (active Active, dropped []State) {
	active = Active{}
	down := max(at.Sub(seen), 0) // the clock may have gone back
	// Times from a file follow the wall clock. From here on they follow the clock of at,
	// which may be monotonic.
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
			// After the clock went back, times may lie ahead.
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
