package kinship

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// Match says how to recognize the processes of a service by its settings. Empty fields do
// not matter; a field other than User must be set.
type Match struct {
	Unit    string // see Lease.Unit
	Cgroup  string // path of a control group; groups below it count too
	Program string // one of the names of the process
	User    string // login name or number; empty means the user of the lease
}

// likely lists the kinds of evidence that are not certain, strongest first.
var likely = []struct {
	by   Evidence
	fits func(*Facts, *Lease) bool
}{
	{Unit, (*Facts).fitsUnit},
	{Service, (*Facts).fitsService},
	{Program, (*Facts).fitsProgram},
}

// likely returns the lease that the strongest of these kinds fits. If that kind fits
// several leases, the process belongs to them only if they are alike; otherwise it
// belongs to none, and likely tries no weaker kind.
func (r Register) likely(f *Facts) (Tie, bool) {
	for _, kind := range likely {
		t := Tie{By: kind.by}
		var first *Lease
		belongs := true
		for i := range r.Here.likely {
			l := &r.Here.likely[i]
			if !kind.fits(f, l) {
				continue
			}
			if first == nil {
				first = l
			}
			belongs = belongs && (l == first || alike(kind.by, l, first))
			t.Leases = append(t.Leases, l.Fence)
		}
		if first != nil {
			return t, belongs
		}
	}
	return Tie{}, false
}

// fits reports whether any of these kinds fits a lease.
func (f *Facts) fits(l *Lease) bool {
	for _, kind := range likely {
		if len(l.Scope) == 0 && kind.fits(f, l) {
			return true
		}
	}
	return false
}

// alike reports whether it makes no difference to which of two leases a process is
// charged: both are of one user for one service, like those of replicas. If the settings
// describe the processes of a service, its leases of other users count too: otherwise a
// user could take processes away from a service by leasing for the service as well.
func alike(by Evidence, a, b *Lease) bool {
	return a.Service != "" && a.Service == b.Service && (a.UID == b.UID || by == Service)
}

func (f *Facts) fitsUnit(l *Lease) bool {
	return l.Unit != "" && f.runsAs(l.UID) && f.InUnit(l.Unit)
}

// fitsService ignores leases that end with a process, because that process determines
// which others work for it.
func (f *Facts) fitsService(l *Lease) bool {
	m := l.Match
	if m == nil || l.Bound || m.Unit == "" && m.Cgroup == "" && m.Program == "" {
		return false
	}
	return f.isUser(m.User, l.UID) &&
		(m.Unit == "" || f.InUnit(m.Unit)) &&
		(m.Cgroup == "" || f.below(m.Cgroup)) &&
		(m.Program == "" || f.isCalled(m.Program))
}

// isUser reports whether the process runs as the user with this login name or number, or,
// if name is empty, as the user with this uid.
func (f *Facts) isUser(name string, uid int) bool {
	if name == "" {
		return f.runsAs(uid)
	}
	id, known := f.UID.Get()
	return known && (name == f.User || name == strconv.Itoa(id))
}

// fitsProgram ignores leases that end with a process, and names that say nothing about
// the program, such as python3.
func (f *Facts) fitsProgram(l *Lease) bool {
	if l.Bound || !f.runsAs(l.UID) {
		return false
	}
	for _, name := range [...]string{l.Service, l.ID, l.Name} {
		if name != "" && !isInterpreter(name) && f.isCalled(name) {
			return true
		}
	}
	return false
}

// Programs returns these names of a process, each once and without its folder. It leaves
// out empty ones.
func Programs(names ...string) []string {
	var programs []string
	for _, name := range names {
		if name = path.Base(strings.TrimSuffix(name, " (deleted)")); name != "." && name != "/" && !slices.Contains(programs, name) {
			programs = append(programs, name)
		}
	}
	return programs
}

// interpreters lists programs that run other programs, so that their names do not say
// which program it is.
var interpreters = map[string]bool{
	"python": true, "pypy": true, "ipython": true, "sh": true, "bash": true, "dash": true, "zsh": true, "node": true, "java": true,
	"julia": true, "perl": true, "ruby": true, "R": true, "Rscript": true, "lua": true,
}

// isInterpreter reports whether a name is that of an interpreter, in any version:
// python3.12 is python.
func isInterpreter(name string) bool { return interpreters[strings.TrimRight(name, "0123456789.")] }

// isCalled reports whether the process has this name, where _ and - are the same.
func (f *Facts) isCalled(name string) bool {
	return slices.ContainsFunc(f.Programs, func(own string) bool { return sameName(own, name) })
}

func sameName(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if dashed(a[i]) != dashed(b[i]) {
			return false
		}
	}
	return true
}

func dashed(c byte) byte {
	if c == '_' {
		return '-'
	}
	return c
}
