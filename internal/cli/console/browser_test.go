package console

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The file that leads to a link is for its user alone, wherever it is, and goes away.
func TestBrowse(t *testing.T) {
	open, closed := t.TempDir(), t.TempDir()
	for folder, mode := range map[string]os.FileMode{open: 0o755, closed: 0o700} {
		if err := os.Chmod(folder, mode); err != nil {
			t.Fatal(err)
		}
	}
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	for runtime, want := range map[string]string{"": temporary, open: temporary, closed: closed, "/nonexistent": temporary} {
		environment := map[string]string{"XDG_RUNTIME_DIR": runtime, "BROWSER": "/nonexistent/browser --new %s:/bin/true"}
		c := &Console{Env: Env{Getenv: func(name string) string { return environment[name] }, Environ: os.Environ()}}
		path, remove, err := c.leadTo(`http://127.0.0.1:8000/#login="><script>`)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(path, want+"/") || strings.Contains(string(text), "<script") || !strings.Contains(string(text), `url=http://127.0.0.1:8000/#login=&#34;&gt;`) {
			t.Errorf("%q: %s: %s", runtime, path, text)
		}
		file, err := os.Stat(path)
		if err != nil || file.Mode().Perm() != 0o600 {
			t.Errorf("%q: %v", runtime, file.Mode())
		}
		if folder, err := os.Stat(filepath.Dir(path)); err != nil || folder.Mode().Perm() != 0o700 {
			t.Errorf("%q: the folder has mode %v", runtime, folder.Mode())
		}
		remove()
		if _, err := c.Browse("http://127.0.0.1:8000/"); err == nil {
			t.Error("a browser that is not there was opened")
		}
		if left, err := os.ReadDir(want); err != nil || len(left) != 0 {
			t.Errorf("%q: %v is left", runtime, left)
		}
	}
}

// What a command that was killed left behind is removed, and nothing else.
func TestBrowseSweeps(t *testing.T) {
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	old, fresh, other := filepath.Join(folder, "berth-open-1.html"), filepath.Join(folder, "berth-open-2.html"), filepath.Join(folder, "notes.html")
	for _, path := range []string{old, fresh, other} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(folder, "berth-open-3.html")
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{old, other} {
		if err := os.Chtimes(path, time.Now().Add(-time.Hour), time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	c := &Console{Env: Env{Getenv: func(string) string { return folder }, Environ: os.Environ()}}
	_, remove, err := c.leadTo("http://127.0.0.1:8000/")
	if err != nil {
		t.Fatal(err)
	}
	remove()
	for path, want := range map[string]bool{old: false, fresh: true, other: true, link: true} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}
