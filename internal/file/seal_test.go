package file

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// taken is a reader of a state file that takes every text.
type taken struct {
	text  []byte
	calls int
}

func (t *taken) take(text []byte) error {
	t.text, t.calls = text, t.calls+1
	return nil
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	var got taken
	if d := Load(path, "", got.take); d != nil || got.calls != 0 {
		t.Errorf("without a file it said %v and was called %d times", d, got.calls)
	}
	for _, text := range []string{"", "{}", "first\nsecond\n", "# a comment\n"} {
		if err := Replace(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if d := Load(path, "", got.take); d != nil || string(got.text) != text {
			t.Errorf("%q was read as %q, %v", text, got.text, d)
		}
	}
	before := "{\"version\": 1}" // as a berth without checksums wrote it
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	if d := Load(path, "", got.take); d != nil || string(got.text) != before {
		t.Errorf("a file of before was read as %q, %v", got.text, d)
	}
}

// Every single bit that flips, and every byte that is missing at the end, is
// noticed, unless what flips is the mark itself: then the text is whole, and its
// reader decides.
func TestEveryFlipIsNoticed(t *testing.T) {
	text := []byte("gpu:\n  temp_optimal: 61\n")
	whole := sealed("config.yaml", text)
	for i := range whole {
		for bit := range 8 {
			file := bytes.Clone(whole)
			file[i] ^= 1 << bit
			got, err := Unseal("config.yaml", file)
			if i < len(mark) {
				if err != nil || !bytes.Equal(got, file) {
					t.Errorf("bit %d of byte %d: %q, %v", bit, i, got, err)
				}
			} else if err == nil {
				t.Errorf("bit %d of byte %d is not noticed", bit, i)
			}
		}
		if got, err := Unseal("config.yaml", whole[:i]); err == nil {
			t.Errorf("the first %d bytes are read as %q", i, got)
		}
	}
	if got, err := Unseal("config.yaml", append(whole, '\n')); err == nil {
		t.Errorf("with one byte more it is read as %q", got)
	}
	if _, err := Unseal("other.yaml", whole); err == nil || !strings.Contains(err.Error(), "config.yaml") {
		t.Errorf("the text of another file: %v", err)
	}
}

func TestDamagedFilesAreKept(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"empty":           func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"zeros":           func(path string) error { return os.WriteFile(path, make([]byte, 40), 0o600) },
		"of another file": func(path string) error { return os.WriteFile(path, sealed("other", []byte("{}")), 0o600) },
		"half":            func(path string) error { return os.Truncate(path, 20) },
		"a folder": func(path string) error {
			return errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "in"), 0o700))
		},
		"a pipe":            func(path string) error { return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)) },
		"text that is none": func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) },
		"much too long":     func(path string) error { return os.Truncate(path, largest+1) },
	} {
		for _, instead := range []string{"", "put there instead"} {
			t.Run(name+instead, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "file")
				if err := errors.Join(Replace(path, []byte("{}")), spoil(path)); err != nil {
					t.Fatal(err)
				}
				before, _ := read(path)
				refuse := func(text []byte) error {
					if string(text) != "{}" {
						return errors.New("it is no JSON")
					}
					return nil
				}
				var d *Damage
				if instead == "" {
					d = Load(path, "All is lost.", refuse)
				} else if err := Check(path, refuse); err != nil {
					d = SetAside(path, "All is lost.", []byte(instead), err)
				}
				if d == nil || filepath.Dir(d.Aside) != dir || !strings.Contains(d.String(), filepath.Base(d.Aside)) || !strings.HasSuffix(d.String(), "All is lost.") {
					t.Fatalf("it says %v", d)
				}
				if got := Asides(dir); len(got) != 1 || got[0] != filepath.Base(d.Aside) {
					t.Errorf("kept is %v", got)
				}
				if after, _ := read(d.Aside); !bytes.Equal(before, after) {
					t.Errorf("kept is %q, and it was %q", after, before)
				}
				var got taken
				if d := Load(path, "", got.take); d != nil || string(got.text) != instead {
					t.Errorf("then %q is read, %v", got.text, d)
				}
			})
		}
	}
}

// A file that cannot be set aside is told of all the same.
func TestDamageThatStays(t *testing.T) {
	d := SetAside(filepath.Join(t.TempDir(), "gone"), "", nil, errors.New("it is bad"))
	if d.Aside != "" || !strings.Contains(d.String(), "could not be set aside: it is bad") {
		t.Errorf("it says %v", d)
	}
}
