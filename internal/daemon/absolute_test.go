package daemon

import (
	"testing"
)

// Programs that the daemon tells of its folder and its socket run in other folders.
func TestAbsolute(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for path, want := range map[string]string{"": "", "state": dir + "/state", "./s/berth.sock": dir + "/s/berth.sock", "/run/berth": "/run/berth"} {
		if got := absolute(path); got != want {
			t.Errorf("%q is %q, want %q", path, got, want)
		}
	}
}
