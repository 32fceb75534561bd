package launch

import "strings"

// What keeps a program from the devices of others.
const (
	ByEnv    = "env"    // its environment names the devices of the lease
	ByCgroup = "cgroup" // the kernel refuses to open the others
)

// isolationVariable tells a program that the kernel keeps it from the devices of
// others.
const isolationVariable = "BERTH_ISOLATION"

// InCgroup reports whether changes of an environment, see Changes, are those of
// a program that has to be in the control group of its lease before it begins.
func InCgroup(changes []string) bool {
	for _, c := range changes {
		if c == isolationVariable+"="+ByCgroup {
			return true
		}
	}
	return false
}

// separate writes into the receipt what is between this program and others: who
// keeps it from their devices, and who clears the memory that they had.
func (e *editor) separate(ladder Ladder, r *Receipt) {
	r.IsolatedBy, r.ClearedBy = ByEnv, ladder.ClearedBy
	if ladder.Isolation == ByCgroup {
		r.IsolatedBy = ByCgroup
		e.set(isolationVariable, ByCgroup)
		r.hold("other NVIDIA GPUs: the kernel does not let it open them (control group with a device filter)")
		r.miss("root, and a user who owns a control group around the program, can move it out of its own")
	} else {
		r.miss("other GPUs: they are hidden by variables, which a program can change; --isolation cgroup makes the kernel refuse them")
	}
	switch {
	case strings.HasPrefix(ladder.ClearedBy, "driver"):
		r.hold("memory of earlier programs: cleared_by: %s", ladder.ClearedBy)
	case ladder.ClearedBy != "":
		r.miss("memory of earlier programs: cleared_by: %s; bench/gpu/residue.sh looks whether any is left", ladder.ClearedBy)
	}
}
