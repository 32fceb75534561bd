package outcome

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

const input = `"the input"`

func same(before json.RawMessage) error {
	if string(before) != input {
		return errors.New("not the same")
	}
	return nil
}

func begin(t testing.TB, path string, shape Shape, force bool) *Log {
	t.Helper()
	p, err := Claim(path, shape, force)
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.Begin(nil, json.RawMessage(input), same)
	if err != nil {
		t.Fatal(errors.Join(err, p.Close()))
	}
	return l
}

func result(i int64) Outcome {
	if i%7 == 3 {
		return Failure(i, fmt.Appendf(nil, `{"id":%d}`, i), "no luck")
	}
	return Success(i, fmt.Appendf(nil, `{"id":%d,"text":"%s"}`, i, strings.Repeat("x", int(i%5))))
}

// missing commits what is not there yet, in groups, last records first.
func missing(t testing.TB, l *Log, total int64) {
	t.Helper()
	var group []Outcome
	for i := total - 1; i >= 0; i-- {
		if !l.Done(i) {
			group = append(group, result(i))
		}
		if len(group) == 10 {
			if err := l.Commit(group); err != nil {
				t.Fatal(err)
			}
			group = nil
		}
	}
	if err := l.Commit(group); err != nil {
		t.Fatal(err)
	}
}

func finish(t testing.TB, l *Log, total int64) {
	t.Helper()
	if err := l.Finish(total); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// content is the lines of an output, unpacked.
func content(t testing.TB, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r io.Reader = bytes.NewReader(data)
	switch filepath.Ext(path) {
	case ".gz":
		if r, err = gzip.NewReader(r); err != nil {
			t.Fatal(err)
		}
	case ".zst":
		z, err := zstd.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		r = z
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(strings.Lines(string(text)))
}

func wanted(total int64) []string {
	var out []string
	for i := range total {
		out = append(out, string(result(i).Data)+"\n")
	}
	return out
}

func TestOutputs(t *testing.T) {
	const total = 100
	for _, name := range []string{"out.jsonl", "out.jsonl.gz", "out.jsonl.zst", "out"} {
		for _, ordered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s ordered=%t", name, ordered), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), name)
				l := begin(t, path, Shape{Ordered: ordered}, false)
				missing(t, l, total)
				if _, err := os.Stat(path); err == nil {
					t.Error("the output is there before the run is finished")
				}
				if done, failed := l.Counts(); done != total || failed != 14 {
					t.Errorf("%d done, %d failed", done, failed)
				}
				finish(t, l, total)
				got, want := content(t, path), wanted(total)
				if !ordered {
					slices.Sort(got)
					slices.Sort(want)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if _, err := os.Stat(Dir(path)); err == nil {
					t.Error("the folder is still there")
				}
			})
		}
	}
}

func TestCSV(t *testing.T) {
	good := func(i int64) Outcome { return Success(i, fmt.Appendf(nil, `{"id":%d,"s":"a,\"b\"","n":null}`, i)) }
	bad := Failure(0, []byte(`{"id":0,"extra":[1,2]}`), "broken")
	odd := Success(2, []byte(`[1]`))
	for _, test := range []struct {
		name    string
		columns []string
		want    []string
	}{
		{"columns of the first good outcome", nil, []string{
			"id,s,n,_more,_error\n", "0,,,\"{\"\"extra\"\":[1,2]}\",broken\n", "1,\"a,\"\"b\"\"\",,,\n", ",,,[1],\n"}},
		{"columns that were asked for", []string{"s", "extra"}, []string{
			"s,extra,_more,_error\n", ",\"[1,2]\",\"{\"\"id\"\":0}\",broken\n", "\"a,\"\"b\"\"\",,\"{\"\"id\"\":1,\"\"n\"\":null}\",\n", ",,[1],\n"}},
	} {
		for _, ordered := range []bool{false, true} {
			path := filepath.Join(t.TempDir(), "out.csv")
			shape := Shape{Ordered: ordered, Columns: test.columns}
			l := begin(t, path, shape, false)
			if err := l.Commit([]Outcome{good(1), bad}); err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			l = begin(t, path, shape, false) // the columns survive
			if err := l.Commit([]Outcome{odd}); err != nil {
				t.Fatal(err)
			}
			finish(t, l, 3)
			if diff := cmp.Diff(test.want, content(t, path)); diff != "" {
				t.Errorf("%s, ordered=%t (-want +got):\n%s", test.name, ordered, diff)
			}
		}
	}
}

func TestNoRecords(t *testing.T) {
	for name, want := range map[string][]string{"out.jsonl": nil, "out.jsonl.gz": nil, "out.csv": {"a,_more,_error\n"}} {
		for _, ordered := range []bool{false, true} {
			path := filepath.Join(t.TempDir(), name)
			shape := Shape{Ordered: ordered}
			if want != nil {
				shape.Columns = []string{"a"}
			}
			finish(t, begin(t, path, shape, false), 0)
			if stat, err := os.Stat(path); err == nil && stat.Size() == 0 {
				if want != nil {
					t.Errorf("%s is empty", name)
				}
			} else if diff := cmp.Diff(want, content(t, path)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

func TestFailure(t *testing.T) {
	for _, test := range []struct{ data, want string }{
		{`{"a":1}`, `{"a":1,"_error":"x\"y"}`},
		{`{}`, `{"_error":"x\"y"}`},
		{`{ "a" : 1 , "_error":"old"}`, `{"a":1,"_error":"x\"y"}`},
		{`"text"`, `{"_input":"text","_error":"x\"y"}`},
		{`[1]`, `{"_input":[1],"_error":"x\"y"}`},
		{`null`, `{"_input":null,"_error":"x\"y"}`},
	} {
		got := Failure(5, []byte(test.data), `x"y`)
		if string(got.Data) != test.want || !got.Failed || got.Index != 5 || !json.Valid(got.Data) {
			t.Errorf("Failure(%s) = %s, want %s", test.data, got.Data, test.want)
		}
		if !Success(0, got.Data).Failed {
			t.Errorf("%s does not count as failed", got.Data)
		}
	}
	for _, data := range []string{`{"a":"_error"}`, `{"a":{"_error":1}}`, `"_error"`, `[]`} {
		if Success(0, []byte(data)).Failed {
			t.Errorf("%s counts as failed", data)
		}
	}
}

func TestClaimRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.jsonl")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(path, []byte("old\n"), 0o600))
	if _, err := Claim(path, Shape{}, false); !errors.Is(err, ErrExists) {
		t.Errorf("an output that exists: %v", err)
	}
	if _, err := os.Stat(Dir(path)); err == nil {
		t.Error("a refused claim left a folder")
	}
	if _, err := Claim(dir, Shape{}, true); err == nil {
		t.Error("a folder counts as an output")
	}
	if _, err := Claim(path, Shape{Format: "xml"}, true); err == nil {
		t.Error("an unknown format was taken")
	}
	if _, err := Claim(path, Shape{Packing: "rar"}, true); err == nil {
		t.Error("an unknown compression was taken")
	}

	l := begin(t, path, Shape{}, true)
	if _, err := Claim(path, Shape{}, false); !errors.Is(err, ErrBusy) {
		t.Errorf("an output that is being written: %v", err)
	}
	must(l.Commit([]Outcome{result(0)}))
	must(l.Close())
	if data, _ := os.ReadFile(path); string(data) != "old\n" {
		t.Errorf("the old output is gone before the new one is there: %q", data)
	}

	for name, shape := range map[string]Shape{"ordered": {Ordered: true}, "format": {Format: CSV}, "packing": {Packing: Gzip}, "columns": {Format: CSV, Columns: []string{"a"}}} {
		p, err := Claim(path, shape, false)
		must(err)
		if _, err := p.Begin(nil, json.RawMessage(input), same); !errors.Is(err, ErrChanged) {
			t.Errorf("going on with another %s: %v", name, err)
		}
		must(p.Close())
	}
	p, err := Claim(path, Shape{}, false)
	must(err)
	if _, err := p.Begin(nil, json.RawMessage(`"other"`), func(json.RawMessage) error { return errors.New("changed") }); !errors.Is(err, ErrChanged) {
		t.Errorf("going on with another input: %v", err)
	}
	must(p.Close())

	l = begin(t, path, Shape{}, false) // begun with force, so it replaces the old one without being asked again
	if !l.Done(0) || l.Done(1) {
		t.Error("the run does not go on where it stopped")
	}
	finish(t, l, 1)
	if diff := cmp.Diff(wanted(1), content(t, path)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFinishDoesNotOverwriteWhatCameMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	l := begin(t, path, Shape{}, false)
	missing(t, l, 5)
	if err := os.WriteFile(path, []byte("mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Finish(5); !errors.Is(err, ErrAppeared) {
		t.Fatalf("Finish = %v, want %v", err, ErrAppeared)
	}
	if err := l.place.takeName(logName); !errors.Is(err, ErrAppeared) { // it came after Finish had looked
		t.Fatalf("takeName = %v, want %v", err, ErrAppeared)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l = begin(t, path, Shape{}, false)
	if !l.Complete() {
		t.Error("the run is not known to be complete")
	}
	finish(t, l, 5)
	if got := content(t, path); len(got) != 5 {
		t.Errorf("%d lines", len(got))
	}
}

func TestResumeRefusesAnOutputThatCameMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	l := begin(t, path, Shape{}, false)
	if err := errors.Join(l.Commit([]Outcome{result(0)}), l.Close(), os.WriteFile(path, []byte("mine\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	p, err := Claim(path, Shape{}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Begin(nil, json.RawMessage(input), same); !errors.Is(err, ErrAppeared) || errors.Is(err, ErrExists) {
		t.Errorf("Begin = %v, want %v", err, ErrAppeared)
	}
}

// A run that has no outcome does not stand in the way of another one.
func TestRunWithoutOutcomesIsForgotten(t *testing.T) {
	for _, test := range []struct {
		name    string
		replace bool
		outcome []Outcome
		kept    bool
	}{
		{"nothing done", false, nil, false},
		{"one done", false, []Outcome{result(0)}, true},
		{"nothing done, and another output would be replaced", true, nil, true},
	} {
		path := filepath.Join(t.TempDir(), "out.jsonl")
		l := begin(t, path, Shape{Ordered: true}, test.replace)
		if err := errors.Join(l.Commit(test.outcome), l.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(Dir(path)); (err == nil) != test.kept {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestTwoOutcomesAreRefused(t *testing.T) {
	l := begin(t, filepath.Join(t.TempDir(), "out.jsonl"), Shape{}, false)
	defer l.Close()
	if err := l.Commit([]Outcome{result(1), result(1)}); err == nil {
		t.Error("two outcomes for one record in a group")
	}
	if err := l.Commit([]Outcome{result(1)}); err != nil {
		t.Fatal(err)
	}
	if err := l.Commit([]Outcome{result(2), result(1)}); err == nil {
		t.Error("two outcomes for one record")
	}
	if err := l.Finish(2); err == nil {
		t.Error("finished with an outcome missing")
	}
	if err := l.Finish(1); err == nil {
		t.Error("finished without record 0")
	}
}

func TestSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, model := newSet(), map[int64]bool{}
		for range rapid.IntRange(1, 8).Draw(t, "runs") {
			first := rapid.Int64Range(0, 4*pageBits).Draw(t, "first")
			for i := first; i < first+rapid.Int64Range(1, 2*pageBits).Draw(t, "count"); i++ {
				if s.add(i) == model[i] {
					t.Fatalf("add(%d) when it was there: %t", i, model[i])
				}
				model[i] = true
			}
		}
		for range 200 {
			i := rapid.Int64Range(0, 7*pageBits).Draw(t, "i")
			if s.has(i) != model[i] {
				t.Fatalf("has(%d) = %t", i, s.has(i))
			}
		}
		if s.count != int64(len(model)) {
			t.Fatalf("count %d, want %d", s.count, len(model))
		}
	})
}

func TestSetForgetsFullPages(t *testing.T) {
	s := newSet()
	for i := range int64(10 * pageBits) {
		if i != 5*pageBits+17 {
			s.add(i)
		}
	}
	if s.full != 5 || len(s.pages) != 1 || len(s.later) != 4 {
		t.Errorf("%d full, %d with gaps, %d later", s.full, len(s.pages), len(s.later))
	}
	s.add(5*pageBits + 17)
	if s.full != 10 || len(s.pages) != 0 || len(s.later) != 0 {
		t.Errorf("%d full, %d with gaps, %d later", s.full, len(s.pages), len(s.later))
	}
}
