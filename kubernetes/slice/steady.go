package slice

import "time"

// rise is how long an increase must last before it is published.
const rise = time.Minute

// steady follows a number: down at once, up only after it has been higher by a margin for
// a minute, and then to the lowest value of that minute. So a number that goes up and
// down stays the same.
type steady struct {
	value  int64
	known  bool
	since  time.Time // since when it has been higher by the margin; zero if it is not
	lowest int64     // the lowest value in that time
}

// follow returns the number to publish.
func (s *steady) follow(now time.Time, target, margin int64) int64 {
	switch {
	case !s.known || target <= s.value:
		s.value, s.known, s.since = target, true, time.Time{}
	case target < s.value+max(margin, 1):
		s.since = time.Time{}
	case s.since.IsZero() || now.Before(s.since):
		s.since, s.lowest = now, target
	default:
		s.lowest = min(s.lowest, target)
		if now.Sub(s.since) >= rise {
			s.value, s.since = s.lowest, time.Time{}
			if target >= s.value+max(margin, 1) {
				s.since, s.lowest = now, target // there may be more in another minute
			}
		}
	}
	return s.value
}
