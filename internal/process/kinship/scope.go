package kinship

import (
	"iter"
	"slices"
	"strings"
)

// scopeKind is the kind of a control group. A scope may name pods, containers and units.
// Other control groups hold unrelated programs: an operator who named system.slice could
// make berth end all of them.
type scopeKind int

const (
	noScope   scopeKind = iota
	pod                 // of Kubernetes
	container           // of Docker, containerd, CRI-O or Podman
	unit                // a service or a scope of systemd
)

// MayScope reports whether a scope may have this name: that of a pod, of a container, or
// of a systemd service or scope for one program.
func MayScope(name string) bool { return kindOf(name) != noScope }

// ScopeForms says which names a scope may have. It follows a semicolon.
const ScopeForms = "name a pod (pod and its UID), a container (its id of 64 hexadecimal digits, also with a prefix as in docker-ID), or a systemd unit that ends in .service or .scope; never a slice, a login session, user@… or init.scope"

// kindOf returns the kind of a control group.
func kindOf(component string) scopeKind {
	own := bare(component)[strings.LastIndexByte(bare(component), '-')+1:]
	switch {
	case podIn(component) != "":
		return pod
	case SharedUnit(component), strings.HasPrefix(component, "user@"), strings.HasPrefix(component, "session-"):
		return noScope
	case len(own) == containerID && isHex(own):
		return container
	case strings.HasSuffix(component, ".service"), strings.HasSuffix(component, ".scope"):
		return unit
	}
	return noScope
}

const containerID = 64 // hexadecimal digits

// ActsOn reports whether berth may act on the process for a lease with this scope. If a
// unit is the reason, it returns the unit; then all processes of the unit must belong to
// one user, see OneUser.
func (f *Facts) ActsOn(scope []string) (in string, may bool) {
	for component, kind := range f.unchosen() {
		if kind != noScope && named(component, scope) {
			if kind == unit {
				in = component
			}
			return in, true
		}
	}
	return "", false
}

// unchosen yields the control groups of the process and around it that count for a scope,
// with their kinds: those whose names the program and its user cannot choose.
//
// Of nested pods and of nested containers only the outermost counts, and a unit only
// outside of all others, because programs may make control groups with any name below
// their own. So may users below their service manager, where nothing counts.
func (f *Facts) unchosen() iter.Seq2[string, scopeKind] {
	return func(yield func(string, scopeKind) bool) {
		for _, path := range f.Cgroups {
			seen := map[scopeKind]bool{}
			for component := range strings.SplitSeq(path, "/") {
				if strings.HasPrefix(component, "user@") {
					break
				}
				kind := kindOf(component)
				counts := component != "" && component != ".." && !seen[kind] && (kind != unit || len(seen) == 0)
				if counts && !yield(component, kind) {
					return
				}
				if kind != noScope {
					seen[kind] = true
				}
			}
		}
	}
}

// Around reports whether one of the process's control groups, or one around them, has
// this name.
func (f *Facts) Around(name string) bool {
	return f.inside(func(component string) bool { return sameScope(component, name) })
}

// named reports whether a control group has one of these names.
func named(component string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return sameScope(component, name) })
}
