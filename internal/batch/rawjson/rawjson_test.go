package rawjson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func collect(array string) []string {
	var out []string
	for e := range Elements([]byte(array)) {
		out = append(out, string(e))
	}
	return out
}

func TestElements(t *testing.T) {
	for _, test := range []struct {
		array string
		want  []string
	}{
		{`[]`, nil},
		{` 1`, nil},
		{``, nil},
		{`{"a":1}`, nil},
		{`[ ]`, nil},
		{`[1,2.5e3, -0 ]`, []string{"1", "2.5e3", "-0"}},
		{`[null,true , false]`, []string{"null", "true", "false"}},
		{`["a,]", "\"", "\\", "\\\""]`, []string{`"a,]"`, `"\""`, `"\\"`, `"\\\""`}},
		{`[[1,[2]],{"a":"]}"} ,{}]`, []string{`[1,[2]]`, `{"a":"]}"}`, `{}`}},
	} {
		if diff := cmp.Diff(test.want, collect(test.array)); diff != "" {
			t.Errorf("Elements(%s) (-want +got):\n%s", test.array, diff)
		}
	}
}

func TestField(t *testing.T) {
	object := []byte(`{ "a" : 1, "b\"":"x", "c":{"a":2}, "n\u0061me":"y" , "a":3}`)
	for key, want := range map[string]string{"a": "3", `b"`: `"x"`, "c": `{"a":2}`, "name": `"y"`, "none": ""} {
		if got := string(Field(object, key)); got != want {
			t.Errorf("Field(%q) = %s, want %s", key, got, want)
		}
	}
	if got := Field([]byte(`[1]`), "a"); got != nil {
		t.Errorf("an array has a field: %s", got)
	}
}

func TestElementsStopsWhenAsked(t *testing.T) {
	for e := range Elements([]byte(`[1,2]`)) {
		if string(e) != "1" {
			t.Errorf("went on to %s", e)
		}
		break
	}
	for k := range Fields([]byte(`{"a":1,"b":2}`)) {
		if string(k) != `"a"` {
			t.Errorf("went on to %s", k)
		}
		break
	}
}

func TestQuote(t *testing.T) {
	for _, s := range []string{"", "a", `"\`, "<&>", "line\nbreak", "ü\u2028", "\xff"} {
		q := Quote(s)
		var back string
		if err := json.Unmarshal(q, &back); err != nil || bytes.ContainsRune(q, '\n') {
			t.Errorf("Quote(%q) = %s: %v", s, q, err)
		}
		if back != Text(q) {
			t.Errorf("Text(%s) = %q, want %q", q, Text(q), back)
		}
		if a := AppendQuote([]byte("x"), []byte(s)); string(a) != "x"+string(q) {
			t.Errorf("AppendQuote(%q) = %s, want x%s", s, a, q)
		}
	}
	if got := string(Quote("<b>")); got != `"<b>"` {
		t.Errorf("Quote escapes for HTML: %s", got)
	}
}

// FuzzTakeApart compares with the standard library.
func FuzzTakeApart(f *testing.F) {
	for _, seed := range []string{`[]`, `{}`, `[1,"a\\\"",{"b":[null]}]`, `{"a" : [ ] , "\u0061":{}}`, `"x"`, `[[[]]]`, ` [1]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = bytes.TrimSpace(data)
		if Valid(data) != json.Valid(data) {
			t.Fatalf("Valid(%q) = %t", data, Valid(data))
		}
		if !Valid(data) {
			return
		}
		var elements []json.RawMessage
		if json.Unmarshal(data, &elements) == nil && elements != nil {
			var got []json.RawMessage
			for e := range Elements(data) {
				got = append(got, e)
			}
			if len(got) != len(elements) || len(got) > 0 && !reflect.DeepEqual(got, elements) {
				t.Errorf("Elements(%s) = %s, want %s", data, got, elements)
			}
		}
		var fields map[string]json.RawMessage
		if json.Unmarshal(data, &fields) == nil && fields != nil {
			got := map[string]json.RawMessage{}
			for k, v := range Fields(data) {
				got[Text(k)] = v
			}
			if !reflect.DeepEqual(got, fields) {
				t.Errorf("Fields(%s) = %s, want %s", data, got, fields)
			}
		}
	})
}

func TestValid(t *testing.T) {
	for _, text := range []string{
		"", " ", "1", "-", "-1", "01", "1.", ".5", "1.5", "1e", "1e5", "1E+5", "-0.0e-0", "+1", "0x1", "1 2", "NaN", "Infinity",
		"true", "tru", "truex", "false", "null", "nul", `"`, `"a"`, `"\"`, `"\\"`, `"\u12"`, `"\u12aF"`, `"\u12ag"`, `"\x"`, "\"\n\"", "\"\x7f\xff\"",
		"[", "]", "[]", "[ ]", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1,2 ]", "{", "}", "{}", "{ }", `{"a"}`, `{"a":}`, `{"a":1`, `{"a":1,}`, `{"a":1,"b":[{}]}`, `{a:1}`, `{"a" : 1 }`, "{1:2}",
		" 1 ", "\t[\r\n]\t", "1\x00", "[}", "{]", `{"a":1]`,
		strings.Repeat("[", 10000) + strings.Repeat("]", 10000), strings.Repeat("[", 10001) + strings.Repeat("]", 10001),
	} {
		if got, want := Valid([]byte(text)), json.Valid([]byte(text)); got != want {
			t.Errorf("Valid(%.40q) = %t, want %t", text, got, want)
		}
	}
}

func BenchmarkValid(b *testing.B) {
	for name, line := range map[string]string{"short": `{"id":12345,"text":"some words","score":0.25,"ok":true}`, "long": `{"id":1,"text":"` + strings.Repeat("x", 1000) + `"}`} {
		for who, valid := range map[string]func([]byte) bool{"ours": Valid, "json": json.Valid} {
			b.Run(name+"/"+who, func(b *testing.B) {
				b.SetBytes(int64(len(line)))
				data := []byte(line)
				for b.Loop() {
					valid(data)
				}
			})
		}
	}
}
