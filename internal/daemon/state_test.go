package daemon

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/inventory"
)

// modes maps the names in a folder to what others may do with them.
func modes(t *testing.T, dir string) map[string]os.FileMode {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]os.FileMode{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		found[e.Name()] = info.Mode().Perm() & 0o077
	}
	return found
}

// What a daemon keeps is closed to others, also where it was not before, and
// what killed daemons left is gone.
func TestStateFolderIsClosedToOthers(t *testing.T) {
	p := newPlace(t, "sim:1")
	state := p.flags["daemon.state_dir"]
	if err := os.MkdirAll(filepath.Join(state, "journal"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"config.yaml": "gpu:\n  temp_optimal: 61\n", "health.json": "{}", "history.json": `{"version":1}`, "energy.json": `{"version":1}`,
		".new-123": "half of something", "config.yaml.new": "half of something", "notes.txt": "not ours",
	} {
		if err := os.WriteFile(filepath.Join(state, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, stop := p.start(t)
	if _, err := c.SetConfig(t.Context(), []byte(`{"temp_optimal": 62}`)); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	found := modes(t, state)
	for _, name := range []string{"config.yaml", "health.json", "heat.json", "history.json", "energy.json", "hours.json", "events", "journal", "alerts.json", "past", "waiting"} {
		if open, there := found[name]; !there || open != 0 {
			t.Errorf("%s is there: %v, and others may do %#o", name, there, open)
		}
		delete(found, name)
	}
	if open, there := found["audit"]; !there || open != 0o050 {
		t.Errorf("audit is there: %v, and others may do %#o", there, open)
	}
	delete(found, "audit")
	if len(found) != 1 || found["notes.txt"] != 0o044 {
		t.Errorf("beside that there is %v", found)
	}
}

func TestStateFolderOfOthersIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only a daemon of root refuses the folder of another user")
	}
	for name, spoil := range map[string]func(string) error{
		"chown root": func(dir string) error { return os.Chown(dir, 65534, 65534) },
		"chmod go-w": func(dir string) error { return os.Chmod(dir, 0o777) },
	} {
		dir := t.TempDir()
		if err := spoil(dir); err != nil {
			t.Fatal(err)
		}
		if err := prepareState(dir); err == nil || !strings.Contains(err.Error(), name+" "+dir) {
			t.Errorf("it said %v, want %s", err, name)
		}
	}
	made := filepath.Join(t.TempDir(), "a", "b")
	if err := prepareState(made); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(made); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("a new one has mode %v, %v", info.Mode(), err)
	}
}

// A daemon that finds the state folder in use changes nothing there, also not what it cannot
// read, which one of another version may use.
func TestASecondDaemonChangesNothing(t *testing.T) {
	p := newPlace(t, "sim:1")
	first := p.open(t, t.Context())
	settings, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	state := settings.Config.Daemon.StateDir
	if err := os.WriteFile(filepath.Join(state, inventory.Hooks), []byte("of a later version"), 0o600); err != nil {
		t.Fatal(err)
	}
	second := func() error {
		d, err := Open(t.Context(), Options{Settings: settings, Version: "test", Log: slog.New(slog.DiscardHandler), Load: p.load})
		if err == nil {
			err = d.Close()
		}
		return err
	}
	if err := second(); !errors.As(err, new(*file.LockedError)) {
		t.Errorf("while the first one runs: %v", err)
	}
	if list := file.Asides(state); len(list) > 0 {
		t.Errorf("the second daemon put %q aside", list)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := second(); err != nil || len(file.Asides(state)) != 1 {
		t.Errorf("once the first one has ended: %v, aside are %q", err, file.Asides(state))
	}
}
