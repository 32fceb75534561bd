package pace

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/berth-gpu/berth/internal/process"
)

// A program is berth's own by who owns its file, and not by its name alone: a
// user must not escape by calling a program berth-train.
func TestBerthIsNotAName(t *testing.T) {
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Skip(err)
	}
	runs := func(name string, owner int, mode os.FileMode) bool {
		t.Helper()
		path := filepath.Join(t.TempDir(), name)
		text, err := os.ReadFile(cat)
		if err == nil {
			err = os.WriteFile(path, text, 0o755)
		}
		if err == nil {
			err = os.Chmod(path, mode)
		}
		if err == nil && owner != os.Geteuid() {
			err = os.Chown(path, owner, -1)
		}
		if err != nil {
			t.Fatal(err)
		}
		p := start(t, "exec "+path, nil)
		_, _ = p.in.Write([]byte("x")) // it answers once it runs
		if _, err := p.out.ReadByte(); err != nil {
			t.Fatal(err)
		}
		return isBerth(process.Proc(), p.id.PID)
	}
	if !runs("berth", os.Geteuid(), 0o755) || !runs("berth-serve", os.Geteuid(), 0o755) {
		t.Error("berth's own programs are not taken for berth")
	}
	if runs("train", os.Geteuid(), 0o755) || runs("berth-train", os.Geteuid(), 0o777) {
		t.Error("another name, or a file that everybody can change, is taken for berth")
	}
	if os.Geteuid() == 0 && runs("berth-train", 65534, 0o755) {
		t.Error("a user's program is taken for berth")
	}
}
