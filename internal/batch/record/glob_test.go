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
	for _, path := range []string{"a.tif", "x/b.tif", "x/y/c.tif", "x/y/d.txt", "z/y/e.tif"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, "")
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
		"none/**/*.tif":  nil,
	} {
		got, err := glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", pattern, diff)
		}
	}
	if _, err := glob("**/["); err == nil {
		t.Error("a bad pattern was taken")
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
