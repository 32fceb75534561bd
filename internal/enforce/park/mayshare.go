package park

import (
	"fmt"
	"slices"

	"github.com/berth-gpu/berth/internal/device/move"
)

// Imports returns a process that has opened memory of another one. The driver would take
// it off the device and never bring it back. Imports returns false if there is none.
func Imports(all []move.Outcome) (move.Outcome, bool) {
	for _, o := range all {
		if o.Imported > 0 && (o.State == move.Running || o.State == move.Locked) {
			return o, true
		}
	}
	return move.Outcome{}, false
}

// User is a process that uses the device of a lease.
type User struct {
	Line []move.Process // itself, then its ancestors, nearest first
	Ours bool           // it belongs to the lease
}

// MayShare returns why the processes of a lease may share memory of their device, with
// each other or with processes outside the lease, to follow a colon. It returns "" if one
// process uses the device alone.
//
// The driver takes a process that has opened memory of another one (CUDA IPC) off the
// device, and never brings it back. It does not distinguish such a process from others.
// So MayShare counts every process that could have been handed memory: other processes of
// the lease, their ancestors and descendants, and all descendants of the parent of the
// lease's holder, above all the holder's siblings. The first process of the machine makes
// nobody a sibling, and neither does the daemon, which starts the minders of jobs.
func MayShare(holder move.Process, daemon int, on []User) string {
	var ours, others []User
	for _, u := range on {
		switch {
		case len(u.Line) == 0: // it has ended
		case u.Ours:
			ours = append(ours, u)
		default:
			others = append(others, u)
		}
	}
	if len(ours) > 1 {
		return fmt.Sprintf("%d of its processes use the device, such as %d and %d, and may share memory there", len(ours), ours[0].Line[0].PID, ours[1].Line[0].PID)
	}
	for _, u := range ours {
		near := u.Line[:min(len(u.Line), slices.Index(u.Line, holder)+2)]
		if !slices.Contains(u.Line, holder) {
			near = u.Line[:min(len(u.Line), 2)]
		}
		for _, other := range others {
			if slices.Contains(u.Line, other.Line[0]) || slices.ContainsFunc(other.Line, func(p move.Process) bool { return p.PID > 1 && p.PID != daemon && slices.Contains(near, p) }) {
				return fmt.Sprintf("process %d, which is related to its process %d, uses the device outside of the lease, and may share memory with it", other.Line[0].PID, u.Line[0].PID)
			}
		}
	}
	return ""
}
