package kinship

import (
	"slices"
	"strings"
)

// ParseCgroups returns the paths in a file /proc/PID/cgroup, each once and
// without the root, which every process is in. There is one path with cgroup v2,
// and there may be several with v1.
func ParseCgroups(text string) []string {
	var paths []string
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) < 3 {
			continue
		}
		if path := fields[2]; path != "/" && strings.HasPrefix(path, "/") && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// inScope reports whether a control group of the process, or one around it, has one of
// these names, where nobody can choose the name to enter the scope; see unchosen.
func (f *Facts) inScope(names []string) bool {
	if len(names) == 0 {
		return false
	}
	for component := range f.unchosen() {
		if named(component, names) {
			return true
		}
	}
	return false
}

// sameScope reports whether a control group has this name. It ignores the endings .slice
// and .scope, and reads _ as -. A name of the form pod and a UID matches the end of the
// control group's name, because a kubelet writes the class of the pod before it.
func sameScope(component, name string) bool {
	component, name = bare(component), bare(name)
	if sameName(component, name) {
		return name != ""
	}
	before := len(component) - len(name) - 1
	return strings.HasPrefix(name, "pod") && len(name) > len("pod") && before >= 0 && dashed(component[before]) == '-' && sameName(component[before+1:], name)
}

// PodOf returns the UID of the Kubernetes pod on the paths of control groups, in lower
// case and with dashes, or "" if there is none.
func PodOf(paths []string) string {
	f, uid := Facts{Cgroups: paths}, ""
	f.inside(func(component string) bool {
		uid = podIn(component)
		return uid != ""
	})
	return uid
}

// podIn returns the UID of the pod that a control group is named after, or "" if there is
// none.
func podIn(component string) string {
	component = bare(component)
	at := len(component) - podUID
	if at < len("pod") || component[at-len("pod"):at] != "pod" || at > len("pod") && dashed(component[at-len("pod")-1]) != '-' {
		return ""
	}
	if uid := strings.ToLower(strings.ReplaceAll(component[at:], "_", "-")); isUID(uid) {
		return uid
	}
	return ""
}

const podUID = 36 // characters: 8-4-4-4-12

func isUID(text string) bool {
	for i, c := range []byte(text) {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (c == '-') || !dash && !isHex(string(c)) {
			return false
		}
	}
	return len(text) == podUID
}

func bare(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, ".slice"), ".scope")
}

// InUnit reports whether a control group of the process, or one around it, is a systemd
// unit or a container. The name of a unit may lack the ending .service or .scope; the
// name of a container is its id, or the first 12 or more digits of it. A group that many
// programs share is not a unit; see SharedUnit.
func (f *Facts) InUnit(name string) bool {
	return name != "" && f.inside(func(component string) bool {
		return !SharedUnit(component) && (component == name || component == name+".service" || component == name+".scope" || isContainer(component, name))
	})
}

// isContainer reports whether a control group belongs to a container. Runtimes write a
// prefix such as docker- before the id, or nothing.
func isContainer(component, id string) bool {
	if len(id) < 12 || !isHex(id) {
		return false
	}
	component = bare(component)
	own := component[strings.LastIndexByte(component, '-')+1:]
	return isHex(own) && strings.HasPrefix(own, id)
}

func isHex(text string) bool { return strings.Trim(text, "0123456789abcdef") == "" }

// SharedUnit reports whether a control group holds unrelated programs: those of a login
// session, of a user's service manager, of a slice, or of the machine.
func SharedUnit(name string) bool {
	return name == "" || name == "init.scope" || strings.HasSuffix(name, ".slice") ||
		strings.HasPrefix(name, "session-") && strings.HasSuffix(name, ".scope") ||
		strings.HasPrefix(name, "user@") && strings.HasSuffix(name, ".service")
}

// below reports whether the process is in a control group, or in one inside it.
func (f *Facts) below(path string) bool {
	path = "/" + strings.Trim(path, "/")
	return path != "/" && slices.ContainsFunc(f.Cgroups, func(own string) bool {
		return own == path || strings.HasPrefix(own, path+"/")
	})
}

// inside reports whether is returns true for a component of a path of the process's
// control groups.
func (f *Facts) inside(is func(component string) bool) bool {
	for _, path := range f.Cgroups {
		for component := range strings.SplitSeq(path, "/") {
			if component != "" && component != ".." && is(component) {
				return true
			}
		}
	}
	return false
}
