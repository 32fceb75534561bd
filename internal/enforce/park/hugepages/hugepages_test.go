package hugepages_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/internal/enforce/park/hugepages"
)

// machine is a kernel with a setting, and a state folder.
type machine struct {
	*testing.T
	kernel, state string
	log           bytes.Buffer
}

func newMachine(t *testing.T, set string) *machine {
	dir := t.TempDir()
	m := &machine{T: t, kernel: filepath.Join(dir, "enabled"), state: filepath.Join(dir, hugepages.FileName)}
	m.set(set)
	return m
}

func (m *machine) set(text string) {
	m.Helper()
	if err := os.WriteFile(m.kernel, []byte(text), 0o600); err != nil {
		m.Fatal(err)
	}
}

// daemon starts a daemon; one that runs is as good as killed.
func (m *machine) daemon(boot string) *hugepages.Keeper {
	m.Helper()
	k, damage := hugepages.Open(m.kernel, m.state, boot, slog.New(slog.NewTextHandler(&m.log, nil)))
	if damage != nil {
		m.Fatal(damage)
	}
	return k
}

func (m *machine) expect(what, want string) {
	m.Helper()
	if got, err := hugepages.Read(m.kernel); err != nil || got != want {
		m.Errorf("%s: %q, %v; want %q", what, got, err, want)
	}
}

func TestHeldWhileMemoryMoves(t *testing.T) {
	m := newMachine(t, "always [madvise] never\n")
	k := m.daemon("boot")
	m.expect("at the start", "madvise")
	first, second := k.Hold(), k.Hold()
	m.expect("two move", "always")
	first()
	first()
	m.expect("one moves", "always")
	second()
	m.expect("nothing moves", "madvise")
	k.Hold()()
	m.expect("after another move", "madvise")
	if m.log.Len() > 0 {
		t.Errorf("the log has %s", &m.log)
	}
}

// A daemon that is killed leaves what the next one of the same boot sets back, and what
// one of another boot leaves alone.
func TestKilledWhileMemoryMoves(t *testing.T) {
	for _, set := range []string{"madvise", "never"} {
		m := newMachine(t, set)
		m.daemon("boot").Hold()
		m.expect("killed", "always")
		m.daemon("boot")
		m.expect("the next daemon", set)
		m.set("always")
		m.daemon("boot")
		m.expect("what somebody else sets later", "always")
	}
	m := newMachine(t, "madvise")
	m.daemon("boot").Hold()
	m.daemon("another boot")
	m.expect("after another boot", "always")
}

// Killed before the setting was changed, or after it was set back, there is nothing to do.
func TestKilledBesideTheChange(t *testing.T) {
	m := newMachine(t, "madvise")
	m.daemon("boot").Hold()
	m.set("madvise") // as if killed before
	m.daemon("boot")
	m.expect("killed before the change", "madvise")
	m.set("always")
	m.daemon("boot")
	m.expect("the note has gone", "always")
}

func TestWhatOthersSetStays(t *testing.T) {
	m := newMachine(t, "madvise")
	k := m.daemon("boot")
	release := k.Hold()
	m.set("always madvise [never]")
	release()
	m.expect("changed meanwhile", "never")
	m.set("[always] madvise never")
	k.Hold()()
	m.expect("set before", "always")
}

// Where the setting cannot be read or changed, memory moves without it, and the log says
// so once.
func TestWhereItCannotBeSet(t *testing.T) {
	m := newMachine(t, "something new")
	k := m.daemon("boot")
	k.Hold()()
	k.Hold()()
	if text, err := os.ReadFile(m.kernel); err != nil || string(text) != "something new" {
		t.Errorf("it is %q, %v", text, err)
	}
	if n := strings.Count(m.log.String(), "level=WARN"); n != 1 {
		t.Errorf("the log has %d warnings: %s", n, &m.log)
	}
	if err := os.Remove(m.kernel); err != nil {
		t.Fatal(err)
	}
	k.Hold()()
	if _, err := os.Stat(m.kernel); !os.IsNotExist(err) {
		t.Error("a file was made")
	}
	(*hugepages.Keeper)(nil).Hold()()
}

// What cannot be set back is kept, also for the next daemon.
func TestWhatCannotBeSetBack(t *testing.T) {
	m := newMachine(t, "madvise")
	k := m.daemon("boot")
	release := k.Hold()
	if err := os.Rename(m.kernel, m.kernel+".away"); err != nil {
		t.Fatal(err)
	}
	release()
	m.daemon("boot")
	if !strings.Contains(m.log.String(), "not set back to madvise") {
		t.Errorf("the log has %s", &m.log)
	}
	if err := os.Rename(m.kernel+".away", m.kernel); err != nil {
		t.Fatal(err)
	}
	m.expect("not set back", "always")
	m.daemon("boot")
	m.expect("the next daemon", "madvise")
}

func TestDamagedNote(t *testing.T) {
	m := newMachine(t, "always")
	if err := os.WriteFile(m.state, []byte(`{"version":1,"boot":"boot","before":"rm -rf"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, damage := hugepages.Open(m.kernel, m.state, "boot", slog.New(slog.DiscardHandler)); damage == nil {
		t.Error("it is not told")
	}
	m.expect("a damaged note", "always")
}

// What cannot be set back at once is set back later, without another move.
func TestSetBackLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, "always [madvise] never\n")
		release := m.daemon("boot").Hold()
		m.expect("memory moves", "always")
		if err := os.Rename(m.kernel, m.kernel+"-away"); err != nil {
			t.Fatal(err)
		}
		release()
		time.Sleep(time.Minute)
		if err := os.Rename(m.kernel+"-away", m.kernel); err != nil {
			t.Fatal(err)
		}
		m.expect("when it fails", "always")
		time.Sleep(time.Minute)
		m.expect("later", "madvise")
		if n := strings.Count(m.log.String(), "not set back"); n != 1 {
			t.Errorf("the log has %s", &m.log)
		}
	})
}
