package backup_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/desk/backup"
	"github.com/berth-gpu/berth/internal/desk/doctor"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/lease"
)

// bookOf returns the book of leases in a state folder.
func bookOf(t testing.TB, folder string) *lease.Book {
	t.Helper()
	book := lease.New()
	_, err := filelog.Read(file.PrivateDir(filepath.Join(folder, inventory.Leases)), func(e journal.Entry) error {
		_, err := book.Read(e.Data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return book
}

func idsOf(b *lease.Book) (ids []string) {
	for _, l := range b.Leases() {
		ids = append(ids, fmt.Sprint(l.Key(), l.Fence))
	}
	return ids
}

func restore(t testing.TB, archive []byte, o backup.Options) backup.Report {
	t.Helper()
	o.Now = time.Now()
	did, err := backup.Restore(bytes.NewReader(archive), o)
	if err != nil {
		t.Fatal(err)
	}
	return did
}

// What is restored is what was backed up, but for what a daemon must not believe: tasks
// and services that ran, and fences that were granted since.
func TestRestore(t *testing.T) {
	from := stateOf(t, "0.1.0")
	before := bookOf(t, from)
	for _, secrets := range []bool{false, true} {
		to := filepath.Join(t.TempDir(), "var", "lib", "berth")
		did := restore(t, archived(t, from, secrets), backup.Options{Folder: to, Machine: backup.Machine{ID: "m2", Boot: "b2"}})
		if did.Jobs.Lost != 1 || did.Services != map[bool]int{true: 1}[secrets] || did.Leases != 4 || did.Waiting != 1 || did.Here || did.Aside != "" || len(did.Problems) > 0 {
			t.Errorf("secrets %v: %+v", secrets, did)
		}
		if held := map[bool]int{false: 3}[secrets]; did.Jobs.Held != held {
			t.Errorf("secrets %v: %d jobs are held, want %d", secrets, did.Jobs.Held, held)
		}
		after := bookOf(t, to)
		if !slices.Equal(idsOf(before), idsOf(after)) {
			t.Errorf("the leases are %v, and were %v", idsOf(after), idsOf(before))
		}
		if after.Fence() < before.Fence()+1<<32 {
			t.Errorf("fences go on from %d, and were at %d", after.Fence(), before.Fence())
		}
		was, is := tree(t, from), tree(t, to)
		for _, name := range []string{"numbers.json", "drains.json", "history.json", "alerts.json", "audit/audit.log", "events/events-000001.jsonl", "past/recent/wal/00000000", "waiting/log-00000000000000000001"} {
			if was[name] == "" || was[name] != is[name] {
				t.Errorf("%s is not what it was", name)
			}
		}
		if _, has := is["tokens.json"]; has != secrets {
			t.Errorf("secrets %v: the tokens are there: %v", secrets, has)
		}
		if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		for _, f := range backup.Check(to) {
			if f.Grade != backup.Sound {
				t.Errorf("%+v", f)
			}
		}
	}
}

// What belongs to the processors and processes of a machine stays there.
func TestBoundToTheMachine(t *testing.T) {
	from := stateOf(t, "0.1.0")
	for _, name := range []string{"throttle.json", "parked.json"} {
		if err := file.Replace(filepath.Join(from, name), []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	archive := archived(t, from, false)
	for _, c := range []struct {
		on   backup.Machine
		want bool
	}{{here, true}, {backup.Machine{ID: here.ID, Boot: "b2"}, true}, {backup.Machine{ID: "m2", Boot: here.Boot}, false}, {backup.Machine{}, false}} {
		to := filepath.Join(t.TempDir(), "state")
		restore(t, archive, backup.Options{Folder: to, Machine: c.on})
		is := tree(t, to)
		if _, has := is["throttle.json"]; has != c.want {
			t.Errorf("on %v, throttle.json is there: %v", c.on, has)
		}
		// What the present state folder says is newer.
		now := `{"boot":"b1","leases":[]}`
		if err := file.Replace(filepath.Join(to, "parked.json"), []byte(now)); err != nil {
			t.Fatal(err)
		}
		restore(t, archive, backup.Options{Folder: to, Machine: c.on, Replace: true})
		is = tree(t, to)
		if strings.Contains(is["parked.json"], now) != c.want {
			t.Errorf("on %v, parked.json is %q", c.on, is["parked.json"])
		}
		if _, has := is["throttle.json"]; has != c.want {
			t.Errorf("on %v, throttle.json is there after a replacement: %v", c.on, has)
		}
	}
}

// The records of what runs stay if the machine runs on, and those of another boot go. The
// files by which the daemon finds the front stay, and the daemon's group can read what it
// could.
func TestRecordsOfRunsStay(t *testing.T) {
	archive := archived(t, stateOf(t, "0.1.0"), false)
	for _, m := range []backup.Machine{here, {ID: here.ID, Boot: "b2"}} {
		to := filepath.Join(t.TempDir(), "state")
		restore(t, archive, backup.Options{Folder: to, Machine: m})
		for _, i := range inventory.Items() {
			if i.Kind != inventory.Runs && i.Kind != inventory.Local {
				continue
			}
			path := filepath.Join(to, i.Path, "9.0.1")
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("{}"), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(to, inventory.Services, "front.unit"), []byte("now"), 0o600); err != nil {
			t.Fatal(err)
		}
		restore(t, archive, backup.Options{Folder: to, Machine: m, Replace: true})
		is := tree(t, to)
		if is[inventory.Services+"/front.unit"] != "now" {
			t.Errorf("on %v, the next daemon does not know how the front runs", m)
		}
		for _, i := range inventory.Items() {
			if _, has := is[i.Path+"/9.0.1"]; has != (i.Kind == inventory.Runs && m == here) {
				t.Errorf("on %v, %s is there: %v", m, i.Path, has)
			}
			info, err := os.Stat(filepath.Join(to, i.Path))
			if want := map[bool]fs.FileMode{false: 0o700, true: 0o750}[i.Open()]; err == nil && info.IsDir() && info.Mode().Perm() != want {
				t.Errorf("%s has mode %v", i.Path, info.Mode())
			}
		}
	}
}

// Only a folder that nobody uses is replaced, and only if that was asked for.
func TestRestoreRefuses(t *testing.T) {
	archive := archived(t, stateOf(t, "0.1.0"), true)
	to := stateOf(t, "0.1.0")
	before := tree(t, to)
	try := func(replace bool) error {
		_, err := backup.Restore(bytes.NewReader(archive), backup.Options{Folder: to, Replace: replace, Machine: here, Now: time.Now()})
		return err
	}
	if err := try(false); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Error(err)
	}
	lock, err := file.PrivateDir(filepath.Join(to, inventory.Leases)).Lock()
	if err != nil {
		t.Fatal(err)
	}
	before[inventory.Leases+"/lock"] = tree(t, to)[inventory.Leases+"/lock"]
	for _, replace := range []bool{false, true} {
		err, next := try(replace), (*doctor.Error)(nil)
		if !errors.As(err, &next) || !strings.Contains(err.Error(), "a daemon runs with") || !strings.Contains(next.Hint(), fmt.Sprintf("or kill %d", os.Getpid())) {
			t.Error(err)
		}
	}
	if err := backup.Offline(&bytes.Buffer{}, backup.Source{Folder: to}); err == nil || !strings.Contains(err.Error(), "a daemon uses") {
		t.Error(err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if after := tree(t, to); !maps.Equal(before, after) {
		t.Error("a refused restoration has changed the state folder")
	}
	given := `{"version":1,"next":4711}`
	if err := file.Replace(filepath.Join(to, inventory.Numbers), []byte(given)); err != nil {
		t.Fatal(err)
	}
	before = tree(t, to)
	did := restore(t, archive, backup.Options{Folder: to, Replace: true, Machine: here})
	before[inventory.Leases+"/lock"] = tree(t, did.Aside)[inventory.Leases+"/lock"]
	if aside := tree(t, did.Aside); !maps.Equal(before, aside) {
		t.Error("the former state folder is not kept as it was")
	}
	if !strings.Contains(tree(t, to)[inventory.Numbers], given) {
		t.Error("numbers are given out again that jobs have had since the backup")
	}
	once := bookOf(t, to).Fence()
	restore(t, archive, backup.Options{Folder: to, Replace: true, Machine: here})
	if twice := bookOf(t, to).Fence(); twice <= once {
		t.Errorf("fences go on from %d after a second restoration of one backup, and from %d after the first", twice, once)
	}
	// In the boot of the backup, programs of jobs and services may still run: their records
	// are there.
	if is := tree(t, to); is["jobs/runs/4.0.1"] == "" || did.Jobs.Lost != 0 || did.Services != 0 || !did.Here {
		t.Errorf("the records of runs are not kept: %+v", did)
	}
}

const childFolder, childStep = "BERTH_TEST_RESTORE", "BERTH_TEST_STEP"

// TestRestorationThatIsKilled is not a test but the process that TestKilledRestorations
// kills.
func TestRestorationThatIsKilled(t *testing.T) {
	folder := os.Getenv(childFolder)
	if folder == "" {
		t.Skip("only inside TestKilledRestorations")
	}
	last, err := strconv.Atoi(os.Getenv(childStep))
	if err != nil {
		t.Fatal(err)
	}
	archive, err := os.Open(folder + ".tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	_, err = backup.Restore(archive, backup.Options{Folder: folder, Replace: true, Machine: here, Now: time.Now(), Step: func(string) {
		if n++; n == last {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// A restoration that is killed at any step has changed nothing or everything. The former
// state is never lost, and the next restoration works and leaves no more than the two.
func TestKilledRestorations(t *testing.T) {
	from := stateOf(t, "0.1.0")
	archive := archived(t, from, true)
	for _, fresh := range []bool{true, false} {
		for step, killed := 1, true; killed; step++ {
			around := t.TempDir()
			folder := filepath.Join(around, "state")
			if err := os.WriteFile(folder+".tar.gz", archive, 0o600); err != nil {
				t.Fatal(err)
			}
			former := map[string]string{}
			if !fresh {
				if err := os.CopyFS(folder, os.DirFS(from)); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(folder, "health.json"), []byte(`{"former":{}}`), 0o600); err != nil {
					t.Fatal(err)
				}
				former = tree(t, folder)
			}
			child := exec.Command(os.Args[0], "-test.run=^TestRestorationThatIsKilled$")
			child.Env = append(os.Environ(), childFolder+"="+folder, childStep+"="+strconv.Itoa(step))
			said, err := child.CombinedOutput()
			end := (*exec.ExitError)(nil)
			killed = errors.As(err, &end) && end.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
			if err != nil && !killed {
				t.Fatalf("step %d: %v\n%s", step, err, said)
			}
			if !killed && step < 10 {
				t.Fatalf("it has only %d steps", step)
			}
			is := tree(t, folder)
			delete(is, "journal/lock")
			delete(former, "journal/lock")
			switch {
			case maps.Equal(is, former): // nothing
				if !killed {
					t.Errorf("fresh %v: nothing was restored", fresh)
				}
			default: // everything
				if is["health.json"] != "" || bookOf(t, folder).Fence() < 1<<32 || len(backup.Problems(backup.Check(folder))) > 0 {
					t.Errorf("fresh %v, step %d: the state folder is neither the former nor the new one: %v", fresh, step, slices.Sorted(maps.Keys(is)))
				}
			}
			did := restore(t, archive, backup.Options{Folder: folder, Replace: true, Machine: here})
			kept := fresh
			folders, err := os.ReadDir(around)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range folders {
				other := tree(t, filepath.Join(around, f.Name()))
				delete(other, "journal/lock")
				kept = kept || f.IsDir() && maps.Equal(other, former)
				if _, left := other[".new-0"]; left {
					t.Errorf("fresh %v, step %d: %s is left", fresh, step, f.Name())
				}
			}
			if !kept {
				t.Errorf("fresh %v, step %d: the former state is lost; aside is %q", fresh, step, did.Aside)
			}
		}
	}
}

// Every way in which a file can be wrong is told, with the file and what to do.
func TestCheck(t *testing.T) {
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[(at+len(b))%len(b)] ^= 1; return b }
	}
	cut := func(b []byte) []byte { return b[:len(b)/2] }
	text := func(s string) func([]byte) []byte { return func([]byte) []byte { return []byte(s) } }
	for _, c := range []struct {
		name, file string
		do         func([]byte) []byte
		about      string
		grade      backup.Grade
		text, next string
	}{
		{"a flipped byte in a state file", "tokens.json", flip(-20), "tokens.json", backup.Damaged, "checksum is wrong", "sets it aside"},
		{"a cut state file", "drains.json", cut, "drains.json", backup.Damaged, "were written", "drained devices take work again"},
		{"an empty state file", "numbers.json", text(""), "numbers.json", backup.Damaged, "it is empty", "restore a backup"},
		{"another file's text", "alerts.json", text("# berth drains.json: 2 bytes, crc32c 00000000\n{}"), "alerts.json", backup.Damaged, "holds the text of drains.json", ""},
		{"a newer state file", "numbers.json", text(`{"version":2,"next":1}`), "numbers.json", backup.Newer, "version 2", "newer berth"},
		{"no settings", "config.yaml", text("gpu: [\n"), "config.yaml", backup.Damaged, "", "berth.yaml"},
		{"a flipped byte in the journal", "journal/log-00000000000000000001", flip(60), "journal", backup.Damaged, "is damaged at byte", "berth journal repair"},
		{"a newer journal", "journal/log-00000000000000000001", newerJournal, "journal", backup.Newer, "format version 9", "newer berth"},
		{"a flipped byte in the journal of jobs", "jobs/journal/log-00000000000000000001", flip(60), "jobs/journal", backup.Damaged, "is damaged at byte", "berth journal repair"},
		{"a flipped byte in an environment", "jobs/environments/0-a0e575035ae85952b9d6877934b3e9ff7959e3f36065520399743124d93ce2b5", flip(-5), "jobs/environments", backup.Damaged, "checksum is wrong", "jobs that wait are held"},
		{"a flipped byte in the audit log", "audit/audit.log", flip(100), "audit", backup.Damaged, "", "berth audit verify"},
		{"a flipped byte in an event", "events/events-000001.jsonl", flip(200), "events", backup.Damaged, "line 2 is not as it was written", ""},
		{"newer events", "events/events-000001.jsonl", text(`{"version":2}` + "\n"), "events", backup.Newer, "version 2", "newer berth"},
		{"a flipped byte in what was measured", "past/recent/wal/00000000", flip(300), "past", backup.Damaged, "checksum is wrong", "graphs begin anew"},
		{"an unknown file", "notes.txt", text("x"), "notes.txt", backup.Unknown, "does not know it", "remove it"},
		{"an unknown file in a folder", "journal/core", text("x"), "journal/core", backup.Unknown, "does not know it", "remove it"},
		{"a file that was set aside", "tokens.json.damaged-20260101T000000.000000Z", text("x"), "tokens.json.damaged-20260101T000000.000000Z", backup.Kept, "set it aside", "remove it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := stateOf(t, "0.1.0")
			if found := backup.Problems(backup.Check(folder)); len(found) > 0 {
				t.Fatalf("it is wrong already: %+v", found)
			}
			path := filepath.Join(folder, c.file)
			before, _ := os.ReadFile(path) // none if the case makes it
			if err := os.WriteFile(path, c.do(bytes.Clone(before)), 0o600); err != nil {
				t.Fatal(err)
			}
			found := backup.Problems(backup.Check(folder))
			if len(found) != 1 || found[0].File != c.about || found[0].Grade != c.grade || !strings.Contains(found[0].Text, c.text) || found[0].Next == "" || !strings.Contains(found[0].Next, c.next) {
				t.Errorf("%+v", found)
			}
		})
	}
}

// newerJournal returns a file of a journal with a later format.
func newerJournal(b []byte) []byte {
	b[8] = 9
	return sealHeader(b)
}

// sealHeader gives the first bytes of a file of a journal their right checksum.
func sealHeader(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[12:], crc32.Checksum(b[:12], backup.Castagnoli))
	return b
}
