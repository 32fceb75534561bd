package record

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/internal/batch/rawjson"
)

// all reads a source to its end, one line of text per record.
func all(t testing.TB, spec Spec) []string {
	t.Helper()
	s, err := Open(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out []string
	last := int64(-1)
	for {
		r, err := s.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Index <= last || !json.Valid(r.Data) || bytes.ContainsRune(r.Data, '\n') {
			t.Fatalf("record %d after %d: %q", r.Index, last, r.Data)
		}
		last = r.Index
		line := string(r.Data)
		if r.Error != "" {
			line += " ! " + r.Error
		}
		out = append(out, line)
	}
}

func TestFormats(t *testing.T) {
	long := strings.Repeat("x", 100)
	for _, test := range []struct {
		name   string
		format Format
		text   string
		want   []string
	}{
		{"nothing", JSONL, "", nil},
		{"empty lines only", JSONL, "\n \n\r\n", nil},
		{"values of every kind", JSONL, "{\"a\": 1}\n[1,2]\n\"s\"\n1.50\nnull\n", []string{`{"a": 1}`, `[1,2]`, `"s"`, `1.50`, `null`}},
		{"no end of line, byte order mark, carriage returns", JSONL, "\xef\xbb\xbf{\"a\":1}\r\n\r\n 2 ", []string{`{"a":1}`, `2`}},
		{"what is not JSON is a record with an error", JSONL, "1\n{\"a\":\n3\nNaN\n", []string{
			`1`, `"{\"a\":" ! standard input line 2: not JSON: unexpected end of JSON input at byte 5`,
			`3`, `"NaN" ! standard input line 4: not JSON: invalid character 'N' looking for beginning of value at byte 1`}},
		{"text that is none", JSONL, "1\n\"\xff\"\n", []string{`1`, `"\"\ufffd\"" ! standard input line 2: not UTF-8 text`}},
		{"too long", JSONL, "1\n\"" + long + "\"\n3\n", []string{`1`, `"\"` + long[:49] + `" ! standard input line 2: longer than 50 bytes: only its beginning is here`, `3`}},
		{"too long, at the end", JSONL, long, []string{`"` + long[:50] + `" ! standard input line 1: longer than 50 bytes: only its beginning is here`}},
		{"lines", Lines, "a\n\n \"b\"\r\nc", []string{`"a"`, `""`, `" \"b\""`, `"c"`}},
		{"csv", CSV, "a,b\n1,x\n\n\"2\",\"y,\"\"z\"\"\"\n", []string{`{"a":"1","b":"x"}`, `{"a":"2","b":"y,\"z\""}`}},
		{"csv without records", CSV, "a,b\n", nil},
		{"csv without anything", CSV, "", nil},
		{"csv over lines", CSV, "a,b\r\n1,\"x\r\ny\"\r\n2,z\r\n", []string{`{"a":"1","b":"x\ny"}`, `{"a":"2","b":"z"}`}},
		{"csv with wrong numbers of fields", CSV, "a,b\n1\n1,2,3\n1,2\n", []string{
			`"1" ! standard input line 2: 1 field where the header has 2`,
			`"1,2,3" ! standard input line 3: 3 fields where the header has 2`, `{"a":"1","b":"2"}`}},
		{"what an earlier run said is taken out", JSONL, `{"a":1,"_error":"x","b":{"_error":2}}` + "\n" + `{"_error":"x"}` + "\n\"_error\"\n", []string{
			`{"a":1,"b":{"_error":2}}`, `{}`, `"_error"`}},
		{"in a csv too", CSV, "_error,a,b\nx,1,2\n", []string{`{"a":"1","b":"2"}`}},
		{"csv with a quote inside", CSV, "a,b\n5\" pipe,x\n", []string{`{"a":"5\" pipe","b":"x"}`}},
		{"csv with a quote that is never closed", CSV, "a,b\n1,\"x\n2,y\n3,z\n", []string{
			`"1,\"x" ! standard input line 2: a quote is never closed`, `{"a":"2","b":"y"}`, `{"a":"3","b":"z"}`}},
		{"csv with a quote that is not closed soon", CSV, "a,b\n1,\"x\n2," + long[:20] + "\n3," + long[:30] + "\n4,y\n", []string{
			`"1,\"x" ! standard input line 2: a quote is never closed`, `{"a":"2","b":"` + long[:20] + `"}`, `{"a":"3","b":"` + long[:30] + `"}`, `{"a":"4","b":"y"}`}},
		{"csv with an open quote before a line that is too long", CSV, "a,b\n1,\"x\n2," + long + "\n4,y\n", []string{
			`"1,\"x" ! standard input line 2: a quote is never closed`, `"2,` + long[:48] + `" ! standard input line 3: longer than 50 bytes: only its beginning is here`, `{"a":"4","b":"y"}`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := all(t, Spec{Stream: strings.NewReader(test.text), Format: test.format, MaxBytes: 50})
			for i := range got { // Quote keeps what it can; both spellings mean the same
				got[i] = strings.ReplaceAll(got[i], "\ufffd", `\ufffd`)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorIsKept(t *testing.T) {
	line := `{"a":1,"_error":"x"}`
	if got := all(t, Spec{Stream: strings.NewReader(line), KeepError: true}); len(got) != 1 || got[0] != line {
		t.Errorf("%q, want %q", got, line)
	}
}

// A record of a stream is there when its line is, however short it is: whoever writes the
// stream may wait for the outcome.
func TestShortLineOfAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		s, err := Open(Spec{Stream: in})
		if err != nil {
			t.Fatal(err)
		}
		go out.Write([]byte("1\n")) // and nothing more; nor does it close
		if r, err := s.Next(); err != nil || string(r.Data) != "1" {
			t.Errorf("%q, %v", r.Data, err)
		}
	})
}

// Whatever encoding/csv writes is read back as it was.
func TestCSVReadsWhatIsWritten(t *testing.T) {
	field := rapid.StringOf(rapid.SampledFrom([]rune("ab,\"\n ;ü")))
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(1, 4).Draw(t, "columns")
		var text bytes.Buffer
		w := csv.NewWriter(&text)
		header := []string{"c0", "c1", "c2", "c3"}[:columns]
		_ = w.Write(header)
		var want []map[string]string
		for range rapid.IntRange(0, 10).Draw(t, "rows") {
			row, object := []string{}, map[string]string{}
			for i := range columns {
				row = append(row, field.Draw(t, "field"))
				object[header[i]] = row[i]
			}
			if columns == 1 && row[0] == "" {
				continue // written as an empty line, which is no row
			}
			_ = w.Write(row)
			want = append(want, object)
		}
		w.Flush()
		s, err := Open(Spec{Stream: &text, Format: CSV})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range want {
			r, err := s.Next()
			if err != nil || r.Error != "" {
				t.Fatalf("%v %s", err, r.Error)
			}
			var got map[string]string
			if err := json.Unmarshal(r.Data, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(object, got); diff != "" {
				t.Fatal(diff)
			}
		}
		if _, err := s.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("after the last row: %v", err)
		}
	})
}

func TestLongLines(t *testing.T) {
	// Longer than the reader's buffer, on both sides of the limit.
	const limit = 600 << 10
	fits, over := strings.Repeat("a", limit), strings.Repeat("b", limit+1)
	got := all(t, Spec{Stream: strings.NewReader(fits + "\n" + over + "\nc\n" + over), Format: Lines, MaxBytes: limit})
	if len(got) != 4 || got[0] != `"`+fits+`"` || !strings.HasSuffix(got[1], "line 2: longer than 614400 bytes: only its beginning is here") || got[2] != `"c"` || !strings.Contains(got[3], "line 4") {
		for i, g := range got {
			t.Logf("%d: %.20s… (%d bytes)", i, g, len(g))
		}
		t.Error("lines longer than the buffer are not what they should be")
	}
}

func write(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "b.jsonl"), "3\n")
	write(t, filepath.Join(dir, "a.jsonl"), "1\n2") // no end of line
	write(t, filepath.Join(dir, "c.jsonl"), "")
	write(t, filepath.Join(dir, "x.tif"), "12345")
	if err := os.Mkdir(filepath.Join(dir, "d.jsonl"), 0o700); err != nil {
		t.Fatal(err)
	}
	pattern := filepath.Join(dir, "*.jsonl")
	if diff := cmp.Diff([]string{"1", "2", "3"}, all(t, Spec{Paths: []string{pattern}})); diff != "" {
		t.Errorf("a pattern (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"3", "1", "2"}, all(t, Spec{Paths: []string{filepath.Join(dir, "b.jsonl"), pattern}})); diff != "" {
		t.Errorf("a file that is named twice (-want +got):\n%s", diff)
	}
	want := []string{fmt.Sprintf(`{"path":%q,"size":5}`, filepath.Join(dir, "x.tif"))}
	if diff := cmp.Diff(want, all(t, Spec{Paths: []string{filepath.Join(dir, "*.tif")}})); diff != "" {
		t.Errorf("files as records (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"1", "3"}, all(t, Spec{Paths: []string{pattern}, Done: func(i int64) bool { return i == 1 }})); diff != "" {
		t.Errorf("passing over what is done (-want +got):\n%s", diff)
	}
}

func TestCompressed(t *testing.T) {
	text := strings.Repeat("{\"a\":1}\n", 1000)
	var zipped, zstded bytes.Buffer
	g := gzip.NewWriter(&zipped)
	_, _ = g.Write([]byte(text))
	_ = g.Close()
	z, err := zstd.NewWriter(&zstded)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	for name, packed := range map[string]string{
		"gzip": zipped.String(), "gzip in two members": zipped.String() + zipped.String(),
		"zstd": zstded.String(), "zstd in two frames": zstded.String() + zstded.String(),
	} {
		want := 1000
		if strings.Contains(name, "two") {
			want = 2000
		}
		if got := all(t, Spec{Stream: strings.NewReader(packed)}); len(got) != want {
			t.Errorf("%s: %d records, want %d", name, len(got), want)
		}
	}
}

// A file that is cut anywhere says so, and the files behind it are not left out.
func TestCutFiles(t *testing.T) {
	var zipped, zstded bytes.Buffer
	g := gzip.NewWriter(&zipped)
	g.Name, g.Comment, g.Extra = "a.jsonl", "from a full disk", []byte("more")
	_, _ = g.Write([]byte("1\n2\n3\n"))
	_ = g.Close()
	z, err := zstd.NewWriter(&zstded)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = z.Write([]byte("1\n2\n3\n"))
	_ = z.Close()
	dir := t.TempDir()
	next := write(t, filepath.Join(dir, "b.jsonl"), "4\n5\n")
	for name, packed := range map[string]string{"gzip": zipped.String(), "zstd": zstded.String()} {
		for cut := range 2 * len(packed) {
			path := write(t, filepath.Join(dir, "a.jsonl"), (packed + packed)[:cut])
			s, err := Open(Spec{Paths: []string{path, next}})
			if err != nil {
				t.Fatal(err)
			}
			bad, want := false, int64(2+cut/len(packed)*3)
			for err == nil {
				var r Record
				r, err = s.Next()
				bad = bad || r.Error != ""
			}
			if whole := cut%len(packed) == 0; errors.Is(err, io.EOF) && !bad && !whole || whole && (err != io.EOF || s.Count() != want) {
				t.Errorf("%s, cut at byte %d: %d records, then %v", name, cut, s.Count(), err)
			}
			_ = s.Close()
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	data := write(t, filepath.Join(dir, "data.json"), "[]")
	lines := write(t, filepath.Join(dir, "a.jsonl"), "1\n")
	table := write(t, filepath.Join(dir, "b.csv"), "x\n1\n")
	twice := write(t, filepath.Join(dir, "c.csv"), "x,x\n1,2\n")
	for _, test := range []struct {
		name string
		spec Spec
		want string
	}{
		{"nothing to read", Spec{}, "no input"},
		{"no such file", Spec{Paths: []string{filepath.Join(dir, "none.jsonl")}}, "no such file"},
		{"no match", Spec{Paths: []string{filepath.Join(dir, "*.none")}}, "no file matches"},
		{"a bad pattern", Spec{Paths: []string{filepath.Join(dir, "[")}}, "pattern"},
		{"a directory", Spec{Paths: []string{dir}}, "give a pattern"},
		{"a name that tells nothing", Spec{Paths: []string{data}}, "does not say it"},
		{"two formats", Spec{Paths: []string{lines, table}}, "some inputs are"},
		{"a format nobody knows", Spec{Paths: []string{lines}, Format: "xml"}, "not one of jsonl"},
		{"a stream in such a format", Spec{Stream: strings.NewReader(""), Format: "xml"}, "not one of jsonl"},
		{"files from a stream", Spec{Stream: strings.NewReader(""), Format: Files}, "holds no files"},
		{"a cost without a field", Spec{Paths: []string{lines}, Cost: Cost{By: ByField}}, "name the field"},
	} {
		if _, err := Open(test.spec); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want something about %q", test.name, err, test.want)
		}
	}
	s, err := Open(Spec{Paths: []string{twice}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(); err == nil || !strings.Contains(err.Error(), `column "x" twice`) {
		t.Errorf("a header with a column twice: %v", err)
	}
}

func TestWeight(t *testing.T) {
	record := `{"n": 7.5, "s": "12", "bad": "x", "neg": -1, "huge": 1e999}`
	for _, test := range []struct {
		cost Cost
		want float64
	}{
		{Cost{}, float64(len(record))},
		{Cost{By: ByNothing}, 0},
		{Cost{By: ByField, Field: "n"}, 7.5},
		{Cost{By: ByField, Field: "s"}, 12},
		{Cost{By: ByField, Field: "bad"}, 0},
		{Cost{By: ByField, Field: "neg"}, 0},
		{Cost{By: ByField, Field: "huge"}, 0},
		{Cost{By: ByField, Field: "none"}, 0},
	} {
		s, err := Open(Spec{Stream: strings.NewReader(record), Cost: test.cost})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := s.Next(); err != nil || r.Weight != test.want {
			t.Errorf("%+v: weight %g (%v), want %g", test.cost, r.Weight, err, test.want)
		}
	}
}

func TestFingerprint(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "in.jsonl")
	mark := func(spec Spec) Fingerprint {
		t.Helper()
		s, err := Open(spec)
		if err != nil {
			t.Fatal(err)
		}
		f, err := s.Fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	spec := Spec{Paths: []string{path}}
	write(t, path, "1\n2\n")
	before := mark(spec)
	touched := time.Now().Add(time.Hour)
	if err := os.Chtimes(path, touched, touched); err != nil {
		t.Fatal(err)
	}
	if d := mark(spec).Difference(before); d != "" {
		t.Errorf("the same content at another time: %s", d)
	}
	for text, want := range map[string]string{
		"1\n3\n":    "has other content",
		"1\n2\n3\n": "had 4 bytes and now has 6",
	} {
		write(t, path, text)
		if d := mark(spec).Difference(before); !strings.Contains(d, want) {
			t.Errorf("%q: %q, want %q", text, d, want)
		}
	}
	write(t, path, "1\n2\n")
	other := spec
	other.Format = Lines
	if d := mark(other).Difference(before); !strings.Contains(d, "read as") {
		t.Errorf("another format: %q", d)
	}
	if d := mark(Spec{Stream: strings.NewReader("")}).Difference(before); !strings.Contains(d, "stream") {
		t.Errorf("a stream: %q", d)
	}
	write(t, filepath.Join(dir, "other.jsonl"), "1\n2\n3\n")
	if d := mark(Spec{Paths: []string{filepath.Join(dir, "other.jsonl")}}).Difference(before); !strings.Contains(d, "another file") {
		t.Errorf("another file: %q", d)
	}
	if err := os.Rename(filepath.Join(dir, "other.jsonl"), filepath.Join(dir, "more.jsonl")); err != nil {
		t.Fatal(err)
	}
	if d := mark(Spec{Paths: []string{filepath.Join(dir, "*.jsonl")}}).Difference(before); !strings.Contains(d, "was 1 file and now is 2 files") {
		t.Errorf("one more file: %q", d)
	}
	commas, tabs := filepath.Join(dir, "table.csv"), filepath.Join(dir, "table.tsv")
	write(t, commas, "a,b\n1,2\n")
	before = mark(Spec{Paths: []string{commas}})
	if err := os.Rename(commas, tabs); err != nil {
		t.Fatal(err)
	}
	now := mark(Spec{Paths: []string{tabs}})
	if d := now.Difference(before); !strings.Contains(d, "in a .tsv tabs") {
		t.Errorf("other columns: %q", d)
	}
	before.Commas = "" // as an earlier version marked it
	if d := now.Difference(before); d != "" {
		t.Errorf("a mark of an earlier version: %q", d)
	}
}

// Nothing that is read makes a record that is no JSON, and none is lost when
// some are passed over.
func FuzzRead(f *testing.F) {
	f.Add([]byte("a,b\n1,\"x\n2,y\n"), 1)
	f.Add([]byte("{\"a\":1}\n\n[\n"), 0)
	f.Add([]byte("\xef\xbb\xbfx\r\n\xff"), 2)
	f.Fuzz(func(t *testing.T, data []byte, kind int) {
		format := []Format{JSONL, CSV, Lines}[uint(kind)%3]
		read := func(done func(int64) bool) []Record {
			s, err := Open(Spec{Stream: bytes.NewReader(data), Format: format, MaxBytes: 64, Done: done})
			if err != nil {
				t.Fatal(err)
			}
			var out []Record
			for {
				r, err := s.Next()
				if err != nil {
					return out
				}
				if !json.Valid(r.Data) {
					t.Fatalf("%q", r.Data)
				}
				out = append(out, r)
			}
		}
		odd := func(i int64) bool { return i%2 == 1 }
		whole, part := read(nil), read(odd)
		for i, r := range part {
			if diff := cmp.Diff(whole[2*i], r); diff != "" {
				t.Fatal(diff)
			}
		}
		if len(part) != (len(whole)+1)/2 {
			t.Fatalf("%d records, of which %d are even", len(whole), len(part))
		}
	})
}

// A stream ends with its last line, if one is named, and nobody has to close it.
func TestStreamEndsWithALine(t *testing.T) {
	for format, text := range map[Format]string{JSONL: "1\n2\n", Lines: "1\n2\n", CSV: "a\n1\n2\n"} {
		in, out := io.Pipe() // never closed: a read beyond the end would wait for ever
		go func() { _, _ = out.Write([]byte(text + "the end\n")) }()
		s, err := Open(Spec{Stream: in, End: "the end", Format: format})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if r, err := s.Next(); err != nil || r.Error != "" {
				t.Errorf("%s: %+v, %v", format, r, err)
			}
		}
		for range 2 {
			if r, err := s.Next(); err != io.EOF {
				t.Errorf("%s: %+v, %v after the end", format, r, err)
			}
		}
	}
}

// A line that is no record is the outcome as it is, whatever its length: failed ones can be
// run again as they are.
func TestFailedLineIsWhole(t *testing.T) {
	line := `{"text":"` + strings.Repeat("x", 6000) + `","loss":NaN}`
	s, err := Open(Spec{Stream: strings.NewReader(line + "\n"), Format: JSONL})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Next()
	if got := rawjson.Text(r.Data); err != nil || r.Error == "" || got != line {
		t.Errorf("%d of %d bytes, %q, %v", len(got), len(line), r.Error, err)
	}
}

// rows reads a CSV as newCSV does, in the simplest way: each row looks for the end of its
// quote by itself.
func rows(text string, max int) (out []string) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for len(lines) > 0 {
		row, n := lines[0], 1
		if len(row) > max {
			out, lines = append(out, "too long"), lines[1:]
			continue
		}
		open := quoteOpen([]byte(row), ',', false)
		for open && n < len(lines) && len(lines[n]) <= max && len(row)+1+len(lines[n]) <= max {
			open = quoteOpen([]byte(lines[n]), ',', true)
			row += "\n" + lines[n]
			n++
		}
		switch {
		case open:
			out, lines = append(out, "open "+lines[0]), lines[1:]
		case row == "":
			lines = lines[1:]
		default:
			out, lines = append(out, row), lines[n:]
		}
	}
	return out
}

// Rows are what they are if each looks for the end of its quote by itself, though no line
// is looked at more than once for that.
func TestQuotedRows(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		text := "h\n"
		for range random.IntN(40) {
			text += string("\n\n\",,\"x"[random.IntN(7)])
		}
		const max = 12
		l, err := newLines(bufio.NewReaderSize(strings.NewReader(text), 16), max)
		if err != nil {
			t.Fatal(err)
		}
		d, err := newCSV(l, ',')
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for {
			row, _, err := d.nextRow()
			if err == io.EOF {
				break
			}
			bad, isFault := err.(*fault)
			switch {
			case isFault && strings.HasPrefix(bad.text, "longer"):
				got = append(got, "too long")
			case isFault:
				got = append(got, "open "+string(bad.raw))
			default:
				got = append(got, string(row))
			}
		}
		if want := rows(text, max)[1:]; !slices.Equal(got, want) {
			t.Fatalf("%q:\n%q, want\n%q", text, got, want)
		}
	}
}

// Quotes that are never closed cost no more than others: if each row looked for the end of
// its quote by itself, this would take hours.
func TestManyOpenQuotes(t *testing.T) {
	const n = 500_000
	s, err := Open(Spec{Stream: strings.NewReader("a,b\n" + strings.Repeat("5\"disk,\"x\n", n)), Format: CSV})
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if r, err := s.Next(); err != nil || !strings.Contains(r.Error, "never closed") {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if r, err := s.Next(); err != io.EOF || s.Count() != n {
		t.Errorf("%+v, %v, %d rows", r, err, s.Count())
	}
}

// Files of several frames, as pzstd and seekable zstd write them, begin with a frame to skip.
func TestZstdWithAFrameToSkip(t *testing.T) {
	var packed bytes.Buffer
	packed.WriteString("\x5e\x2a\x4d\x18\x04\x00\x00\x00size")
	w, err := zstd.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte("1\n2\n"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Spec{Stream: &packed, Format: JSONL})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1", "2"} {
		if r, err := s.Next(); err != nil || string(r.Data) != want {
			t.Errorf("%q, %v, want %q", r.Data, err, want)
		}
	}
}
