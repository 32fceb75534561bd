package kinship

import "testing"

// A program that may make control groups cannot go over to another pod by a name.
func TestNestedPods(t *testing.T) {
	const (
		one = "0d9f7e4c-4f3e-4b0f-9d77-000000000001"
		two = "0d9f7e4c-4f3e-4b0f-9d77-000000000002"
	)
	for _, c := range []struct {
		paths    []string
		one, two bool
	}{
		{[]string{"/kubepods/pod" + one + "/c"}, true, false},
		{[]string{"/kubepods/pod" + one + "/c/pod" + two}, true, false},
		{[]string{"/kubepods.slice/kubepods-pod0d9f7e4c_4f3e_4b0f_9d77_000000000001.slice/cri-c.scope/x-pod" + two + "/y"}, true, false},
		{[]string{"/kubepods/pod" + one + "/c", "/kubepods/pod" + one + "/c/pod" + two}, true, false},
		{[]string{"/docker/abc/kubelet/kubepods/pod" + two + "/c"}, false, true},
		{[]string{"/../pod" + two + "/c"}, false, true},
		{[]string{"/user.slice/user-1000.slice/user@1000.service/kubepods/pod" + two}, false, false},
	} {
		f := Facts{Cgroups: c.paths}
		if in := f.inScope([]string{"pod" + one}); in != c.one {
			t.Errorf("%q: in the first pod is %v", c.paths, in)
		}
		if in := f.inScope([]string{"pod" + two}); in != c.two {
			t.Errorf("%q: in the second pod is %v", c.paths, in)
		}
	}
}
