package lease

import "time"

// ProgramUse says how the program of a service is used that berth runs.
type ProgramUse struct {
	Since  time.Time // since when it has been ready; zero while it comes, and it stays until then
	Idle   time.Time // since when it has had no open request, and none waits for it; zero while there are some
	Leaves bool      // it is on its way out
	Barred time.Time // until when it is not sent away, because that failed; zero if it did not

	Switch time.Duration // how long it takes to leave and to come back; zero if that is not known
}
