package minder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
	log, err := openFile(path, 0)
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

// A log that cannot be copied stays, and the older parts stay, however often that is tried.
func TestALogThatCannotBeCopied(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	text := strings.Repeat("x", 1<<20) // more than a pipe takes
	for name, text := range map[string]string{path: text, older(path, 2): "before"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := unix.Mkfifo(older(path, 1), 0o600); err != nil {
			t.Fatal(err)
		}
		reader, err := os.OpenFile(older(path, 1), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		go func() { // who leaves in the middle
			_, _ = reader.Read(make([]byte, 1))
			_ = reader.Close()
		}()
		if err := cut(path, 1, 1<<20); !errors.Is(err, unix.EPIPE) {
			t.Errorf("the copy ended with %v", err)
		}
		if _, err := os.Lstat(older(path, 1)); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("a part of the copy is left: %v", err)
		}
		for name, want := range map[string]string{path: text, older(path, 2): "before"} {
			if got, _ := os.ReadFile(name); string(got) != want {
				t.Errorf("%s has %d bytes; want %d", name, len(got), len(want))
			}
		}
	}
	if err := shift(path, 3); err != nil {
		t.Error(err)
	}
	if got, _ := os.ReadFile(older(path, 2)); string(got) != "before" {
		t.Error("an older part moves, and nothing takes its place")
	}
}

func isLink(path string) bool {
	about, err := os.Lstat(path)
	return err == nil && about.Mode()&os.ModeSymlink != 0
}

// Of a log that grew faster than it was looked at, the newest lines are kept.
func TestACutKeepsTheNewest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte(strings.Repeat("old line\n", 100)+"why it ended\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cut(path, 2, 8); err != nil {
		t.Fatal(err)
	}
	part, err := os.ReadFile(older(path, 1))
	if log, _ := os.ReadFile(path); err != nil || len(log) != 0 || !strings.HasSuffix(string(part), "why it ended\n") || len(part) > 4*8 {
		t.Errorf("%q is left, and %q was put aside: %v", log, part, err)
	}
}

// What others put under the name of the next log is not followed: the log is elsewhere. A
// file that the user names may be a link.
func TestALogThatIsALink(t *testing.T) {
	w := newWorld(t)
	theirs := filepath.Join(w.home, "profile")
	for _, err := range []error{os.WriteFile(theirs, []byte("mine\n"), 0o600), os.Chown(theirs, w.uid, -1), os.Symlink(theirs, filepath.Join(w.home, "berth-train-17.log"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	record := w.end(w.minder("1.0.1", w.order("echo injected")), "1.0.1")
	defer os.Remove(record.Output) // it is in the state folder of the user
	if text, _ := os.ReadFile(theirs); string(text) != "mine\n" {
		t.Errorf("the file behind the link is %q", text)
	}
	if text, err := os.ReadFile(record.Output); err != nil || !strings.HasSuffix(string(text), "injected\n") {
		t.Errorf("the log %s is %q: %v", record.Output, text, err)
	}
	order := w.order("echo asked for")
	order.Output = "berth-train-17.log"
	w.end(w.minder("2.0.1", order), "2.0.1")
	if text, _ := os.ReadFile(theirs); string(text) != "mine\nasked for\n" {
		t.Errorf("the file that was asked for is %q", text)
	}
}
