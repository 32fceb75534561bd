package kinship

import (
	"slices"
	"strings"
	"testing"
)

// Whatever a control group is called, a process is in a unit only if one of its
// components has that name, and never in what all processes share.
func FuzzCgroups(f *testing.F) {
	f.Add("0::/system.slice/berth.service\n", "berth")
	f.Add("12:devices:/kubepods/burstable/pod1_2/abc\n0::/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-0123456789abcdef.scope\n", "0123456789ab")
	f.Add("0::/\n", "")
	f.Add("0::/user.slice/user-1.slice/session-3.scope", "session-3.scope")
	f.Add(":\n::\n:::/a//b/../c\n", "..")
	f.Fuzz(func(t *testing.T, text, name string) {
		paths := ParseCgroups(text)
		for i, path := range paths {
			if !strings.HasPrefix(path, "/") || path == "/" || slices.Contains(paths[:i], path) {
				t.Errorf("%q was read as %q", text, paths)
			}
		}
		facts := Facts{Cgroups: paths}
		if facts.InUnit(name) {
			if SharedUnit(name) && !strings.Contains(text, name+".service") && !strings.Contains(text, name+".scope") {
				t.Errorf("a process of %q is in the unit %q, which many programs share", paths, name)
			}
			if !strings.Contains(text, name) {
				t.Errorf("a process of %q is in the unit %q", paths, name)
			}
		}
		in := facts.inScope([]string{name})
		if _, acts := facts.ActsOn([]string{name}); acts && !in {
			t.Errorf("for the scope %q, berth acts on a process in %q, which is not in it", name, facts.Cgroups)
		}
		if origin := ParseOrigin(name, text, 1); origin.Lease != "" && origin.Lease != name {
			t.Errorf("%q has the origin %q", name, origin.Lease)
		}
	})
}
