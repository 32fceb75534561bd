package outcome

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLocate(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	err = errors.Join(
		os.MkdirAll(in("a/b"), 0o700), os.WriteFile(in("a/file"), nil, 0o600),
		os.Symlink("a/file", in("relative")), os.Symlink(in("a/file"), in("absolute")),
		os.Symlink("a/b", in("folder")), os.Symlink("../../relative", in("a/b/chain")),
		os.Symlink("a/new", in("dangling")), os.Symlink("circle", in("circle")), os.Symlink("nowhere/x", in("broken")),
	)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"plain": "plain", "a/file": "a/file", "a/./b/../file": "a/file",
		"relative": "a/file", "absolute": "a/file", "folder/x": "a/b/x", "folder/chain": "a/file", "folder/../x": "a/x",
		"dangling": "a/new",
		"circle":   "", "broken": "", "missing/x": "", "a": "", "a/": "", "a/file/x": "", "folder": "", "a/..": "",
	} {
		s, err := locate(dir + "/" + path)
		if err != nil {
			if want != "" || !strings.HasPrefix(err.Error(), "output "+dir) {
				t.Errorf("%s: %v, want %q", path, err, want)
			}
			continue
		}
		s.close()
		if s.path != in(want) || s.name != filepath.Base(want) {
			t.Errorf("%s leads to %s (%s), want %s", path, s.path, s.name, in(want))
		}
	}
	t.Chdir(in("a"))
	for path, want := range map[string]string{"new": "new", "../relative": "../a/file", "b/chain": "../a/file"} {
		s, err := locate(path)
		if err != nil {
			t.Error(err)
			continue
		}
		s.close()
		if s.path != want {
			t.Errorf("%s leads to %s, want %s", path, s.path, want)
		}
	}
}

// Anybody may put a link into a folder such as /tmp.
func TestLinksOfAnotherUser(t *testing.T) {
	asRoot(t)
	for name, test := range map[string]struct {
		folder, link int // owners
		followed     bool
	}{
		"a stranger's in a shared folder": {0, nobody, false},
		"a stranger's in somebody's":      {nobody - 1, nobody, false},
		"the owner's of the folder":       {nobody, nobody, true},
		"root's":                          {nobody, 0, true},
	} {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		file, folder := filepath.Join(dir, "file"), filepath.Join(dir, "shared")
		toFile, toFolder := filepath.Join(folder, "out.jsonl"), filepath.Join(folder, "sub")
		err = errors.Join(
			os.WriteFile(file, []byte("old\n"), 0o600), os.Mkdir(folder, 0o700), os.Chmod(folder, 0o777|os.ModeSticky), os.Lchown(folder, test.folder, 0),
			os.Symlink(file, toFile), os.Lchown(toFile, test.link, 0),
			os.Symlink(dir, toFolder), os.Lchown(toFolder, test.link, 0),
		)
		if err != nil {
			t.Fatal(err)
		}
		for _, output := range []string{toFile, filepath.Join(toFolder, "file")} {
			err := attempt(t, output, true)
			text, _ := os.ReadFile(file)
			if test.followed && (err != nil || string(text) == "old\n") {
				t.Errorf("%s: %v, the file is %q; want the link to be followed", name, err, text)
			}
			if !test.followed && (!errors.Is(err, ErrUnsafe) || string(text) != "old\n") {
				t.Errorf("%s: %v, the file is %q; want %v", name, err, text, ErrUnsafe)
			}
			if err := os.WriteFile(file, []byte("old\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}
