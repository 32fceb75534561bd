package file

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestSaveLeavesTheOldOneWhenItFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := Save(path, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half of it")
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "old" {
		t.Errorf("the file holds %q", text)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestSaveMakesOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	err := Save(path, func(w io.Writer) error {
		_, err := io.WriteString(w, "new")
		return err
	})
	if text, _ := os.ReadFile(path); string(text) != "new" || err != nil {
		t.Errorf("the file holds %q, error %v", text, err)
	}
}

// Nobody else can read what SaveSecret writes, even if they could read the file before.
func TestSaveSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, before := range []bool{false, true} {
		if before {
			if err := os.Chmod(path, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		err := SaveSecret(path, func(w io.Writer) error {
			_, err := io.WriteString(w, "secret")
			return err
		})
		info, other := os.Stat(path)
		if err != nil || other != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v, %v", info.Mode(), err, other)
		}
	}
}
