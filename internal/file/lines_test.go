package file_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal/filelog/disktest"
)

// appendTo opens the file "log", if it does not stand, and appends a line.
func appendTo(l *file.Lines, folder file.Folder, line string) (*file.Lines, error) {
	if !l.Stands() {
		l.Close()
		var err error
		if l, err = file.OpenLines(folder, "log"); err != nil {
			return nil, err
		}
	}
	return l, l.Append([]byte(line))
}

// Whenever the process is killed, the file has every line that was appended, whole, and at
// most the beginning of another one.
func TestLinesOfAKilledProcess(t *testing.T) {
	history := func(d *disktest.Disk) (appended string, err error) {
		var l *file.Lines
		for i := range 5 {
			line := fmt.Sprintf("this is line %d\n", i)
			if l, err = appendTo(l, d, line); err != nil {
				return appended, err
			}
			appended += line
			if i%2 == 1 {
				err = l.Sync(func() {})
			}
			if i == 3 && err == nil {
				err = l.Rename("former")
			}
			if err != nil {
				return appended, err
			}
		}
		return appended, nil
	}
	whole := disktest.New()
	all, err := history(whole)
	if err != nil || len(all) != 5*len("this is line 0\n") {
		t.Fatalf("%q, %v", all, err)
	}
	for op := range whole.Ops() {
		for partial := range len("this is line 0\n") + 1 {
			d := disktest.New()
			d.CrashAt(op, partial)
			appended, err := history(d)
			if !errors.Is(err, disktest.ErrDown) {
				t.Fatalf("operation %d: %v", op, err)
			}
			d.Kill()
			former, _ := d.ReadFile("former")
			newest, _ := d.ReadFile("log")
			found := string(former) + string(newest)
			if !strings.HasPrefix(found, appended) || !strings.HasPrefix(all, found) {
				t.Fatalf("killed at operation %d after %d bytes: there is %q, and %q was appended", op, partial, found, appended)
			}
			if got := string(file.WholeLines([]byte(found))); got != appended && got != found {
				t.Fatalf("killed at operation %d after %d bytes: the whole lines are %q", op, partial, got)
			}
		}
	}
}

// A file that is put in the place of another is the old one or the new one, also after a
// power cut.
func TestPut(t *testing.T) {
	const before, after = "one\ntwo\n", "three\n"
	first := func(d *disktest.Disk) { d.WriteFile("log", []byte(before)) }
	whole := disktest.New()
	first(whole)
	if err := file.Put(whole, "log", ".new", []byte(after), true); err != nil {
		t.Fatal(err)
	}
	for op := range whole.Ops() {
		for _, cut := range []bool{false, true} {
			d := disktest.New()
			first(d)
			d.CrashAt(op, 3)
			err := file.Put(d, "log", ".new", []byte(after), true)
			if d.Kill(); cut {
				d.PowerCut(func(n int) int { return n - 1 })
			}
			text, _ := d.ReadFile("log")
			if got := string(text); got != after && (err == nil || got != before) {
				t.Errorf("stopped at operation %d, %v: there is %q", op, err, got)
			}
		}
	}
	d := disktest.New()
	first(d)
	d.Fill()
	if err := file.Put(d, "log", ".new", []byte(after), true); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk: %v", err)
	}
	if names, _ := d.List(); len(names) != 1 {
		t.Errorf("on a full disk it leaves %v", names)
	}
}

// On a full disk the file is closed, and opening it shows what there is.
func TestLinesOnAFullDisk(t *testing.T) {
	d := disktest.New()
	l, err := appendTo(nil, d, "one\n")
	if err != nil {
		t.Fatal(err)
	}
	d.Fill()
	if err := l.Append([]byte("two\n")); !errors.Is(err, syscall.ENOSPC) || l.Stands() {
		t.Fatalf("%v, and it stands: %v", err, l.Stands())
	}
	d.Mend()
	if l, err = file.OpenLines(d, "log"); err != nil {
		t.Fatal(err)
	}
	if text, _ := d.ReadFile("log"); l.Size() != int64(len(text)) || string(file.WholeLines(text)) != "one\n" {
		t.Errorf("it has %d bytes: %q", l.Size(), text)
	}
}

// What others do to the file is noticed before the next line, and no file of others is
// replaced.
func TestLinesThatOthersChange(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	folder, path := file.PrivateDir(dir), filepath.Join(dir, "log")
	for name, change := range map[string]func() error{
		"removed":  func() error { return os.Remove(path) },
		"replaced": func() error { return errors.Join(os.Remove(path), os.WriteFile(path, []byte("one\n"), 0o600)) },
		"cut":      func() error { return os.Truncate(path, 0) },
		"longer":   func() error { return os.WriteFile(path, []byte("one\ntwo\n"), 0o600) },
	} {
		_ = os.Remove(path)
		l, err := appendTo(nil, folder, "one\n")
		if err != nil || !l.Stands() {
			t.Fatal(err)
		}
		if err := change(); err != nil || l.Stands() {
			t.Errorf("%s: it stands (%v)", name, err)
		}
		l.Close()
		l.Close()
	}
	l, err := appendTo(nil, folder, "one\n")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "taken"), []byte("theirs\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Rename("taken"); !errors.Is(err, fs.ErrExist) || !l.Stands() {
		t.Errorf("to a name that is taken: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "taken")); string(text) != "theirs\n" {
		t.Errorf("there is %q, %v", text, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestUnsealLines(t *testing.T) {
	text := bytes.Join([][]byte{file.SealLine([]byte(`{"a":1}`)), []byte(`{"b":2}`), bytes.Replace(file.SealLine([]byte(`{"c":3}`)), []byte("3"), []byte("4"), 1), file.SealLine([]byte(`{"d":5}`))}, []byte("\n"))
	var got []string
	for object, sound := range file.UnsealLines(text) {
		got = append(got, fmt.Sprintf("%s %v", object, sound))
	}
	if want := `{"a":1} true, {"b":2} true, {"c":4} false, {"d":5} false`; strings.Join(got, ", ") != want {
		t.Errorf("%s, want %s", strings.Join(got, ", "), want)
	}
	for text, want := range map[string]string{"": "", "a": "", "a\n": "a\n", "a\nb": "a\n", "\n\n": "\n\n"} {
		if got := string(file.WholeLines([]byte(text))); got != want {
			t.Errorf("the whole lines of %q are %q", text, got)
		}
	}
}

func TestNumbered(t *testing.T) {
	n := file.Numbered{Prefix: "log-", Digits: 3, Suffix: ".txt"}
	for name, want := range map[string]uint64{"log-000.txt": 0, "log-007.txt": 7, "log-1234.txt": 1234, "log-18446744073709551615.txt": 1<<64 - 1} {
		if got, is := n.Of(name); !is || got != want || n.Name(want) != name {
			t.Errorf("%s has the number %d (%v), and %d the name %s", name, got, is, want, n.Name(want))
		}
	}
	for _, name := range []string{"", "log-", "log-.txt", "log-7.txt", "log-0007.txt", "log-007", "007.txt", "log-+07.txt", "log--07.txt", "log-00x.txt", "log-007.txt.new", "log-18446744073709551616.txt"} {
		if got, is := n.Of(name); is {
			t.Errorf("%q has the number %d", name, got)
		}
	}
}
