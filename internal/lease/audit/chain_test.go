package audit

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// written returns a log of n entries, and the mark of the last one.
func written(n int) (text []byte, newest Mark) {
	for i := range n {
		line := Line(api.AuditEntry{
			Seq: uint64(i + 1), Time: time.Unix(int64(i), 0).UTC(), Prev: newest.Hash, What: "release", Outcome: Done,
			Who: api.AuditActor{User: "root", UID: gpu.Some(0), Door: "socket"}, Object: api.AuditObject{Kind: "lease", Owner: "ada", ID: "train"},
		})
		text, newest = append(text, line...), Mark{uint64(i + 1), Hash(line)}
	}
	return text, newest
}

func verdict(mark Mark, files ...File) api.AuditVerdict {
	c := NewChecker(mark)
	for _, f := range files {
		c.Read(f)
	}
	return c.Verdict()
}

func TestEntriesAreTheJSONThatTheAPIShows(t *testing.T) {
	text, newest := written(3)
	v := verdict(newest, File{CurrentName, text})
	if want := (api.AuditVerdict{Sound: true, Entries: 3, First: 1, Last: 3, Marked: 3, Files: []string{CurrentName}, Problems: []api.AuditProblem{}}); !cmp.Equal(v, want) {
		t.Error(cmp.Diff(want, v))
	}
	e, is := Parse(bytes.SplitAfter(text, []byte("\n"))[1])
	if !is || e.Seq != 2 || e.Object.Owner != "ada" || e.Who.UID != gpu.Some(0) || len(e.Prev) != 64 {
		t.Errorf("the second entry is %+v", e)
	}
	if empty := verdict(Mark{}); !empty.Sound || empty.Entries != 0 {
		t.Errorf("no log at all: %+v", empty)
	}
}

// No bit of a log can be changed, no byte be removed and no line be left out
// without being noticed.
func TestEveryChangeIsNoticed(t *testing.T) {
	text, newest := written(4)
	for i := range text {
		for bit := range 8 {
			changed := slices.Clone(text)
			changed[i] ^= 1 << bit
			if verdict(newest, File{CurrentName, changed}).Sound {
				t.Fatalf("bit %d of byte %d was changed: %q", bit, i, changed[max(i-20, 0):min(i+20, len(changed))])
			}
		}
		if cut := text[:i]; verdict(newest, File{CurrentName, cut}).Sound && i < len(text)-1 { // a newline alone is missed by nobody
			t.Fatalf("%d bytes of %d are left", i, len(text))
		}
	}
	lines := bytes.SplitAfter(text, []byte("\n"))[:4]
	for i := range lines {
		if verdict(newest, File{CurrentName, bytes.Join(slices.Delete(slices.Clone(lines), i, i+1), nil)}).Sound {
			t.Errorf("line %d was left out", i+1)
		}
	}
}

// A line that was cut off is explained by the entry after it, and by none that
// says it of another line.
func TestTornLines(t *testing.T) {
	text, newest := written(2)
	torn := append(slices.Clone(text), `{"seq":3,"ti`+"\n"...)
	after := func(prev, whole string) []byte {
		return append(slices.Clone(torn), Line(api.AuditEntry{Seq: 3, Prev: prev, What: Torn, After: map[string]string{Whole: whole}})...)
	}
	garbage := Hash([]byte(`{"seq":3,"ti`))
	if v := verdict(newest, File{CurrentName, after(garbage, newest.Hash)}); !v.Sound || v.Entries != 3 {
		t.Errorf("a torn line: %+v", v)
	}
	for name, text := range map[string][]byte{
		"of another line": after(newest.Hash, newest.Hash), "after another entry": after(garbage, garbage), "unexplained": append(slices.Clone(torn), text...),
	} {
		if verdict(newest, File{CurrentName, text}).Sound {
			t.Errorf("%s: it looks sound", name)
		}
	}
	if v := verdict(newest, File{CurrentName, torn[:len(torn)-1]}); !v.Sound {
		t.Errorf("before the next start: %+v", v)
	}
}

func TestLongAndBinaryTexts(t *testing.T) {
	many := map[string]string{}
	for i := range 1000 {
		many[strings.Repeat("x", i)] = strings.Repeat("ä", 5000)
	}
	line := Line(api.AuditEntry{Seq: 1, What: "a\n\x00\xff", Why: strings.Repeat("é", 9999), Before: many})
	e, is := Parse(line)
	if !is || bytes.Count(line, []byte("\n")) != 1 || len(line) > 1<<20 || len([]rune(e.Why)) > longestText+1 || len(e.Before) != mostValues+1 {
		t.Errorf("%d bytes, %v, why has %d", len(line), is, len(e.Why))
	}
}

func TestNames(t *testing.T) {
	list := []string{CurrentName, Rotated.Name(9), "notes", Rotated.Name(10), "audit-1.log", "audit.log.1", Rotated.Name(1)}
	want := []string{Rotated.Name(1), Rotated.Name(9), Rotated.Name(10), CurrentName}
	if got := Order(list); !slices.Equal(got, want) {
		t.Errorf("in order %v", got)
	}
}

func FuzzChecker(f *testing.F) {
	text, newest := written(3)
	f.Add(text, []byte{}, newest.Hash)
	f.Add([]byte("{}\n\n\x00"), text, "")
	f.Fuzz(func(t *testing.T, a, b []byte, hash string) {
		v := verdict(Mark{3, hash}, File{Rotated.Name(1), a}, File{CurrentName, b})
		if v.Sound != (len(v.Problems) == 0) || v.Entries < 0 {
			t.Errorf("%+v", v)
		}
	})
}
