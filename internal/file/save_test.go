package file

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestSaveLeavesTheOldOneWhenItFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := Save(path, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half of it")
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "old" {
		t.Errorf("the file holds %q", text)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestSaveMakesOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	err := Save(path, func(w io.Writer) error {
		_, err := io.WriteString(w, "new")
		return err
	})
	if text, _ := os.ReadFile(path); string(text) != "new" || err != nil {
		t.Errorf("the file holds %q, error %v", text, err)
	}
}

// Nobody else can read what SaveSecret writes, even if they could read the file before.
func TestSaveSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, before := range []bool{false, true} {
		if before {
			if err := os.Chmod(path, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		err := SaveSecret(path, func(w io.Writer) error {
			_, err := io.WriteString(w, "secret")
			return err
		})
		info, other := os.Stat(path)
		if err != nil || other != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v, %v", info.Mode(), err, other)
		}
	}
}

// A link to a file stays one, unless somebody else has put it into a folder of everybody.
func TestSaveAndLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a link of another user")
	}
	for name, c := range map[string]struct {
		owner   int
		mode    os.FileMode
		follows bool
	}{
		"one's own":        {0, os.ModeSticky | 0o777, true},
		"a trap":           {4242, os.ModeSticky | 0o777, false},
		"in a safe folder": {4242, 0o755, true},
	} {
		root := t.TempDir()
		target, folder := filepath.Join(root, "target"), filepath.Join(root, "shared")
		link := filepath.Join(folder, "report.html")
		if err := errors.Join(os.WriteFile(target, []byte("old"), 0o600), os.Mkdir(folder, 0o700), os.Chmod(folder, c.mode), os.Symlink("../target", link), os.Lchown(link, c.owner, -1)); err != nil {
			t.Fatal(err)
		}
		err := Save(link, func(w io.Writer) error {
			_, err := io.WriteString(w, "new")
			return err
		})
		was, _ := os.ReadFile(target)
		is, _ := os.ReadFile(link)
		if err != nil || string(is) != "new" || (string(was) == "new") != c.follows {
			t.Errorf("%s: the file holds %q, where the link led %q: %v", name, is, was, err)
		}
	}
}

// Save writes into a pipe that has no name, as /dev/stdout of a command may be.
func TestSaveToAPipe(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	link := filepath.Join(t.TempDir(), "stdout")
	if err := os.Symlink(fmt.Sprintf("/proc/self/fd/%d", in.Fd()), link); err != nil {
		t.Fatal(err)
	}
	err = Save(link, func(w io.Writer) error {
		_, err := io.WriteString(w, "new")
		return err
	})
	if text, other := io.ReadAll(io.LimitReader(out, 3)); err != nil || other != nil || string(text) != "new" {
		t.Errorf("%q, %v, %v", text, err, other)
	}
	_ = in.Close()
}
