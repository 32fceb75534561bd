package outcome

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// secret makes a private file, as somebody might want to have overwritten, and
// checks at the end that it is as it was.
func secret(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	const text = "a private file\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if now, err := os.ReadFile(path); err != nil || string(now) != text {
			t.Errorf("the private file is now %q, %v", now, err)
		}
		if stat, err := os.Stat(path); err == nil && stat.Mode().Perm() != 0o600 {
			t.Errorf("the private file has mode %v", stat.Mode())
		}
	})
	return path
}

// prepare makes the folder of an output, as somebody else might.
func prepare(t *testing.T) (output, folder string) {
	t.Helper()
	output = filepath.Join(t.TempDir(), "out.jsonl")
	folder = output + folderEnding
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	return output, folder
}

// attempt does all that a run does with the folder, to the end or to the first
// error.
func attempt(t *testing.T, output string, force bool) error {
	t.Helper()
	p, err := Claim(output, Shape{Ordered: true}, force)
	if err != nil {
		return err
	}
	if _, err := p.Spool(t.Context(), strings.NewReader("spooled\n")); err != nil {
		return errors.Join(err, p.Close())
	}
	l, err := p.Begin(nil, json.RawMessage(input), same)
	if err != nil {
		return errors.Join(err, p.Close())
	}
	// In the order of the input an ordered output needs no second file.
	err = errors.Join(l.Commit([]Outcome{result(1)}), l.Commit([]Outcome{result(0)}))
	if err == nil {
		err = l.Finish(2)
	}
	return errors.Join(err, l.Close())
}

func TestLinksInAPreparedFolderAreNotFollowed(t *testing.T) {
	for _, name := range []string{journalName, logName, orderedName, spoolName, partName} {
		for kind, link := range map[string]func(from, to string) error{"symbolic": os.Symlink, "hard": os.Link} {
			for _, force := range []bool{false, true} {
				output, folder := prepare(t)
				if err := link(secret(t), filepath.Join(folder, name)); err != nil {
					t.Fatal(err)
				}
				// A link that is removed, or replaced by a rename, does no harm.
				if err := attempt(t, output, force); name == journalName && !errors.Is(err, ErrUnsafe) {
					t.Errorf("with a %s link %s: %v, want %v", kind, name, err, ErrUnsafe)
				}
			}
		}
	}
}

// Links that come into the folder of a run that is under way.
func TestLinksThatAppearAreNotFollowed(t *testing.T) {
	for kind, link := range map[string]func(from, to string) error{"symbolic": os.Symlink, "hard": os.Link} {
		output, folder := prepare(t)
		private := secret(t)
		plant := func(name string) {
			t.Helper()
			if err := link(private, filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
		}
		p, err := Claim(output, Shape{Ordered: true}, false)
		if err != nil {
			t.Fatal(err)
		}
		plant(partName)
		if _, err := p.Spool(t.Context(), strings.NewReader("x")); !errors.Is(err, ErrUnsafe) {
			t.Errorf("a %s link in place of the input: %v, want %v", kind, err, ErrUnsafe)
		}
		plant(logName)
		if _, err := p.Begin(nil, json.RawMessage(input), same); !errors.Is(err, ErrUnsafe) {
			t.Errorf("a %s link in place of the outcomes: %v, want %v", kind, err, ErrUnsafe)
		}
		if err := os.Remove(filepath.Join(folder, logName)); err != nil {
			t.Fatal(err)
		}
		l, err := p.Begin(nil, json.RawMessage(input), same)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(l.Commit([]Outcome{result(1)}), l.Commit([]Outcome{result(0)})); err != nil {
			t.Fatal(err)
		}
		plant(orderedName)
		if err := l.Finish(2); !errors.Is(err, ErrUnsafe) {
			t.Errorf("a %s link in place of the ordered outcomes: %v, want %v", kind, err, ErrUnsafe)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestLinkInPlaceOfTheFolder(t *testing.T) {
	dir := t.TempDir()
	output, elsewhere := filepath.Join(dir, "out.jsonl"), filepath.Join(dir, "elsewhere")
	if err := os.Mkdir(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, output+folderEnding); err != nil {
		t.Fatal(err)
	}
	for _, force := range []bool{false, true} {
		if err := attempt(t, output, force); !errors.Is(err, ErrUnsafe) {
			t.Errorf("force %t: %v, want %v", force, err, ErrUnsafe)
		}
	}
	if files, err := os.ReadDir(elsewhere); err != nil || len(files) != 0 {
		t.Errorf("the link was followed: %v, %v", files, err)
	}
	output = filepath.Join(dir, "other.jsonl")
	if err := os.WriteFile(output+folderEnding, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := attempt(t, output, false); !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("a file in place of the folder: %v, want %v", err, ErrUnsafe)
	}
}

// A link takes the name of the output while the run is under way.
func TestLinkInPlaceOfTheOutput(t *testing.T) {
	for _, force := range []bool{false, true} {
		output := filepath.Join(t.TempDir(), "out.jsonl")
		l := begin(t, output, Shape{}, force)
		if err := l.Commit([]Outcome{result(0)}); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(secret(t), output); err != nil {
			t.Fatal(err)
		}
		if err := l.Finish(1); !errors.Is(err, ErrAppeared) {
			t.Errorf("force %t: %v, want %v", force, err, ErrAppeared)
		}
		if err := os.Remove(output); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(l.Finish(1), l.Close()); err != nil {
			t.Error(err)
		}
	}
}

// The folder that was opened is worked in, whatever takes its name.
func TestFolderIsSwapped(t *testing.T) {
	output := filepath.Join(t.TempDir(), "out.jsonl")
	l := begin(t, output, Shape{Ordered: true}, false)
	if err := os.Rename(output+folderEnding, output+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(output+folderEnding, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{logName, orderedName} {
		if err := os.Symlink(secret(t), filepath.Join(output+folderEnding, name)); err != nil {
			t.Fatal(err)
		}
	}
	missing(t, l, 20)
	if err := l.Finish(20); err == nil || !strings.Contains(err.Error(), "the run is complete, but") {
		t.Errorf("the folder of somebody else was removed: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if got := content(t, output); len(got) != 20 {
		t.Errorf("the output has %d lines, want 20", len(got))
	}
}

func TestFolderIsPrivate(t *testing.T) {
	output := filepath.Join(t.TempDir(), "out.jsonl")
	mode := func() os.FileMode {
		t.Helper()
		stat, err := os.Stat(output + folderEnding)
		if err != nil {
			t.Fatal(err)
		}
		return stat.Mode().Perm()
	}
	l := begin(t, output, Shape{}, false)
	if mode() != 0o700 {
		t.Errorf("a new folder has mode %v", mode())
	}
	if err := errors.Join(l.Commit([]Outcome{result(0)}), l.Close()); err != nil {
		t.Fatal(err)
	}
	// Folders as older versions made them.
	for _, old := range []struct{ before, after os.FileMode }{{0o755, 0o755}, {0o775, 0o755}, {0o777, 0o755}, {0o770, 0o750}} {
		if err := os.Chmod(output+folderEnding, old.before); err != nil {
			t.Fatal(err)
		}
		l := begin(t, output, Shape{}, false)
		if !l.Done(0) {
			t.Errorf("in a folder of mode %v nothing is found", old.before)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if mode() != old.after {
			t.Errorf("a folder of mode %v has mode %v afterwards, want %v", old.before, mode(), old.after)
		}
	}
}

const nobody = 65534

// asRoot skips a test that gives files to another user.
func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("giving a file to another user needs root")
	}
}

func TestFolderOfAnotherUser(t *testing.T) {
	asRoot(t)
	output, folder := prepare(t)
	if err := os.Chown(folder, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	for _, force := range []bool{false, true} {
		if err := attempt(t, output, force); !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "belongs to user 65534") {
			t.Errorf("force %t: %v, want %v", force, err, ErrUnsafe)
		}
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) != 0 {
		t.Errorf("something was written there: %v, %v", files, err)
	}
}

func TestFileOfAnotherUser(t *testing.T) {
	asRoot(t)
	output, folder := prepare(t)
	journal := filepath.Join(folder, journalName)
	if err := errors.Join(os.WriteFile(journal, nil, 0o666), os.Chown(journal, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	if err := attempt(t, output, true); !errors.Is(err, ErrUnsafe) {
		t.Errorf("%v, want %v", err, ErrUnsafe)
	}
}

// A file of another user that is replaced does not decide who may read the new
// one.
func TestReplacedOutputOfAnotherUser(t *testing.T) {
	asRoot(t)
	output := filepath.Join(t.TempDir(), "out.jsonl")
	if err := errors.Join(os.WriteFile(output, nil, 0o600), os.Chmod(output, 0o666), os.Chown(output, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	if err := attempt(t, output, true); err != nil {
		t.Fatal(err)
	}
	if stat, err := os.Stat(output); err != nil || stat.Mode().Perm()&0o002 != 0 {
		t.Errorf("others may write the output: %v, %v", stat.Mode(), err)
	}
}
