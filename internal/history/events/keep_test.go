package events

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
)

// keeping runs Keep, until the function that it returns is called.
func keeping(t *testing.T, l *Log, folder file.Folder, complain func(error)) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Keep(ctx, folder, complain) }()
	return func() { cancel(); <-done }
}

// recall is the log of the next daemon.
func recall(t *testing.T, folder file.Folder, now time.Time) *Log {
	t.Helper()
	l := New(10, now)
	if note := l.Recall(folder); note != nil {
		t.Error(note)
	}
	return l
}

func TestEventsSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "events")
		folder := file.PrivateDir(path)
		first := New(10, start)
		stop := keeping(t, first, folder, func(err error) { t.Error(err) })
		publish(first, "a", "b")
		first.Publish(gpu.Event{
			Code: gpu.EventRevoked, Severity: gpu.Warning, User: "ada", Lease: "job", GPU: "GPU-a", Time: time.Unix(7, 0).UTC(),
			Text: "python of ada", Public: "a program", Data: map[string]any{"fence": uint64(1) << 60, "n": 1.5}, By: gpu.By{User: "eve", UID: gpu.Some(7), Door: "tcp"},
		})
		synctest.Wait()
		publish(first, "last")
		stop()

		second := New(10, start.Add(-time.Hour)) // whatever the clock says
		offered := 0
		second.Attach(func(*Entry) { offered++ }, nil)
		if note := second.Recall(folder); note != nil {
			t.Error(note)
		}
		before, _ := first.Kept(0)
		after, _ := second.Kept(0)
		for i := range after {
			if data := after[i].Data; data != nil {
				if text, _ := data["fence"].(interface{ String() string }); text.String() != "1152921504606846976" {
					t.Errorf("the fence is %v", data["fence"])
				}
				after[i].Data, before[i].Data = nil, nil
			}
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
		publish(second, "next")
		if offered != 1 {
			t.Errorf("%d events went to hooks, and one is new", offered)
		}
		resumed, _ := second.Kept(before[1].ID)
		if diff := cmp.Diff([]string{"python of ada", "last", "next"}, texts(resumed)); diff != "" {
			t.Errorf("a reader resumes (-want +got):\n%s", diff)
		}
		for path, want := range map[string]os.FileMode{path: os.ModeDir | 0o700, filepath.Join(path, names.Name(1)): 0o600} {
			if info, err := os.Stat(path); err != nil || info.Mode() != want {
				t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
			}
		}
	})
}

// What a killed daemon has on disk: an event that came alone, every warning and
// what came before it, and all but the last second of the notes.
func TestWhatAKillLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := file.PrivateDir(filepath.Join(t.TempDir(), "events"))
		l := New(10, start)
		defer keeping(t, l, folder, func(err error) { t.Error(err) })()
		kept := func() []string {
			synctest.Wait()
			found, _ := recall(t, folder, start).Kept(0)
			return texts(found)
		}
		time.Sleep(time.Minute)
		publish(l, "alone")
		want := []string{"alone"}
		if diff := cmp.Diff(want, kept()); diff != "" {
			t.Errorf("an event that comes alone (-want +got):\n%s", diff)
		}
		publish(l, "soon")
		if diff := cmp.Diff(want, kept()); diff != "" {
			t.Errorf("another one at once (-want +got):\n%s", diff)
		}
		l.Publish(gpu.Event{Code: gpu.EventCritical, Severity: gpu.Serious, Text: "hot"})
		want = append(want, "soon", "hot")
		if diff := cmp.Diff(want, kept()); diff != "" {
			t.Errorf("something serious (-want +got):\n%s", diff)
		}
		publish(l, "later")
		time.Sleep(writeAfter)
		if diff := cmp.Diff(append(want, "later"), kept()); diff != "" {
			t.Errorf("after a second (-want +got):\n%s", diff)
		}
	})
}

// After a kill nobody knows which ids were given to events that are lost, so
// none is given twice, and a reader gets a gap.
func TestIDsJumpAfterAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := file.PrivateDir(filepath.Join(t.TempDir(), "events"))
		l := New(10, start)
		stop := keeping(t, l, folder, func(err error) { t.Error(err) })
		defer stop()
		publish(l, "a")
		synctest.Wait()
		publish(l, "lost")
		lost := l.next - 1
		killed := recall(t, folder, start.Add(-time.Hour))
		publish(killed, "new")
		found, _ := killed.Kept(lost)
		if diff := cmp.Diff([]string{"(gap)", "new"}, texts(found)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestDamagedFiles(t *testing.T) {
	sealedLine := appendLine(nil, &gpu.Event{ID: 5, Time: start, Code: gpu.EventConfig, Severity: gpu.Note, Text: "loud"})
	whole := opening + `{"id":5,"time":"2026-01-31T12:00:00Z","code":"config","severity":"info","text":"a"}` + "\n" +
		`{"id":6,"time":"2026-01-31T12:00:00Z","code":"config","severity":"info","text":"b"}` + "\n"
	for name, c := range map[string]struct {
		text string
		want []string
		note string
	}{
		"whole":            {whole, []string{"a", "b"}, ""},
		"cut":              {whole + `{"id":7,"time":"2026-01-3`, []string{"a", "b"}, "events-000001.jsonl.damaged-"},
		"cut at its end":   {strings.TrimSuffix(whole, "\n"), []string{"a"}, "1 line"},
		"garbage":          {strings.Replace(whole, `"id":5`, "\x00\x00", 1), []string{"b"}, "1 line"},
		"out of order":     {whole + strings.Split(whole, "\n")[1] + "\n", []string{"a", "b"}, "1 line"},
		"two on a line":    {strings.Replace(whole, "\n{\"id\":6", "{\"id\":6", 1), nil, "1 line"},
		"newer":            {strings.Replace(whole, `"version":1`, `"version":2`, 1), nil, "1 line"},
		"empty":            {"", nil, "1 line"},
		"a wrong checksum": {opening + strings.Replace(string(sealedLine), "loud", "lout", 1), nil, "1 line"},
		"a checksum":       {opening + string(sealedLine), []string{"loud"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, names.Name(1)), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			l := New(10, start)
			note := ""
			if d := l.Recall(file.PrivateDir(dir)); d != nil {
				note = d.String()
				if kept, err := os.ReadFile(filepath.Join(dir, d.Aside)); err != nil || string(kept) != c.text {
					t.Errorf("kept is %q, %v", kept, err)
				}
			}
			found, _ := l.Kept(0)
			if diff := cmp.Diff(c.want, texts(found)); diff != "" || !strings.Contains(note, c.note) || (note == "") != (c.note == "") {
				t.Errorf("%q (-want +got):\n%s", note, diff)
			}
			synctest.Test(t, func(t *testing.T) { // what follows is whole again
				keeping(t, l, file.PrivateDir(dir), func(err error) { t.Error(err) })()
				again, _ := recall(t, file.PrivateDir(dir), start).Kept(0)
				if diff := cmp.Diff(c.want, texts(again)); diff != "" {
					t.Errorf("after another start (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// The files are bounded, and notes do not cost a warning.
func TestFilesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "events")
		folder := file.PrivateDir(dir)
		l := New(100, start)
		l.Publish(gpu.Event{Code: gpu.EventDeviceLost, Severity: gpu.Serious, Text: "lost"})
		stop := keeping(t, l, folder, func(err error) { t.Error(err) })
		for range 3 * tailEvents / 50 {
			for range 50 {
				publish(l, "noise")
			}
			time.Sleep(writeAfter)
			synctest.Wait()
		}
		all, err := file.Names(folder)
		if err != nil || len(all) != 1 || all[0] == names.Name(1) {
			t.Errorf("the files are %v, %v", all, err)
		}
		stop()
		again := New(100, start)
		if note := again.Recall(folder); note != nil {
			t.Error(note)
		}
		found, _ := again.Kept(0)
		if len(found) != 101 || found[0].Text != "lost" {
			t.Errorf("%d are recalled, the first is %q", len(found), found[0].Text)
		}
	})
}

// broken is a folder that cannot be written.
type broken struct {
	file.Folder
	mends atomic.Bool
}

func (b *broken) Create(name string) (file.File, error) {
	if !b.mends.Load() {
		return nil, errors.New("the disk is full")
	}
	return b.Folder.Create(name)
}

func TestADiskThatRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := &broken{Folder: file.PrivateDir(filepath.Join(t.TempDir(), "events"))}
		l := New(10, start)
		var complaints []string
		stop := keeping(t, l, folder, func(err error) { complaints = append(complaints, err.Error()) })
		publish(l, "a")
		time.Sleep(5 * retryWrite)
		synctest.Wait()
		if len(complaints) != 1 || !strings.Contains(complaints[0], "the disk is full") {
			t.Errorf("complaints: %q", complaints)
		}
		folder.mends.Store(true)
		time.Sleep(retryWrite)
		stop()
		found, _ := recall(t, folder, start).Kept(0)
		if diff := cmp.Diff([]string{"a"}, texts(found)); diff != "" {
			t.Error(diff)
		}
	})
}

// away is a folder that the system refuses to read, or whose files it refuses.
type away struct {
	file.Folder
	list, read error
}

func (a away) List() ([]string, error) {
	all, err := a.Folder.List()
	return all, errors.Join(a.list, err)
}

func (a away) ReadFile(name string) ([]byte, error) {
	text, err := a.Folder.ReadFile(name)
	return text, errors.Join(a.read, err)
}

// Events that cannot be read for a moment stay where they are, and nobody goes on without
// them.
func TestUnreadEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := file.PrivateDir(filepath.Join(t.TempDir(), "events"))
		l := New(10, start)
		stop := keeping(t, l, folder, func(err error) { t.Error(err) })
		publish(l, "a", "b")
		stop()
		was, _ := folder.List()
		for _, refused := range []away{{folder, unix.EMFILE, nil}, {folder, nil, unix.EIO}} {
			if d := New(10, start).Recall(refused); d == nil || !d.Unread || d.Aside != "" {
				t.Errorf("a folder that answers %v, %v: %+v", refused.list, refused.read, d)
			}
		}
		if d := New(10, start).Recall(away{folder, unix.ENOTDIR, nil}); d == nil || d.Unread {
			t.Errorf("a file in the place of the folder: %+v", d)
		}
		if is, _ := folder.List(); !slices.Equal(is, was) {
			t.Errorf("there were %v, and now %v", was, is)
		}
		if found, _ := recall(t, folder, start).Kept(0); !slices.Equal(texts(found), []string{"a", "b"}) {
			t.Errorf("recalled are %v", texts(found))
		}
	})
}

func FuzzLines(f *testing.F) {
	f.Add([]byte(opening + `{"id":5,"time":"2026-01-31T12:00:00Z","code":"config","severity":"info","text":"a","public":"p"}` + "\n" + closing))
	f.Add([]byte("{\"id\":1}\n{\"id\":1}\n{"))
	f.Fuzz(func(t *testing.T, text []byte) {
		kept, closed, damaged := parseLines(text)
		if closed && damaged == 0 && !strings.HasSuffix(string(text), "\n") {
			t.Error("a file that does not end with a line is whole")
		}
		last := uint64(0)
		for i := range kept {
			if kept[i].ID <= last {
				t.Errorf("id %d follows %d", kept[i].ID, last)
			}
			last = kept[i].ID
			line := appendLine(nil, &kept[i])
			if again, _, damaged := parseLines(line); damaged != 0 || len(again) != 1 || again[0].Public != kept[i].Public || again[0].Text != kept[i].Text {
				t.Errorf("%s is read as %v", line, again)
			}
		}
	})
}
