package file

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
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

// Nobody gets what is saved by a pipe or a file of theirs in a folder of everybody, and
// what is secret goes into no pipe at all.
func TestSaveAndTraps(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a pipe of another user")
	}
	pipe := func(path string) error { return unix.Mkfifo(path, 0o666) }
	plain := func(path string) error { return os.WriteFile(path, nil, 0o600) }
	for name, c := range map[string]struct {
		lay    func(path string) error
		owner  int
		secret bool
		want   string // of what is there afterwards
	}{
		"a pipe of another user":             {pipe, 4242, false, "-rw-r--r--"},
		"a file of another user":             {plain, 4242, false, "-rw-r--r--"},
		"a secret for a pipe of another one": {pipe, 4242, true, "-rw-------"},
		"a secret for a file of another one": {plain, 4242, true, "-rw-------"},
		"a secret for one's own pipe":        {pipe, 0, true, "prw-rw-rw-"},
	} {
		folder := filepath.Join(t.TempDir(), "shared")
		path := filepath.Join(folder, "report.html")
		if err := errors.Join(os.Mkdir(folder, 0o700), os.Chmod(folder, os.ModeSticky|0o777), c.lay(path), os.Lchown(path, c.owner, -1), os.Chmod(path, 0o666)); err != nil {
			t.Fatal(err)
		}
		reader, err := os.OpenFile(path, os.O_RDWR, 0) // with it, a writer is not held up
		if err != nil {
			t.Fatal(err)
		}
		save := Save
		if c.secret {
			save = SaveSecret
		}
		err = save(path, func(w io.Writer) error {
			_, err := io.WriteString(w, "new")
			return err
		})
		_ = reader.Close()
		info, other := os.Lstat(path)
		if other != nil || info.Mode().String() != c.want || (err != nil) != (c.want[0] == 'p') {
			t.Errorf("%s: it is %v: %v, %v", name, info.Mode(), err, other)
		}
		if own := info.Sys().(*syscall.Stat_t).Uid; own != 0 {
			t.Errorf("%s: it belongs to %d", name, own)
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
