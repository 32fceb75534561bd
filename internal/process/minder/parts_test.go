package minder

import (
	"os"
	"path/filepath"
	"testing"
)

// A log in parts has one run, and those before it are in its older parts. Without parts it
// has them all.
func TestALogInParts(t *testing.T) {
	for parts, want := range map[int][]string{0: {"one\ntwo\nthree\nfour\n", "", "", ""}, 2: {"four\n", "three\n", "two\n", ""}} {
		w := newWorld(t)
		for i, line := range []string{"one", "two", "three", "four"} {
			order := w.order("echo " + line)
			order.Parts = parts
			run := string(rune('1'+i)) + ".0.1"
			w.end(w.minder(run, order), run)
		}
		log := filepath.Join(w.home, "berth-train-17.log")
		for n, path := range []string{log, older(log, 1), older(log, 2), older(log, 3)} {
			if text, _ := os.ReadFile(path); string(text) != want[n] {
				t.Errorf("with %d parts, part %d is %q; want %q", parts, n, text, want[n])
			}
		}
	}
}

// A log that has grown too large is cut, and its writer goes on at its beginning.
func TestALogIsCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log, err := openFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for _, text := range []string{"12345678", "abcdefgh", "ABCDEFGH", "shor"} {
		if _, err := log.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := cut(path, 2, 8); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{path: "shor", older(path, 1): "ABCDEFGH", older(path, 2): "abcdefgh", older(path, 3): ""} {
		if text, _ := os.ReadFile(name); string(text) != want {
			t.Errorf("%s is %q; want %q", name, text, want)
		}
	}
	// What is no file of its own is left alone.
	link := path + "-link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := cut(link, 2, 1); err == nil {
		t.Error("a link is cut")
	}
	if beginPart(link, 2); !isLink(link) {
		t.Error("a link is put aside")
	}
}

func isLink(path string) bool {
	about, err := os.Lstat(path)
	return err == nil && about.Mode()&os.ModeSymlink != 0
}
