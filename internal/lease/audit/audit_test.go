package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog/disktest"
)

// world is a log with what it told others.
type world struct {
	t      *testing.T
	folder file.Folder
	marked Marked // the journal
	events []string
	*Log
}

const small = 900 // bytes of a file: room for a few entries

func newWorld(t *testing.T, folder file.Folder) *world {
	w := &world{t: t, folder: folder}
	w.reopen()
	return w
}

// reopen opens the log as a daemon does that was started again.
func (w *world) reopen() {
	w.marked.Over(journal.Forgetful())
	w.Log = Open(w.folder, Settings{MaxSize: small, Files: 4}, &w.marked, func(e gpu.Event) { w.events = append(w.events, string(e.Severity)+": "+e.Text) })
}

// mark returns what the journal names.
func (w *world) mark() Mark { return w.marked.Newest() }

func act(id string) api.AuditEntry {
	root := access.Actor{User: "root", UID: 0, Door: access.Socket, Role: access.Admin}
	return api.AuditEntry{Who: Who(root), What: "release", Object: api.AuditObject{Kind: "lease", Owner: "ada", ID: id}, Outcome: Done}
}

// records writes entries and waits for the disk.
func (w *world) records(n int) {
	w.t.Helper()
	for i := range n {
		if err := w.Record(act(fmt.Sprint("lease-", i))); err != nil {
			w.t.Fatal(err)
		}
	}
	w.Sync()
}

// verify returns what is wrong with the log, as people read it.
func (w *world) verify() string {
	w.t.Helper()
	v, err := Verify(w.folder, w.mark())
	if err != nil {
		w.t.Fatal(err)
	}
	var list []string
	for _, p := range v.Problems {
		list = append(list, p.Text)
	}
	if v.Sound != (len(list) == 0) {
		w.t.Errorf("sound is %v with %d problems", v.Sound, len(list))
	}
	return strings.Join(list, "\n")
}

func (w *world) want(problem string) {
	w.t.Helper()
	if got := w.verify(); !strings.Contains(got, problem) || problem == "" && got != "" {
		w.t.Errorf("verify says %q, want %q", got, problem)
	}
}

func TestEntriesComeBack(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, file.Dir(filepath.Join(dir, "audit")))
	w.want("")
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("before the first entry there is %v", entries)
	}
	w.records(20)
	w.want("")
	w.Close()
	w.reopen()
	w.records(3)
	w.want("")
	page, err := w.Page(Query{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	last := page.Entries[len(page.Entries)-1]
	if last.Seq != w.mark().Seq || last.Object.ID != "lease-2" || last.Who.User != "root" || last.Prev == "" || last.Time.IsZero() {
		t.Errorf("the newest entry is %+v", last)
	}
	names, _ := file.Names(w.folder)
	if len(names) != 4 {
		t.Errorf("it keeps %v", names)
	}
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(dir, "audit", name)); err != nil || info.Mode() != 0o640 || info.Size() > small {
			t.Errorf("%s has mode %v and %d bytes, %v", name, info.Mode(), info.Size(), err)
		}
	}
	if entries, failures := w.Counts(); entries < 3 || failures != 0 || len(w.events) != 0 {
		t.Errorf("%d entries, %d failures, events %q", entries, failures, w.events)
	}
}

func TestPages(t *testing.T) {
	w := newWorld(t, disk{disktest.New()})
	begun := time.Now()
	w.records(12)
	e := act("other")
	e.What, e.Object.Owner, e.Who.User = "trim", "bob", "eve"
	if err := w.Record(e); err != nil {
		t.Fatal(err)
	}
	seqs := func(q Query) (list []uint64, next uint64) {
		page, err := w.Page(q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			list = append(list, e.Seq)
		}
		return list, page.Next
	}
	newest := w.newest.Seq
	if list, next := seqs(Query{Limit: 2}); !slices.Equal(list, []uint64{newest - 1, newest}) || next != 0 {
		t.Errorf("the last two are %v, next %d", list, next)
	}
	var all []uint64
	for after := uint64(0); ; {
		list, next := seqs(Query{After: after, Limit: 3, Oldest: true})
		all = append(all, list...)
		if after = next; next == 0 {
			break
		}
	}
	if whole, _ := seqs(Query{Limit: 1000}); !slices.Equal(all, whole) || len(all) < 5 {
		t.Errorf("page by page %v, at once %v", all, whole)
	}
	for _, q := range []Query{{Users: []string{"bob"}}, {Users: []string{"eve"}}, {Verbs: []string{"trim"}}} {
		q.Limit = 10
		if list, _ := seqs(q); !slices.Equal(list, []uint64{newest}) {
			t.Errorf("%+v: %v", q, list)
		}
	}
	if list, _ := seqs(Query{Since: begun.Add(time.Hour), Limit: 10}); list != nil {
		t.Errorf("of the future there is %v", list)
	}
}

// Every kind of tampering is noticed, at the next start or by verify.
func TestTampering(t *testing.T) {
	for name, test := range map[string]struct {
		tamper func(d disk)
		want   string // of verify, before the next start
		told   string // at the next start; empty: nothing
	}{
		"an edited line": {func(d disk) {
			d.edit(CurrentName, func(b []byte) []byte { return bytes.Replace(b, []byte("ada"), []byte("eve"), 1) })
		}, "does not carry the hash of the line before it", "Entry 9 does not carry the hash"},
		"an edited last line": {func(d disk) {
			d.edit(CurrentName, func(b []byte) []byte {
				at := bytes.LastIndex(b, []byte("ada"))
				return append(append(b[:at:at], "eve"...), b[at+3:]...)
			})
		}, "is not the one that the journal names", "entry 9 is not the one that the daemon wrote"},
		"a line that is no entry": {func(d disk) {
			d.edit(CurrentName, func(b []byte) []byte { return bytes.Replace(b, []byte(`{"seq"`), []byte(`{"sex"`), 2) })
		}, "The line is not an entry", "The line is not an entry"},
		"a removed line": {func(d disk) {
			d.edit(CurrentName, func(b []byte) []byte {
				first := bytes.IndexByte(b, '\n') + 1
				second := first + bytes.IndexByte(b[first:], '\n') + 1
				return append(b[:first:first], b[second:]...)
			})
		}, "Entry 8 is missing", "Entry 8 is missing"},
		"a cut tail": {func(d disk) {
			d.edit(CurrentName, func(b []byte) []byte {
				return b[:bytes.LastIndexByte(bytes.TrimSuffix(b, []byte("\n")), '\n')+1]
			})
		}, "Entry 9 is missing at its end", "1 at its end are missing"},
		"a tail cut within a line": {func(d disk) {
			d.edit(CurrentName, func(b []byte) []byte { return b[:len(b)-20] })
		}, "Entry 9 is missing at its end", "1 at its end are missing"},
		"a deleted file": {func(d disk) { _ = d.Remove(CurrentName) }, "Entries 7 to 9 are missing at its end", "The audit log lost entries"},
		"a deleted log": {func(d disk) {
			names, _ := d.List()
			for _, name := range names {
				_ = d.Remove(name)
			}
		}, "Entries 1 to 9 are missing at its end", "the log ended with entry 0"},
		"a deleted old file": {func(d disk) { _ = d.Remove(Rotated.Name(1)) }, "a file was removed", ""},
		"exchanged files": {func(d disk) {
			a, b := Rotated.Name(1), Rotated.Name(4)
			x, _ := d.ReadFile(a)
			y, _ := d.ReadFile(b)
			d.WriteFile(a, y)
			d.WriteFile(b, x)
		}, "its name says 1", ""},
		"exchanged lines": {func(d disk) {
			d.edit(CurrentName, func(b []byte) []byte {
				lines := bytes.SplitAfter(b, []byte("\n"))
				lines[1], lines[2] = lines[2], lines[1]
				return bytes.Join(lines, nil)
			})
		}, "lines or files were exchanged", "Entry 8 is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			d := disk{disktest.New()}
			w := newWorld(t, d)
			w.records(7) // with the first lines of two files: 9 entries
			if w.want(""); w.newest.Seq != 9 {
				t.Fatalf("there are %d entries", w.newest.Seq)
			}
			test.tamper(d)
			w.want(test.want)
			w.reopen()
			if told := strings.Join(w.events, "\n"); !strings.Contains(told, test.told) || test.told == "" && told != "" {
				t.Errorf("the start told %q, want %q", told, test.told)
			}
			w.Sync()
			w.events = nil
			if w.reopen(); len(w.events) > 0 {
				t.Errorf("another start tells it again: %q", w.events)
			}
			w.records(1) // the log goes on,
			if w.verify() == "" {
				t.Error("what was changed looks right after the next entry")
			}
		})
	}
}

// What is done to the file while the daemon runs is noticed at the next entry,
// which does not go to a file that nobody can read any more.
func TestTamperingWhileItRuns(t *testing.T) {
	for name, tamper := range map[string]func(path string) error{
		"removed":  os.Remove,
		"replaced": func(path string) error { return os.Rename(path, path+".old") },
		"cut":      func(path string) error { return os.Truncate(path, 10) },
		"exchanged since the start": func(path string) error { // for one of the same length
			text, err := os.ReadFile(path)
			if err = errors.Join(err, os.Remove(path)); err != nil {
				return err
			}
			return os.WriteFile(path, bytes.ReplaceAll(text, []byte("lease-1"), []byte("lease-7")), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			w := newWorld(t, file.Dir(dir))
			w.records(2)
			if name == "exchanged since the start" {
				w.reopen()
			}
			if err := tamper(filepath.Join(dir, CurrentName)); err != nil {
				t.Fatal(err)
			}
			w.records(1)
			page, err := w.Page(Query{Limit: 10})
			if err != nil || len(page.Entries) < 2 || page.Entries[len(page.Entries)-1].What != "release" {
				t.Errorf("the log has %+v, %v", page.Entries, err)
			}
			if !strings.Contains(strings.Join(w.events, "\n"), "The audit log lost entries") {
				t.Errorf("told %q", w.events)
			}
			if w.verify() == "" {
				t.Error("verify finds nothing")
			}
		})
	}
}

// reads counts how often files of a folder are read and opened.
type reads struct {
	disk
	read, opened int
}

func (r *reads) ReadFile(name string) ([]byte, error) {
	r.read++
	return r.disk.ReadFile(name)
}

func (r *reads) Open(name string) (file.File, error) {
	r.opened++
	return r.disk.Open(name)
}

// A log that cannot be written refuses, says so once, and goes on by itself. It tries once a
// second, whoever asks, and reads what is there once.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &reads{disk: disk{disktest.New()}}
		w := newWorld(t, d)
		w.records(2)
		d.Fill()
		d.read, d.opened = 0, 0
		for range 3 {
			for range 3 {
				if err := w.Record(act("refused")); !errors.Is(err, ErrUnavailable) || !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("on a full disk: %v", err)
				}
			}
			time.Sleep(retry)
		}
		if len(w.events) != 1 || !strings.Contains(w.events[0], "cannot write the audit log") || w.Trouble() == nil {
			t.Errorf("told %q, trouble %v", w.events, w.Trouble())
		}
		if d.read > 1 || d.opened > 2 {
			t.Errorf("the log was read %d times and opened %d times", d.read, d.opened)
		}
		d.Mend()
		w.records(2)
		if len(w.events) != 2 || w.Trouble() != nil {
			t.Errorf("told %q", w.events)
		}
		w.want("")
		if _, failures := w.Counts(); failures != 9 {
			t.Errorf("%d failures", failures)
		}
	})
}

// A log that the daemon opens again holds no lines against each other that it has held
// against each other before.
func TestOpeningAgainDecodesNothing(t *testing.T) {
	costs := func(entries int) float64 {
		w := newWorld(t, disk{disktest.New()})
		w.Configure(Settings{MaxSize: 1 << 20, Files: 2})
		w.records(entries)
		return testing.AllocsPerRun(3, func() {
			w.Close()
			w.end = nil
			if err := w.open(time.Now()); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := costs(10), costs(200); many > 2*few {
		t.Errorf("it takes %v allocations with 10 entries, and %v with 200", few, many)
	}
}

// A folder that cannot be made, or is something else, does not stop the daemon.
func TestUnwritableFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "audit")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, file.Dir(path))
		if err := w.Record(act("a")); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("a file in the place of the folder: %v", err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(retry)
		w.records(1)
		if err := os.Rename(filepath.Join(path, CurrentName), filepath.Join(path, "elsewhere")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("elsewhere", filepath.Join(path, CurrentName)); err != nil {
			t.Fatal(err)
		}
		if err := w.Record(act("b")); !errors.Is(err, ErrUnavailable) {
			t.Errorf("through a link: %v", err)
		}
	})
}

// After a crash at any operation on the disk, every entry that was acknowledged
// is there, and the log is sound.
func TestCrashAnywhere(t *testing.T) {
	history := func(w *world) (acknowledged []string) {
		for i := range 12 {
			id := fmt.Sprint("lease-", i)
			if w.Record(act(id)) != nil {
				return acknowledged
			}
			acknowledged = append(acknowledged, id)
			if i%3 == 0 {
				w.Sync()
			}
		}
		return acknowledged
	}
	whole := disk{disktest.New()}
	history(newWorld(t, whole))
	random := rand.New(rand.NewPCG(1, 2))
	for op := range whole.Ops() {
		for _, partial := range []int{0, 1, 100, 10000} {
			d := disk{disktest.New()}
			w := newWorld(t, d)
			d.CrashAt(op, partial)
			acknowledged := history(w)
			if len(acknowledged) == 12 {
				continue // the operation came later, when nobody waited
			}
			durable := w.mark()
			d.Kill()
			w.events = nil
			w.reopen()
			for _, e := range w.events {
				if strings.Contains(e, "lost") {
					t.Fatalf("killed at operation %d after %d bytes: told %q", op, partial, e)
				}
			}
			w.records(1)
			if got := w.verify(); got != "" {
				t.Fatalf("killed at operation %d after %d bytes: %s", op, partial, got)
			}
			kept := w.ids()
			for _, id := range acknowledged[max(len(acknowledged)-4, 0):] { // older ones may be in a file that is gone
				if !slices.Contains(kept, id) {
					t.Fatalf("killed at operation %d after %d bytes: %s was acknowledged, and there is %v", op, partial, id, kept)
				}
			}

			// The same with the power: what the journal named is there.
			d = disk{disktest.New()}
			w = newWorld(t, d)
			d.CrashAt(op, partial)
			history(w)
			durable = w.mark()
			d.PowerCut(random.IntN)
			w.events = nil
			w.reopen()
			for _, e := range w.events {
				if strings.Contains(e, "lost") {
					t.Fatalf("power cut at operation %d after %d bytes, entry %d was on disk: told %q", op, partial, durable.Seq, e)
				}
			}
			w.records(1)
		}
	}
}

// ids returns the leases of all entries.
func (w *world) ids() (list []string) {
	page, err := w.Page(Query{Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range page.Entries {
		list = append(list, e.Object.ID)
	}
	return list
}

// A sync that fails is told, and the next entry goes to another file.
func TestFailedSync(t *testing.T) {
	d := disk{disktest.New()}
	w := newWorld(t, d)
	w.records(1)
	if err := w.Record(act("a")); err != nil {
		t.Fatal(err)
	}
	d.FailAt(d.Ops(), disktest.Fault{Err: syscall.EIO})
	before := w.mark()
	w.Sync()
	if w.mark() != before || len(w.events) != 1 {
		t.Errorf("the journal names %v, told %q", w.mark(), w.events)
	}
	w.records(1)
	if names, _ := d.List(); len(names) != 2 {
		t.Errorf("files %v", names)
	}
	w.want("")
}

// A file that has the name of the next complete one is not replaced: the log goes on in
// the old file, and says so.
func TestTakenName(t *testing.T) {
	d := disk{disktest.New()}
	w := newWorld(t, d)
	w.records(1)
	d.WriteFile(Rotated.Name(1), []byte("not ours\n"))
	w.records(19)
	if text, _ := d.ReadFile(Rotated.Name(1)); string(text) != "not ours\n" {
		t.Errorf("it was replaced by %q", text)
	}
	if len(w.events) == 0 || !strings.Contains(w.events[0], "cannot begin a new file of the audit log") {
		t.Errorf("told %q", w.events)
	}
	if got := len(w.ids()); got != 20 {
		t.Errorf("%d entries are there, of 20", got)
	}
}

// Refusals of one caller are rationed, and those of others are not.
func TestRefusalsAreRationed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, disk{disktest.New()})
		w.Configure(Settings{MaxSize: 1 << 20, Files: 2})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx) }()
		refuse := func(who api.AuditActor, n int) {
			for i := range n {
				w.Refuse(api.AuditEntry{Who: who, What: "configure", Object: api.AuditObject{Kind: "route", ID: fmt.Sprint("PUT /", i)}, Why: "no"})
			}
		}
		refuse(api.AuditActor{User: "eve", UID: gpu.Some(1001), Door: "socket"}, 25)
		refuse(api.AuditActor{User: "ada", UID: gpu.Some(1000), Door: "socket"}, 3)
		for port := range 12 {
			refuse(api.AuditActor{User: "unknown", Door: "tcp", Address: fmt.Sprintf("192.0.2.1:%d", 1000+port)}, 1)
		}
		for host := range 300 {
			refuse(api.AuditActor{User: "unknown", Door: "tcp", Address: fmt.Sprintf("198.51.100.%d:1", host)}, 1)
		}
		count := func() map[string]int {
			n := map[string]int{}
			page, err := w.Page(Query{Limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Entries {
				if e.Outcome != Refused {
					t.Errorf("outcome %s", e.Outcome)
				}
				n[e.Who.User]++
			}
			return n
		}
		if n := count(); n["eve"] != perMinute || n["ada"] != 3 || n["unknown"] > perMinute*(mostHosts+1) {
			t.Errorf("in the first minute: %v", n)
		}
		time.Sleep(period) // simulated
		synctest.Wait()
		if n := count(); n["eve"] != perMinute+1 {
			t.Errorf("after a minute: %v", n)
		}
		if text := w.text(); !strings.Contains(text, "15 more refusals within a minute are left out") {
			t.Errorf("the log says %s", text)
		}
		refuse(api.AuditActor{User: "eve", UID: gpu.Some(1001), Door: "socket"}, 1)
		if n := count(); n["eve"] != perMinute+2 {
			t.Errorf("in the second minute: %v", n)
		}
		cancel()
		<-done
		if w.mark().Seq != w.newest.Seq {
			t.Errorf("at the end the journal names %d of %d", w.mark().Seq, w.newest.Seq)
		}
	})
}

func (w *world) text() string {
	text, err := w.folder.ReadFile(CurrentName)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}
