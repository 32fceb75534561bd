package filelog_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/file/journal/filelog/disktest"
)

// anything is a replay that believes every entry.
func anything(journal.Entry) error { return nil }

var reserve = journal.Care{Reserve: true}

// sound makes a journal: a snapshot of entries 1 to 10 in three packets, and
// entries 11 to 40 in several segments.
func sound(t *testing.T) (d *disktest.Disk, all []string) {
	t.Helper()
	d = disktest.New()
	l, _, _ := open(t, d)
	name := func(i int) string { return fmt.Sprintf("entry %d %s", i, strings.Repeat(".", 30)) }
	for i := range 40 {
		all = append(all, name(i+1))
		add(t, l, durably, all[i])
		if i == 9 {
			big := [][]byte{[]byte(all[0]), make([]byte, 40<<10), make([]byte, 40<<10), []byte(all[9])}
			if err := l.Compact(10, slices.Values(big)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	all = append([]string{all[0], string(make([]byte, 40<<10)), string(make([]byte, 40<<10))}, all[9:]...)
	return d, all
}

func segments(t *testing.T, d *disktest.Disk) (names []string) {
	t.Helper()
	all, err := d.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if strings.HasPrefix(name, "log-") {
			names = append(names, name)
		}
	}
	if len(names) < 3 {
		t.Fatalf("only %q", names)
	}
	return names
}

func flip(t *testing.T, d *disktest.Disk, name string, at int) {
	t.Helper()
	data := read(t, d, name)
	data[at] ^= 1
	d.WriteFile(name, data)
}

const snapshotFile = "snapshot-00000000000000000010"

// damages are ways to break a sound journal; kept is how many of its 34 entries
// come before.
var damages = []struct {
	name   string
	kept   int
	damage func(t *testing.T, d *disktest.Disk, segments []string)
}{
	{"in the first segment", 5, func(t *testing.T, d *disktest.Disk, s []string) {
		flip(t, d, s[0], strings.Index(string(read(t, d, s[0])), "entry 12"))
	}},
	{"in the last segment", -1, func(t *testing.T, d *disktest.Disk, s []string) { flip(t, d, s[len(s)-1], 48+40) }},
	{"in the header of a segment", -1, func(t *testing.T, d *disktest.Disk, s []string) { flip(t, d, s[1], 30) }},
	{"a segment is gone", -1, func(t *testing.T, d *disktest.Disk, s []string) {
		if err := errors.Join(d.Remove(s[1]), d.Sync()); err != nil {
			t.Fatal(err)
		}
	}},
	{"in the snapshot", 2, func(t *testing.T, d *disktest.Disk, _ []string) { flip(t, d, snapshotFile, 60<<10) }},
	{"in the header of the snapshot", 0, func(t *testing.T, d *disktest.Disk, _ []string) { flip(t, d, snapshotFile, 3) }},
	{"in the end of the snapshot", 4, func(t *testing.T, d *disktest.Disk, _ []string) {
		flip(t, d, snapshotFile, len(read(t, d, snapshotFile))-9)
	}},
}

func contents(t *testing.T, d *disktest.Disk) map[string]string {
	t.Helper()
	names, err := d.List()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range names {
		all[name] = string(read(t, d, name))
	}
	return all
}

func TestSalvage(t *testing.T) {
	for _, c := range damages {
		t.Run(c.name, func(t *testing.T) {
			d, all := sound(t)
			c.damage(t, d, segments(t, d))
			before := contents(t, d)

			_, _, _, err := tryOpen(d)
			var corrupt *journal.CorruptError
			if !errors.As(err, &corrupt) || corrupt.Seq == 0 || !strings.Contains(err.Error(), "berth journal repair") {
				t.Fatalf("open: %v", err)
			}
			if after := contents(t, d); len(after) != len(before) {
				t.Fatal("refusing to open changed files")
			}

			s, err := filelog.Salvage(d, anything, nil)
			if err != nil || s.Damage == nil || *s.Damage != *corrupt {
				t.Fatalf("salvage: %+v, %v", s, err)
			}
			if c.kept >= 0 && s.Kept != c.kept {
				t.Fatalf("kept %d, not %d", s.Kept, c.kept)
			}
			if lost := len(all) - s.Kept - s.Dropped; lost < 0 || lost > 12 {
				t.Fatalf("of %d entries %d were kept and %d dropped", len(all), s.Kept, s.Dropped)
			}
			for _, name := range s.Aside {
				original := strings.TrimPrefix(name, "damaged-1-")
				if string(read(t, d, name)) != before[original] {
					t.Errorf("%s is not what %s was", name, original)
				}
			}
			d.PowerCut(disktest.Always(0))
			l, found, rec := open(t, d)
			if !slices.Equal(found, all[:s.Kept]) || rec.Torn != nil {
				t.Fatalf("%d entries came back of %d, %+v", len(found), s.Kept, rec.Torn)
			}
			add(t, l, durably, "on it goes")
			d.PowerCut(disktest.Always(0))
			if _, again, _ := open(t, d); !slices.Equal(again, append(found, "on it goes")) {
				t.Fatalf("then: %d entries", len(again))
			}
		})
	}
}

func TestSalvageOfASoundJournalChangesNothing(t *testing.T) {
	d, all := sound(t)
	ops := d.Ops()
	s, err := filelog.Salvage(d, anything, nil)
	if err != nil || s.Damage != nil || s.Kept != len(all) || d.Ops() != ops {
		t.Fatalf("%+v, %v, and %d changes", s, err, d.Ops()-ops)
	}
}

// Stopped anywhere, Salvage can be run again; the entries before the damage
// are there in the end, and nothing has vanished.
func TestSalvageCrashPoints(t *testing.T) {
	for _, c := range damages {
		for op, done := 0, false; !done; op++ {
			for _, kept := range []int{0, 1} {
				d, all := sound(t)
				c.damage(t, d, segments(t, d))
				d.CrashAt(d.Ops()+op, 30)
				first, err := filelog.Salvage(d, anything, nil)
				done = err == nil
				d.PowerCut(disktest.Always(kept))
				second, err := filelog.Salvage(d, anything, nil)
				if err != nil {
					t.Fatalf("%s, stopped at %d: %v", c.name, op, err)
				}
				if second.Kept != first.Kept {
					t.Fatalf("%s, stopped at %d: %d kept at first, then %d", c.name, op, first.Kept, second.Kept)
				}
				if _, found, _ := open(t, d); !slices.Equal(found, all[:first.Kept]) {
					t.Fatalf("%s, stopped at %d: %d entries came back of %d", c.name, op, len(found), first.Kept)
				}
			}
		}
	}
}

// An entry that is whole and cannot be true is damage too, wherever it stands in
// its group: it is said where, and the groups before it are kept.
func TestSalvageBeforeAContradiction(t *testing.T) {
	for _, bad := range []string{"entry 14 ", "entry 1 ", "entry 40 "} {
		t.Run(bad, func(t *testing.T) {
			d, all := sound(t)
			believe := func(r journal.Entry) error {
				if strings.HasPrefix(string(r.Data), bad) {
					return fmt.Errorf("%w: no such lease", journal.ErrContradiction)
				}
				return nil
			}
			_, _, err := filelog.Open(d, filelog.Options{}, believe)
			var corrupt *journal.CorruptError
			if !errors.As(err, &corrupt) || corrupt.Offset < 48 || !strings.Contains(err.Error(), "no such lease") || !strings.Contains(err.Error(), "berth journal repair") {
				t.Fatalf("open: %v", err)
			}
			s, err := filelog.Salvage(d, believe, nil)
			if err != nil || s.Damage == nil || *s.Damage != *corrupt {
				t.Fatalf("salvage: %+v, %v", s, err)
			}
			kept := slices.IndexFunc(all, func(r string) bool { return strings.HasPrefix(r, bad) })
			if _, found, _ := open(t, d); s.Kept != kept || !slices.Equal(found, all[:kept]) {
				t.Errorf("%d entries came back, %d were kept, want %d", len(found), s.Kept, kept)
			}
		})
	}
}
