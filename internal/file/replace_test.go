package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func check(t *testing.T, path, want string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = Unseal(filepath.Base(path), text); err != nil || string(text) != want {
		t.Errorf("%s holds %q, %v; want %q", path, text, err, want)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
	}
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, text := range []string{"the first text", "short", ""} {
		if err := Replace(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		check(t, path, text)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"file"}) {
		t.Errorf("the folder holds %v", got)
	}
}

// What a killed writer left under the temporary name is replaced, and neither
// followed, waited for nor written through.
func TestReplaceWhatIsLeft(t *testing.T) {
	for name, leave := range map[string]func(temp, other string) error{
		"a file that others can read": func(temp, _ string) error { return os.WriteFile(temp, []byte("half of something long"), 0o644) },
		"a link":                      func(temp, other string) error { return os.Symlink(other, temp) },
		"a hard link":                 func(temp, other string) error { return os.Link(other, temp) },
		"a pipe":                      func(temp, _ string) error { return unix.Mkfifo(temp, 0o666) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, other := filepath.Join(dir, "file"), filepath.Join(t.TempDir(), "other")
			if err := Replace(other, []byte("untouched")); err != nil {
				t.Fatal(err)
			}
			if err := leave(path+suffix, other); err != nil {
				t.Fatal(err)
			}
			if err := Replace(path, []byte("new")); err != nil {
				t.Fatal(err)
			}
			check(t, path, "new")
			check(t, other, "untouched")
			if got := names(t, dir); !slices.Equal(got, []string{"file"}) {
				t.Errorf("the folder holds %v", got)
			}
		})
	}
}

// A write that fails leaves the old file, and nothing beside it.
func TestReplaceThatFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("new")); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if got := names(t, dir); !slices.Equal(got, []string{"folder"}) {
		t.Errorf("the folder holds %v", got)
	}
	if err := Replace(filepath.Join(dir, "missing", "file"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a folder it said %v", err)
	}
}

func TestRemoveStale(t *testing.T) {
	dir := t.TempDir()
	kept := []string{".new-", ".new-1a", ".new-12.txt", ".newer-12", "a.new-12", "config.yaml", "config.yaml.new", "new-12"}
	for _, name := range append([]string{".new-12", ".new-4294967295"}, kept...) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".new-7"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("config.yaml", filepath.Join(dir, ".new-8")); err != nil {
		t.Fatal(err)
	}
	if err := RemoveStale(dir); err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(slices.Values(append(kept, ".new-7", ".new-8")))
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("it left %v, want %v", got, want)
	}
	if err := RemoveStale(filepath.Join(dir, "missing")); err != nil {
		t.Errorf("without a folder it said %v", err)
	}
}
