package mps

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A folder on the way that somebody could have put there is refused, and nothing
// that a link leads to is given to the user.
func TestFoldersThatAreNotOurs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root hands folders over")
	}
	install(t)
	user, device := strconv.Itoa(nobody), filepath.Join(strconv.Itoa(nobody), "GPU-a")
	for name, c := range map[string]struct {
		spoil func(mps, elsewhere string) error
		says  string
	}{
		"a link for all": {func(mps, elsewhere string) error {
			return os.Symlink(elsewhere, mps)
		}, "is no folder"},
		"a link for the user": {func(mps, elsewhere string) error {
			_ = os.Mkdir(mps, 0o711)
			return os.Symlink(elsewhere, filepath.Join(mps, user))
		}, "is no folder"},
		"a link for the pipes": {func(mps, elsewhere string) error {
			_ = os.MkdirAll(filepath.Join(mps, device), 0o711)
			return os.Symlink(elsewhere, filepath.Join(mps, device, "pipe"))
		}, "is no folder"},
		"a folder of the user": {func(mps, _ string) error {
			_ = os.MkdirAll(filepath.Join(mps, user), 0o711)
			return os.Chown(filepath.Join(mps, user), nobody, nobody)
		}, "belongs to user 65534"},
		"a folder for everybody": {func(mps, _ string) error {
			_ = os.MkdirAll(filepath.Join(mps, device), 0o711)
			return os.Chmod(filepath.Join(mps, device), 0o777)
		}, "chmod go-w"},
		"pipes of another user": {func(mps, _ string) error {
			_ = os.MkdirAll(filepath.Join(mps, device, "pipe"), 0o711)
			return os.Chown(filepath.Join(mps, device, "pipe"), nobody-1, nobody-1)
		}, "belongs to user 65533"},
	} {
		t.Run(name, func(t *testing.T) {
			p, elsewhere := newPool(t, 0), t.TempDir()
			if err := c.spoil(p.Dir, elsewhere); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Use(t.Context(), "GPU-a", nobody, 1); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("it said %v, want %s", err, c.says)
			}
			info, err := os.Stat(elsewhere)
			if err != nil {
				t.Fatal(err)
			}
			if owner, _ := ownerOf(info); owner != 0 {
				t.Errorf("what the link leads to belongs to user %d", owner)
			}
			if left, err := os.ReadDir(elsewhere); err != nil || len(left) != 0 {
				t.Errorf("where the link leads to there is %v, %v", left, err)
			}
		})
	}
	for _, uuid := range []string{"", ".", "..", "../GPU-a", "a/b"} {
		if _, err := newPool(t, 0).Use(t.Context(), uuid, os.Geteuid(), 1); err == nil {
			t.Errorf("%q was taken for a device", uuid)
		}
	}
}

// A mask that closes new folders does not keep users from their pipes.
func TestUsersPassThrough(t *testing.T) {
	p := newPool(t, 0)
	k := key{"GPU-a", os.Geteuid()}
	if err := os.MkdirAll(p.dirOf(k), 0o700); err != nil {
		t.Fatal(err)
	}
	dir, err := p.folder(k, true)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for path := dir.Name(); path != filepath.Dir(p.Dir); path = filepath.Dir(path) {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o711 {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
	}
}
