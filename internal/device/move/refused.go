package move

// RefusedError says why a lease was not parked or resumed. berth has changed nothing, or
// has undone the changes.
type RefusedError struct {
	Do   string // "park" or "resume"
	ID   string // of the lease
	Code Refusal
	Why  string // continues "cannot park ID: "
	Next string // what to do about it, in a sentence; may be empty
}

// Refusal is the stable name of a reason.
type Refusal string

// The reasons.
const (
	Unparkable   Refusal = "cannot_park"       // the lease, its programs or the driver do not allow it
	Unmoved      Refusal = "parking_failed"    // the driver refused a step
	NoHost       Refusal = "no_host_memory"    // the memory of the machine has no room
	MemoryShared Refusal = "may_share_memory"  // its processes may share memory of the device, which the driver loses
	Shared       Refusal = "shares_memory"     // one of its processes has opened memory of another one
	Busy         Refusal = "already_moving"    // its memory is on its way already
	NoRights     Refusal = "no_rights_to_park" // the daemon may not touch its processes
	NotResuming  Refusal = "cannot_resume"     // it is parked, and cannot come back now
)

func (e *RefusedError) Error() string {
	return "cannot " + e.Do + " " + e.ID + ": " + e.Why
}
