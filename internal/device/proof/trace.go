package proof

import "slices"

// Trace says whose programs may have left something in the free memory of a
// device. The zero Trace says that anybody's may have.
type Trace struct {
	known bool
	users []string
}

// TraceOf returns the trace of a device whose free memory was overwritten, and on which
// programs of these users run, or are about to run.
func TraceOf(users ...string) Trace {
	slices.Sort(users)
	return Trace{known: true, users: slices.Compact(users)}
}

// Used returns the trace after a user has had memory of the device, too.
func (t Trace) Used(user string) Trace {
	if !t.known {
		return t
	}
	return TraceOf(append(slices.Clone(t.users), user)...)
}

// Others reports whether anybody but user may have left something.
func (t Trace) Others(user string) bool {
	return !t.known || slices.ContainsFunc(t.users, func(other string) bool { return other != user })
}
