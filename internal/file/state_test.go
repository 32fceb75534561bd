package file

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/when/later"
)

// tally is the value of a state file in tests.
type tally struct {
	Count int            `json:"count"`
	Names []string       `json:"names,omitempty"`
	Data  map[string]any `json:"data,omitempty"`
}

var tallied = StateOptions{What: "the tally", Lost: "The tally begins anew.", Version: 3}

// load returns what is in the file of a state, and whether there is one.
func load[T any](t *testing.T, s *State[T]) (v T, found bool) {
	t.Helper()
	if d := s.Load(func(read T) error { v, found = read, true; return nil }); d != nil {
		t.Fatal(d)
	}
	return v, found
}

// The largest text that is written is read again.
func TestLargestState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tally.json")
	text := []byte("\"" + strings.Repeat("x", largest-2) + "\"")
	if err := os.WriteFile(path, Seal(path, text), 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := read(path); err != nil {
		t.Error(err)
	} else if got, err := Unseal(path, found); err != nil || len(got) != len(text) {
		t.Errorf("%d bytes are read as %d, %v", len(text), len(got), err)
	}
}

// A power loss leaves an empty file where nobody waited for the disk. What such a file had
// was about the boot before.
func TestEmptyAfterAPowerLoss(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tally.json")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ofBoot := tallied
	ofBoot.OfBoot = true
	begin := func(o StateOptions) error { return NewState[tally](path, o).Read(func(tally) error { return nil }) }
	if begin(ofBoot) == nil {
		t.Error("a file that was emptied since the boot is none")
	}
	long := time.Unix(1_000_000_000, 0)
	if err := os.Chtimes(path, long, long); err != nil {
		t.Fatal(err)
	}
	if err := begin(ofBoot); err != nil {
		t.Errorf("a file that is empty since an earlier boot: %v", err)
	}
	if begin(tallied) == nil {
		t.Error("an empty file that says what holds longer than a boot is none")
	}
}

func TestState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tally.json")
	s := NewState[tally](path, tallied)
	if _, found := load(t, s); found {
		t.Error("it found something where nothing is")
	}
	for name, save := range map[string]func(tally) error{"synced": s.Save, "unsynced": s.SaveUnsynced} {
		for _, v := range []tally{{Count: 7, Names: []string{"a", "b"}}, {}} {
			if err := save(v); err != nil {
				t.Fatal(err)
			}
			if got, found := load(t, NewState[tally](path, tallied)); !found || got.Count != v.Count || !slices.Equal(got.Names, v.Names) {
				t.Errorf("%s: %+v is read as %+v", name, v, got)
			}
		}
	}
	check(t, path, `{"version":3,"count":0}`)

	big := `{"version":3,"count":1,"data":{"id":9007199254740993}}`
	if err := os.WriteFile(path, []byte(big), 0o600); err != nil { // without a checksum, as an earlier berth wrote it
		t.Fatal(err)
	}
	if got, _ := load(t, s); fmt.Sprint(got.Data["id"]) != "9007199254740993" {
		t.Errorf("a number is read as %v", got.Data["id"])
	}

	none := NewState[tally]("", tallied)
	if _, found := load(t, none); found || none.Save(tally{}) != nil {
		t.Error("a state without a file has one")
	}
}

// text is a value that makes its own text.
type text struct{ lines []string }

func (v text) MarshalText() ([]byte, error) { return []byte(strings.Join(v.lines, "\n")), nil }

func (v *text) UnmarshalText(b []byte) error {
	v.lines = strings.Split(string(b), "\n")
	return nil
}

func TestStateWithItsOwnText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lines")
	s := NewState[text](path, StateOptions{What: "the lines"})
	if err := s.Save(text{[]string{"one", "two"}}); err != nil {
		t.Fatal(err)
	}
	check(t, path, "one\ntwo")
	if got, _ := load(t, s); !slices.Equal(got.lines, []string{"one", "two"}) {
		t.Errorf("it is read as %q", got.lines)
	}
}

func TestStateVersions(t *testing.T) {
	strict, bare, none := tallied, tallied, tallied
	strict.Strict, bare.Bare, none.Version = true, true, 0
	for _, c := range []struct {
		text    string
		options StateOptions
		wrong   string
	}{
		{`{"version":3,"count":1}`, tallied, ""},
		{`{"count":1,"version":3,"later":true}`, tallied, ""},
		{`{"version":4,"count":1}`, tallied, "it has version 4, and this berth knows version 3"},
		{`{"version":4,"count":1}`, bare, "it has version 4"},
		{`{"count":1}`, tallied, "it has version 0"},
		{`{"count":1}`, bare, ""},
		{`{"count":1}`, none, ""},
		{`{"version":9,"count":1}`, none, ""},
		{`{"version":3,"later":true}`, strict, "unknown field"},
		{`{"version":3} {}`, tallied, "after top-level value"},
		{`{"count":1}]`, none, "there is text after the object"},
		{`null`, tallied, "it has version 0"},
		{`[]`, tallied, "cannot unmarshal"},
		{`{"version":3,"count":"many"}`, tallied, "cannot unmarshal"},
	} {
		path := filepath.Join(t.TempDir(), "tally.json")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := NewState[tally](path, c.options).Read(func(tally) error { return nil })
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v, want %q", c.text, err, c.wrong)
		}
	}
}

// spoilings are what a crash, a disk or somebody may make of a state file.
var spoilings = map[string]func(path string) error{
	"empty":           func(path string) error { return os.WriteFile(path, nil, 0o600) },
	"zeros":           func(path string) error { return os.WriteFile(path, make([]byte, 40), 0o600) },
	"half":            func(path string) error { return os.Truncate(path, 50) },
	"of another file": func(path string) error { return os.WriteFile(path, Seal("other", []byte(`{"version":3}`)), 0o600) },
	"much too long":   func(path string) error { return os.Truncate(path, largest+sealRoom+1) },
	"a flipped bit": func(path string) error {
		text, err := os.ReadFile(path)
		text[len(text)-3] ^= 1
		return errors.Join(err, os.WriteFile(path, text, 0o600))
	},
	"a folder": func(path string) error {
		return errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "in"), 0o700))
	},
	"a pipe":             func(path string) error { return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)) },
	"a link to a device": func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path)) },
	"a link in a circle": func(path string) error { return errors.Join(os.Remove(path), os.Symlink(path, path)) },
	"text that is none":  func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) },
	"refused":            func(path string) error { return os.WriteFile(path, []byte(`{"version":3,"count":-1}`), 0o600) },
}

// Whatever became of the file, the state begins without it, says so and keeps it,
// and the next value is there as usual.
func TestStateThatIsDamaged(t *testing.T) {
	take := func(v tally) error {
		if v.Count < 0 {
			return errors.New("there is less than nothing")
		}
		return nil
	}
	for name, spoil := range spoilings {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "tally.json")
			s := NewState[tally](path, tallied)
			if err := errors.Join(s.Save(tally{Count: 1}), spoil(path)); err != nil {
				t.Fatal(err)
			}
			before, _ := read(path)
			why := s.Read(take)
			d := s.Load(take)
			if why == nil || d == nil || !strings.Contains(d.String(), why.Error()) || !strings.HasSuffix(d.String(), "The tally begins anew.") {
				t.Fatalf("it says %v, and %v", why, d)
			}
			if got := Asides(dir); len(got) != 1 || got[0] != filepath.Base(d.Aside) {
				t.Errorf("kept is %v", got)
			}
			if after, _ := read(d.Aside); !bytes.Equal(before, after) {
				t.Errorf("kept is %q, and it was %q", after, before)
			}
			if _, found := load(t, s); found {
				t.Error("the damaged file is still there")
			}
			if err := s.Save(tally{Count: 2}); err != nil {
				t.Fatal(err)
			}
			if got, _ := load(t, s); got.Count != 2 {
				t.Errorf("then it holds %+v", got)
			}
		})
		t.Run(name+", and something instead", func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "tally.json")
			s := NewState[tally](path, tallied)
			if err := errors.Join(s.Save(tally{Count: 1}), spoil(path)); err != nil {
				t.Fatal(err)
			}
			if d := s.Begin(tally{Count: 9}, s.Read(take)); d.Aside == "" || len(Asides(dir)) != 1 {
				t.Errorf("it says %v, and kept is %v", d, Asides(dir))
			}
			if got, _ := load(t, s); got.Count != 9 {
				t.Errorf("then it holds %+v", got)
			}
		})
	}
}

// A file that the disk does not give now may be whole: it stays where it is.
func TestStateThatIsNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tally.json")
	if err := os.Symlink("/proc/self/mem", path); err != nil { // it has no first byte
		t.Fatal(err)
	}
	s := NewState[tally](path, tallied)
	why := s.Read(func(tally) error { return nil })
	for _, d := range []*Damage{s.Load(func(tally) error { return nil }), s.Begin(tally{Count: 9}, why)} {
		if d == nil || !d.Unread || !errors.Is(d.Err, unix.EIO) || len(Asides(filepath.Dir(path))) != 0 {
			t.Errorf("it says %+v, and kept is %v", d, Asides(filepath.Dir(path)))
		}
	}
	if s.Save(tally{Count: 9}) == nil || len(Asides(filepath.Dir(path))) != 0 {
		t.Error("it was replaced, and what is in it is not known")
	}
	if to, err := os.Readlink(path); err != nil || to != "/proc/self/mem" {
		t.Errorf("now it is %q, %v", to, err)
	}
}

// A damaged file that cannot be set aside is not replaced.
func TestStateThatStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("x", 240)) // no longer name is possible
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := NewState[tally](path, tallied)
	if d := s.Load(func(tally) error { return nil }); d == nil || d.Aside != "" || d.Unread {
		t.Errorf("it says %+v", d)
	}
	if err := s.Save(tally{Count: 1}); err == nil || !strings.Contains(err.Error(), "cannot be set aside") {
		t.Errorf("it says %v", err)
	}
	if d := s.Begin(tally{Count: 1}, errors.New("it is bad")); d.Aside != "" {
		t.Errorf("it says %+v", d)
	}
	check(t, path, "{")
	if err := errors.Join(os.Remove(path), s.Save(tally{Count: 1})); err != nil {
		t.Fatal(err)
	}
}

// A value that no start would read again is not written, and what was there stays.
func TestStateThatIsTooLarge(t *testing.T) {
	s := NewState[tally](filepath.Join(t.TempDir(), "tally.json"), tallied)
	if err := s.Save(tally{Count: 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(tally{Names: []string{strings.Repeat("x", largest)}}); err == nil || !strings.Contains(err.Error(), "write the tally: it would have 64 MiB") {
		t.Errorf("it says %v", err)
	}
	if got, _ := load(t, s); got.Count != 1 {
		t.Errorf("it holds %+v", got)
	}
}

// A link under the name of the file is replaced. Nobody writes through it.
func TestStateBehindALink(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "tally.json"), filepath.Join(t.TempDir(), "tally.json")
	if err := errors.Join(NewState[tally](other, tallied).Save(tally{Count: 1}), os.Symlink(other, path)); err != nil {
		t.Fatal(err)
	}
	if err := NewState[tally](path, tallied).Save(tally{Count: 2}); err != nil {
		t.Fatal(err)
	}
	check(t, path, `{"version":3,"count":2}`)
	check(t, other, `{"version":3,"count":1}`)
}

// Many changes are one write, the soonest counts, a failure is told once and tried
// again, and the end writes what is left.
func TestStateRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewState[tally](filepath.Join(t.TempDir(), "tally.json"), tallied)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex // guards what follows
		begun := time.Now()
		var saves []string
		var told []error
		var broken error
		set := func(now error) {
			mu.Lock()
			defer mu.Unlock()
			broken, saves, begun = now, nil, time.Now()
		}
		save := func() error {
			mu.Lock()
			defer mu.Unlock()
			saves = append(saves, time.Since(begun).String())
			return broken
		}
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, save, func(err error) { told = append(told, err) }) }()
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(saves, want) {
				t.Errorf("after %v it saved at %v, want %v", time.Since(begun), saves, want)
			}
		}
		time.Sleep(time.Hour)
		expect() // nothing has changed
		set(nil)
		s.Change(10 * time.Minute)
		for range 100 {
			s.Change(3 * time.Second)
		}
		s.Change(time.Minute)
		time.Sleep(time.Hour)
		expect("3s")
		set(errors.New("write the tally: the disk is gone"))
		s.Change(0)
		time.Sleep(5 * time.Second)
		s.Change(0)
		time.Sleep(20 * time.Second)
		expect("0s", "10s", "20s")
		if len(told) != 1 || told[0].Error() != "cannot write the tally: the disk is gone; berth tries again every 10 s" {
			t.Errorf("it told %v", told)
		}
		set(nil)
		time.Sleep(time.Hour)
		expect("5s")
		s.Change(time.Hour)
		cancel()
		if err := <-done; err != nil || len(saves) != 2 || len(told) != 1 {
			t.Errorf("at the end it saved at %v, told %v and returned %v", saves, told, err)
		}
	})
}

// A large file is written less often.
func TestStateRunsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewState[tally](filepath.Join(t.TempDir(), "tally.json"), tallied)
		ctx, cancel := context.WithCancel(t.Context())
		saves := 0
		done := make(chan error, 1)
		go func() {
			done <- s.Run(ctx, func() error {
				saves++
				return s.SaveUnsynced(tally{Names: []string{strings.Repeat("x", 10*writeRate)}})
			}, nil)
		}()
		for range 100 {
			s.Change(0)
			time.Sleep(time.Second)
		}
		if saves < 9 || saves > 11 {
			t.Errorf("it wrote %d times in 100 s", saves)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

const childState = "BERTH_TEST_STATE_FILE"

// TestSaverThatIsKilled is not a test but the process that TestStateKill kills: it saves
// for ever, and tells of every value that was saved.
func TestSaverThatIsKilled(t *testing.T) {
	path := os.Getenv(childState)
	if path == "" {
		t.Skip("only inside TestStateKill")
	}
	s := NewState[tally](path, tallied)
	v, _ := load(t, s)
	for {
		v.Count++
		v.Names = slices.Repeat([]string{strconv.Itoa(v.Count)}, v.Count%1000) // long and short in turn
		if err := s.save(v, v.Count%8 == 0); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(os.Stdout, v.Count)
	}
}

// A real process, a real disk, kill -9: the file holds the last value that was saved or
// the next one, whole, and nothing is damaged.
func TestStateKill(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tally.json")
	for round := range 12 {
		saved := killSaver(t, path, 1+round*17)
		v, _ := load(t, NewState[tally](path, tallied))
		if v.Count < saved || v.Count > saved+1 || len(v.Names) != v.Count%1000 {
			t.Fatalf("round %d: it holds %d with %d names, and %d was saved", round, v.Count, len(v.Names), saved)
		}
		if got := slices.DeleteFunc(names(t, dir), func(name string) bool { return name == "tally.json" || name == "tally.json"+suffix }); len(got) > 0 {
			t.Fatalf("round %d: left behind: %v", round, got)
		}
	}
}

// killSaver runs a saver, kills it after so many values, and returns the last one that it
// told of.
func killSaver(t *testing.T, path string, after int) (saved int) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestSaverThatIsKilled$")
	child.Env = append(os.Environ(), childState+"="+path)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for i := 0; lines.Scan(); i++ {
		if saved, err = strconv.Atoi(lines.Text()); err != nil {
			t.Fatalf("the saver says %q", lines.Text())
		}
		if i == after {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Wait(); err == nil {
		t.Fatal("the saver ended by itself")
	}
	return saved
}

// A disk that does not take a file may take it later; a value that is too large never fits.
func TestWritesThatPass(t *testing.T) {
	s := NewState[string](filepath.Join(t.TempDir(), "gone", "x.json"), StateOptions{What: "x"})
	if err := s.Save("x"); !later.Passes(err) {
		t.Errorf("without a folder: %v", err)
	}
	if err := s.Save(strings.Repeat("x", largest)); err == nil || later.Passes(err) {
		t.Errorf("too large: %v", err)
	}
}
