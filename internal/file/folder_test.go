package file

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFolder(t *testing.T) {
	defer unix.Umask(unix.Umask(0)) // the mode does not depend on it
	folder := filepath.Join(t.TempDir(), "log")
	d := Dir(folder)
	if names, err := Names(d); names != nil || err != nil {
		t.Errorf("before there is a folder: %v, %v", names, err)
	}
	if _, err := d.List(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before there is a folder: %v", err)
	}
	if _, err := d.Open("a"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before there is a file: %v", err)
	}
	write := func(open func(string) (File, error), text string, at int64) {
		t.Helper()
		f, err := open("a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte(text), at); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	write(d.Create, "one\n", 0)
	write(d.Open, "two\n", 4)
	if text, err := d.ReadFile("a"); string(text) != "one\ntwo\n" || err != nil {
		t.Errorf("it has %q, %v", text, err)
	}
	for path, want := range map[string]os.FileMode{folder: os.ModeDir | 0o750, filepath.Join(folder, "a"): 0o640} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
	}
	if err := errors.Join(d.Rename("a", "b"), d.Sync()); err != nil {
		t.Error(err)
	}
	if names, err := d.List(); !slices.Equal(names, []string{"b"}) || err != nil {
		t.Errorf("names %v, %v", names, err)
	}
	write(d.Create, "three", 0)
	write(d.Create, "3", 0)
	if text, err := d.ReadFile("a"); string(text) != "3" || err != nil {
		t.Errorf("it has %q, %v", text, err)
	}
	if err := errors.Join(d.Rename("a", "b"), d.Remove("b")); err != nil {
		t.Error(err)
	}
}

// The modes do not depend on the mask of the process.
func TestModes(t *testing.T) {
	for _, c := range []struct {
		open         func(string) Folder
		mask         int
		folder, file os.FileMode
	}{
		{PrivateDir, 0, 0o700, 0o600},
		{Dir, 0, 0o750, 0o640},
		{Dir, 0o077, 0o750, 0o640},
	} {
		folder := filepath.Join(t.TempDir(), "log")
		before := unix.Umask(c.mask)
		f, err := c.open(folder).Create("a")
		unix.Umask(before)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		for path, want := range map[string]os.FileMode{folder: os.ModeDir | c.folder, filepath.Join(folder, "a"): c.file} {
			if info, err := os.Stat(path); err != nil || info.Mode() != want {
				t.Errorf("with the mask %o, %s has mode %v, %v", c.mask, path, info.Mode(), err)
			}
		}
	}
}

// A file that others could read is closed to them, and what is no file of ours
// is refused without waiting for it.
func TestOpenWhatIsThere(t *testing.T) {
	folder := t.TempDir()
	path, other := filepath.Join(folder, "a"), filepath.Join(t.TempDir(), "other")
	for _, name := range []string{path, other} {
		if err := os.WriteFile(name, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Dir(folder).Open("a")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	for name, make := range map[string]func(path string) error{
		"a link":   func(path string) error { return os.Symlink(other, path) },
		"a pipe":   func(path string) error { return unix.Mkfifo(path, 0o666) },
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		if err := errors.Join(os.Remove(path), make(path)); err != nil {
			t.Fatal(err)
		}
		if _, err := Dir(folder).Open("a"); err == nil {
			t.Errorf("%s was opened", name)
		}
	}
}

// A file whose name leads elsewhere says so.
func TestSize(t *testing.T) {
	folder := t.TempDir()
	for name, spoil := range map[string]func(path string) error{
		"removed":  os.Remove,
		"replaced": func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o640)) },
	} {
		f, err := Dir(folder).Create("a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("text"), 0); err != nil {
			t.Fatal(err)
		}
		if size, err := f.Size(); size != 4 || err != nil {
			t.Errorf("size %d, %v", size, err)
		}
		if err := spoil(filepath.Join(folder, "a")); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Size(); !errors.Is(err, ErrMoved) {
			t.Errorf("%s: %v", name, err)
		}
		_ = f.Close()
		_ = os.Remove(filepath.Join(folder, "a"))
	}
}
