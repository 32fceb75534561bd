package record

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGlob(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, path := range []string{"a.tif", "x/b.tif", "x/y/c.tif", "x/y/d.txt", "z/y/e.tif", ".a.tif", ".cache/f.tif", "x/.h/g.tif"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, "")
	}
	if err := os.Symlink("x", ".link"); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string][]string{
		"*.tif":          {"a.tif"},
		"**/*.tif":       {"a.tif", "x/b.tif", "x/y/c.tif", "z/y/e.tif"},
		"./**/d.txt":     {"x/y/d.txt"},
		"x/**/*.tif":     {"x/b.tif", "x/y/c.tif"},
		"x/**":           {"x/b.tif", "x/y/c.tif", "x/y/d.txt"},
		"?/**/y/*.tif":   {"x/y/c.tif", "z/y/e.tif"},
		"**/y/**/c.*":    {"x/y/c.tif"},
		here + "/**/e.*": {here + "/z/y/e.tif"},
		"**/**/c.tif":    {"x/y/c.tif"},
		".link/**/*.tif": {".link/b.tif", ".link/y/c.tif"},
		"none/**/*.tif":  nil,
		"none/*.tif":     nil,
		"a.tif/*":        nil,
		".*.tif":         {".a.tif"},
		".*/*.tif":       {".cache/f.tif", ".link/b.tif"},
		"*/*.tif":        {"x/b.tif"},
		".cache/*":       {".cache/f.tif"},
		"**/.h/*":        {"x/.h/g.tif"},
	} {
		got, err := glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", pattern, diff)
		}
	}
	if err := os.Symlink("loop", "loop"); err != nil { // the system refuses to follow it
		t.Fatal(err)
	}
	if got, err := glob("*/*.tif"); err == nil {
		t.Errorf("%v, though not all folders can be read", got)
	}
	if _, err := glob("**/["); err == nil {
		t.Error("a bad pattern was taken")
	}
}

// What a run keeps beside its output is not found by the pattern of its input.
func TestFolderToSkip(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out.jsonl.berth")
	for _, path := range []string{filepath.Join(out, "journal"), filepath.Join(dir, "a", "out.jsonl.berth"), filepath.Join(dir, "b", "out.jsonl.berth", "mine")} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, "")
	}
	for pattern, want := range map[string]int{"*/*": 1, "**": 2, "out.*/*": 0} {
		s, err := Open(Spec{Paths: []string{filepath.Join(dir, pattern)}, Format: Files, Skip: out})
		switch {
		case want == 0 && (err == nil || !strings.Contains(err.Error(), "no file matches")):
			t.Errorf("%s: %v", pattern, err)
		case want > 0 && (err != nil || len(s.files) != want):
			t.Errorf("%s: %v, want %d files", pattern, err, want)
		}
	}
}

func TestLinkThatLeadsNowhere(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("nowhere", filepath.Join(dir, "a.tif")); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"*.tif", "**"} {
		_, err := Open(Spec{Paths: []string{filepath.Join(dir, pattern)}})
		if err == nil || !strings.Contains(err.Error(), "a.tif is a link to nowhere, and that is not there: remove the link") {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

func TestReads(t *testing.T) {
	dir := t.TempDir()
	in := write(t, filepath.Join(dir, "in.jsonl"), "1\n")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(in, link); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Spec{Paths: []string{filepath.Join(dir, "*.jsonl")}})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		in: true, link: true, filepath.Join(dir, "later.jsonl"): true, filepath.Join(dir, "out.csv"): false,
	} {
		if got := s.Reads(path); got != want {
			t.Errorf("Reads(%s) = %t", path, got)
		}
	}
}

// A worker can only be told names that JSON can hold.
func TestFileNameThatIsNoText(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a\xff.tif"), "")
	s, err := Open(Spec{Paths: []string{filepath.Join(dir, "*.tif")}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Next()
	if err != nil || !strings.Contains(r.Error, "not UTF-8") || !json.Valid(r.Data) {
		t.Errorf("%+v, %v", r, err)
	}
}
