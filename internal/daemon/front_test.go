package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/process/units"
	"github.com/berth-gpu/berth/internal/process/ward"
)

// unitSystemd notes what it is told. It refuses what it is told first.
type unitSystemd struct {
	refuses int
	first   func() // called with the first order
	acts    []units.Act
}

func (s *unitSystemd) Do(_ context.Context, act units.Act, _ string) error {
	if s.acts = append(s.acts, act); len(s.acts) == 1 && s.first != nil {
		s.first()
	}
	if len(s.acts) <= s.refuses {
		return errors.New("the bus is busy")
	}
	return nil
}

// The unit of the front is started when the daemon begins, and again if it could not be. It
// runs the version of the daemon, and is stopped if no front is wanted, or if another user
// runs it.
func TestTheUnitOfTheFront(t *testing.T) {
	front, log := config.Front{Listen: "127.0.0.1:1"}, slog.New(slog.DiscardHandler)
	for name, c := range map[string]struct {
		front   config.Front
		noted   string
		refuses int
		lost    bool // what it was told cannot be written down
		runs    bool // its user is known
		want    []units.Act
	}{
		"at first":        {front: front, runs: true, want: []units.Act{units.Start}},
		"busy":            {front: front, runs: true, refuses: 1, want: []units.Act{units.Start, units.Start}},
		"another version": {front: front, runs: true, noted: "0.1 {}", want: []units.Act{units.Restart}},
		"busy meanwhile":  {front: front, runs: true, noted: "0.1 {}", refuses: 2, want: []units.Act{units.Restart, units.Restart, units.Restart}},
		"a broken disk":   {front: front, runs: true, noted: "0.1 {}", lost: true, want: []units.Act{units.Restart}},
		"unknown user":    {front: front, noted: "0.1 {}"},
		"another user":    {front: config.Front{Listen: "127.0.0.1:1", User: "daemon"}, runs: true, noted: "0.1 {}", want: []units.Act{units.Stop}},
		"not wanted":      {noted: "0.1 {}", want: []units.Act{units.Stop}},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				f := newFrontDoor(&Daemon{news: &news{}, log: log, people: people{users: users.New(users.Lookup, time.Second)}}, folder, "s", "/nonexistent/berth", "0.2")
				s := &unitSystemd{refuses: c.refuses}
				if c.lost {
					s.first = func() { _ = os.RemoveAll(folder) }
				}
				f.systemd, f.noted = s, filepath.Join(folder, "front.unit")
				if err := os.WriteFile(f.noted, []byte(c.noted), 0o600); err != nil {
					t.Fatal(err)
				}
				f.config.Front, f.runs = c.front, c.runs
				ctx, cancel := context.WithTimeout(t.Context(), 2*frontAgain+time.Second)
				defer cancel()
				f.run(ctx)
				if !slices.Equal(s.acts, c.want) {
					t.Errorf("systemd was told %v, want %v", s.acts, c.want)
				}
			})
		})
	}
}

// Trouble with the front lasts until one takes requests, whatever is set meanwhile, and the
// end of a child takes nothing from the front that the unit runs.
func TestTroubleOfTheFrontLastsUntilOneComes(t *testing.T) {
	const trouble = "it does not keep running"
	d := newPlace(t, "sim:1").open(t, t.Context())
	f, c := newFrontDoor(d, t.TempDir(), "s", "/nonexistent/berth", "0.2"), *d.settings.config()
	c.Front = config.Front{Listen: "127.0.0.1:1"}
	if os.Geteuid() == 0 {
		c.Front.User = "daemon"
		d.numbers.Find([]string{c.Front.User}, nil, false)
	}
	f.configure(c)
	f.tell(trouble)
	f.configure(c)
	once, cancel := context.WithCancel(t.Context())
	cancel()
	f.run(once)
	if f.told != trouble || f.State().Why != trouble {
		t.Errorf("after a change of the settings the trouble is %q, and %q was told", f.State().Why, f.told)
	}
	there := ""
	f.connected = func(name string) bool { return name == there }
	f.Seen("of the unit", "127.0.0.1:1")
	if s := f.State(); s.Address != "" {
		t.Errorf("a front that is gone takes requests on %s", s.Address)
	}
	there = "of the unit"
	f.wardChanged(ward.State{Why: "it has ended"})
	if s := f.State(); s.Address != "127.0.0.1:1" || f.told != "" {
		t.Errorf("after the end of a child the front is %+v, and %q was told", s, f.told)
	}
	there = "the next"
	f.Seen(there, "127.0.0.1:2")
	if s := f.State(); s.Address != "127.0.0.1:2" || len(f.listens) != 1 {
		t.Errorf("after another front has come it is %+v, of %v", s, f.listens)
	}
}

// Services and the front are told again whenever programs would run as somebody else than
// they know: also if a user is found before anybody missed one, and if one is found while
// another gets lost.
func TestWhenServicesLearnOfUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only a daemon of root runs programs as others")
	}
	p := newPlace(t, "sim:1")
	p.edit(t, "front: {listen: 127.0.0.1:1, user: daemon}\nservices: {a: {command: serve, user: no-such-user}}\n")
	settings, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(t.Context(), Options{Settings: settings, Version: "test", Log: slog.New(slog.DiscardHandler), Program: "/bin/false"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	uid, known := d.numbers.User("daemon")
	if !known {
		t.Fatal("there is no user daemon here")
	}
	for name, told := range map[string]map[string]int{
		"nobody": {}, "somebody else": {"no-such-user": 4711}, "another number": {"daemon": uid + 1},
	} {
		d.front.mu.Lock()
		d.front.uid, d.front.runs = 0, false // as it was told before
		d.front.mu.Unlock()
		d.served = told
		d.governAgain(false)
		if now, runs := d.front.User(); now != uid || !runs {
			t.Errorf("after %s was known, the front runs as %d: %v", name, now, runs)
		}
		d.front.mu.Lock()
		d.front.runs = false
		d.front.mu.Unlock()
		d.governAgain(false)
		if _, runs := d.front.User(); runs {
			t.Error("it is told though nothing has changed")
		}
	}
}
