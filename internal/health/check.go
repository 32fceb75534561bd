package health

import (
	"time"

	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/text/words"
)

// longestCheck is the longest text of a check that a standing keeps, in characters.
const longestCheck = 400

// CheckDue reports whether a device has to be checked now: it has been in quarantine long
// enough, and only a check lets it out.
func (s Standing) CheckDue(r Rules, now time.Time) bool {
	return r.Check && s.Phase == Quarantined && !s.Cleared && !now.Before(s.Until)
}

// Checked records the verdict of a check that began at a time and ends now.
//
// A device that passed may leave its quarantine, even before its time: somebody asked for
// the check. So may one that could not be checked, after its time. A device that failed
// stays, and its next check comes later each time; if it was trusted, its quarantine
// begins. A fault during the check counts for more than what the check found before it.
func (s *Standing) Checked(r Rules, began, now time.Time, v proof.Verdict, why string) {
	switch {
	case v == proof.Failed && s.Phase != Quarantined:
		s.Fail(r, now, "its check failed: "+words.Cut(why, longestCheck))
	case v == proof.Failed:
		s.Failed = min(s.Failed+1, mostRelapses)
		s.Check, s.Fault, s.Cleared = "its check failed: "+words.Cut(why, longestCheck), now, false
		s.Until = s.wait(r, now)
	case s.Phase != Quarantined || !s.Fault.Before(began):
	case v == proof.Passed:
		s.Check, s.Cleared = "its check passed", true
		if now.Before(s.Until) {
			s.Until = now
		}
	case !now.Before(s.Until):
		s.Check, s.Cleared = "it could not be checked: "+words.Cut(why, longestCheck), true
	}
}
