package document

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var file = Format{Noun: "the file", Bytes: 1 << 20}

// keys describes the documents of these tests: every section may hold the same.
var keys = Keys{What: "a key", Known: []string{"name", "count", "list", "below"}, Elsewhere: func(key string) string {
	if key == "colour" {
		return "it belongs to another file"
	}
	return ""
}}

// read walks a whole document and returns what it holds and what is wrong with
// it, a line each.
func read(text string, f Format, most int) (values, problems []string) {
	report := func(p Problem) bool {
		where := fmt.Sprintf("%d", p.Line)
		if p.Node != nil && p.Node.Name() != "" {
			where += " " + p.Node.Name()
		}
		problems = append(problems, fmt.Sprintf("%s: %s: %s → %s", where, p.Code, p.Reason, p.Remedy))
		return len(problems) < most
	}
	root, problem := Parse([]byte(text), f)
	if problem != nil {
		report(*problem)
		return nil, problems
	}
	var visit func(n *Node)
	visit = func(n *Node) {
		if len(problems) >= most {
			return
		}
		switch n.Shape {
		case Section:
			for e := range n.Entries(keys, report) {
				visit(e)
			}
		case List:
			for item := range n.All("", report) {
				visit(item)
			}
		default:
			values = append(values, fmt.Sprintf("%d %s = %q, %v %d", n.Line, n.Name(), n.Text, n.Shape, n.Type))
		}
	}
	if root.Shape != Nothing {
		for e := range root.Entries(keys, report) {
			visit(e)
		}
	}
	return values, problems
}

func TestRead(t *testing.T) {
	yaml := "name: a b\ncount: 7\nlist:\n- x\n- [1.5, true]\n- {name: ~}\nbelow:\n  below: {count: \"3\"}\n"
	json := "{\"name\": \"a b\",\n\"count\": 7,\n\"list\": [\n\"x\",\n[1.5, true],\n{\"name\": null}],\n\"below\":\n {\"below\": {\"count\": \"3\"}}}"
	want := []string{
		`1 name = "a b", a single value 0`, `2 count = "7", a single value 1`, `4 list[0] = "x", a single value 0`,
		`5 list[1][0] = "1.5", a single value 1`, `5 list[1][1] = "true", a single value 2`, `6 list[2].name = "", nothing 0`,
		`8 below.below.count = "3", a single value 0`,
	}
	for name, text := range map[string]string{"YAML": yaml, "JSON": json} {
		got, problems := read(text, file, 100)
		if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
			t.Errorf("%s: problems %q, values (-want +got):\n%s", name, problems, diff)
		}
	}
	for _, empty := range []string{"", " \n", "# nothing\n", "---\n", "~", "null"} {
		if root, problem := Parse([]byte(empty), file); problem != nil || root.Shape != Nothing || root.Line < 1 {
			t.Errorf("%q is read as %+v, %v", empty, root, problem)
		}
	}
}

func TestProblems(t *testing.T) {
	body := Format{Noun: "the body", Bytes: 100, JSON: true}
	const notYAML = "look for a missing colon, quote or bracket here and in the lines around it, and for tabs: YAML is indented with blanks"
	for _, c := range []struct {
		name, text string
		format     Format
		want       []string
	}{
		{"unknown key", "nmae: 1\nzebra: 2\ncolour: 3\n", file, []string{
			"1 nmae: unknown_key: is not a key → did you mean name?",
			"2 zebra: unknown_key: is not a key → it can have name, count, list, below",
			"3 colour: unknown_key: is in the wrong place → it belongs to another file"}},
		{"set twice", "name: 1\ncount: 1\nname: 2\nbelow: {name: 1, name: 2}\n", file, []string{
			"3 name: set_twice: is set twice, the first time in line 1 → remove one of them",
			"4 below.name: set_twice: is set twice → remove one of them"}},
		{"set twice in JSON", "{\"name\": 1,\n\"name\": 2}", file, []string{
			"2 name: set_twice: is set twice, the first time in line 1 → remove one of them"}},
		{"root of another shape", "- name", file, []string{
			"1: wrong_shape: must be a section (key: value), not a list → it can have name, count, list, below"}},
		{"anchor and alias", "below: &a\n  name: &b x\nlist: [*a, &c y]\ncount: *b\n", file, []string{
			"1 below: not_supported: has an anchor (&), which is not supported → remove it",
			"2 below.name: not_supported: has an anchor (&), which is not supported → remove it",
			"3 list[0]: repeated: is an alias (*), which is not supported → write the value itself",
			"3 list[1]: not_supported: has an anchor (&), which is not supported → remove it",
			"4 count: repeated: is an alias (*), which is not supported → write the value itself"}},
		{"the root has an anchor", "&a\nname: 1\n", file, []string{
			"1: not_supported: has an anchor (&), which is not supported → remove it"}},
		{"merge key", "below: {name: 1, <<: {count: 1}}\n", file, []string{
			"1 below: repeated: has a merge key (<<), which is not supported → write the entries themselves"}},
		{"keys that are no words", "[a]: 1\n? {b: 1}\n: 2\n!!str name: 3\n", file, []string{
			"1: not_supported: has a key that is not a plain word → write one word before the colon",
			"2: not_supported: has a key that is not a plain word → write one word before the colon",
			"4: not_supported: has a key that is not a plain word → write one word before the colon"}},
		{"tag", "count: !!int 3\nlist: !mine []\n", file, []string{
			"1 count: not_supported: has a tag (!), which is not supported → write the plain value",
			"2 list: not_supported: has a tag (!), which is not supported → write the plain value"}},
		{"deep YAML", strings.Repeat("below: {", 18) + strings.Repeat("}", 18), file, []string{
			"1 " + strings.Repeat("below.", 16) + "below: not_supported: is nested too deeply → nothing is read that far down: check how far it is indented"}},
		{"deep JSON", strings.Repeat(`{"below":`, 5000) + "1" + strings.Repeat("}", 5000), file, []string{
			"1 " + strings.Repeat("below.", 16) + "below: not_supported: is nested too deeply → nothing is read that far down: check how far it is indented"}},
		{"second document", "name: 1\n---\nname: 2\n", file, []string{
			"2: not_readable: a second document begins here → remove the line --- and put everything into one document"}},
		{"broken after the document", "name: 1\n---\n[", file, []string{
			"3: not_readable: the file is not YAML: did not find expected node content → " + notYAML}},
		{"not YAML", "name: [\n", file, []string{"1: not_readable: the file is not YAML: did not find expected node content → " + notYAML}},
		{"not YAML in the first line", "name: count: 1\n", file, []string{"1: not_readable: the file is not YAML: a value has a colon and a blank in it, or the line is indented too far → write such a value between quotes, as in title: 'one: two'"}},
		{"not JSON", "{\n\"name\": 1,\n}", body, []string{
			"3: not_readable: the body is not JSON: invalid character '}' looking for beginning of object key string → look for a missing comma, quote or bracket here or just before"}},
		{"YAML for JSON", "name: 1", body, []string{
			"1: not_readable: the body is not JSON: invalid character 'a' in literal null (expecting 'u') → look for a missing comma, quote or bracket here or just before"}},
		{"not UTF-8", "name: 1\ncount: \xff", file, []string{"2: not_readable: the file has bytes that are not UTF-8, or control characters → write plain text"}},
		{"control character", "name: \x00", file, []string{"1: not_readable: the file has bytes that are not UTF-8, or control characters → write plain text"}},
		{"too large", strings.Repeat("\x00", 1<<20+1), file, []string{"0: too_large: the file is larger than 1 MiB, and is not read → split it, or leave out what is not needed"}},
		{"too large for a small format", strings.Repeat(" ", 3<<10), Format{Noun: "the note", Bytes: 2 << 10}, []string{
			"0: too_large: the note is larger than 2 KiB, and is not read → split it, or leave out what is not needed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, got := read(c.text, c.format, 100)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// A text that expands into much memory is refused before it does.
func TestManyNodesAreNotRead(t *testing.T) {
	for _, piece := range []string{"1,", "[],", "{},", "?,", ",", "? \n", "?\n", "a:\n", "- ", "-\n", "-\t"} {
		text := strings.Repeat(piece, file.Bytes/len(piece)-1)
		if _, p := Parse([]byte(text), file); p == nil || p.Code != TooLarge {
			t.Errorf("%q: %+v", piece, p)
		}
	}
	if _, p := Parse([]byte(strings.Repeat("- name: a-well-known-name\n", 20_000)), file); p != nil {
		t.Errorf("a long list: %+v", p)
	}
}

func TestReportEndsTheWalk(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("zebra: 1\n", 1000), strings.Repeat("name: 1\n", 1000), strings.Repeat("[a]: 1\n", 1000),
		"list: [" + strings.Repeat("&a 1, ", 1000) + "]", "list: [&a 1, " + strings.Repeat("*a, ", 1000) + "]",
	} {
		if _, problems := read(text, file, 3); len(problems) != 3 {
			t.Errorf("%.20q…: %d problems were reported, want 3", text, len(problems))
		}
	}
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]float64{"7": 7, "-1.5": -1.5, "1e3": 1000, "0x10": 16, "1_000": 1000, "0o17": 15} {
		root, problem := Parse([]byte("count: "+text), file)
		if problem != nil {
			t.Fatal(problem)
		}
		if got, ok := root.Entry("count").Number(); !ok || got != want {
			t.Errorf("%s is read as %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{`"7"`, ".nan", ".inf", "true", "~", "[1]", "soon", "2001-01-01"} {
		root, problem := Parse([]byte("count: "+text), file)
		if problem != nil {
			t.Fatal(problem)
		}
		if got, ok := root.Entry("count").Number(); ok {
			t.Errorf("%s is read as the number %v", text, got)
		}
	}
}

// FuzzRead checks that no text makes the reader panic, that every problem has
// words, and that every value has a line of the text.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"", "name: 1", "{\"name\": [1, {\"count\": null}]}", "a: &a [*a]\n? {b}\n: *a", "<<: {name: 1}", "name: !!binary x", "%YAML 1.1\n---\nname: {}\n...\n",
		"name: |\n  x\n  y\ncount: >-\n  z\n", "\xff\xfeg\x00", "name: 2001-01-01\nname: 0o17", strings.Repeat("[", 1000), "- &a {<<: *a}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		lines := 1 // YAML has other line breaks, too
		for _, br := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
			lines += strings.Count(string(text), br)
		}
		root, problem := Parse(text, file)
		if problem != nil {
			if problem.Reason == "" || problem.Remedy == "" {
				t.Fatalf("a problem without words: %+v", problem)
			}
			return
		}
		report := func(p Problem) bool {
			if p.Reason == "" || p.Node == nil || p.Line < 1 {
				t.Fatalf("a problem without words or place: %+v", p)
			}
			return true
		}
		var visit func(n *Node)
		visit = func(n *Node) {
			if n.Line < 1 || n.Line > lines+1 {
				t.Fatalf("%s is in line %d of %d", n.Name(), n.Line, lines)
			}
			n.Number()
			for e := range n.Entries(Keys{}, report) {
				if n.Entry(e.Key) != e {
					t.Fatalf("%s is visited, and is not the first of its name", e.Name())
				}
				visit(e)
			}
			for item := range n.All("", report) {
				visit(item)
			}
		}
		visit(root)
	})
}
