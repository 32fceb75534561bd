package gpu

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// ordinary is an event as the ledger publishes it for every grant.
func ordinary() Event {
	return Event{
		ID: 1763190000000042, Time: time.Date(2026, 11, 15, 7, 0, 1, 0, time.UTC), Code: EventGranted, Severity: Note,
		GPU: "GPU-8d1f0a3c-5b0e-4f0e-9a44-1f6d2f0b7c11", Lease: "train-7", User: "ada", By: By{User: "ada", UID: Some(1000), Door: "socket"},
		Text: "train-7 holds 8192 MiB and 1 slot on GPU-8d1f0a3c-5b0e-4f0e-9a44-1f6d2f0b7c11 for trainer, python3, ada",
		Data: map[string]any{"fence": uint64(17), "memory_mb": int64(8192), "slots": 1},
	}
}

func TestTrimmedLeavesOrdinaryEventsAlone(t *testing.T) {
	longest := strings.Repeat("<", 128) // the id that takes most room
	for name, e := range map[string]Event{
		"empty": {},
		"lease": ordinary(),
		"longest ids": {
			GPU: longest, Lease: longest, User: strings.Repeat("𝔘", 128), Text: longest, Data: map[string]any{"leases": []string{"a", "b"}},
		},
		"every type": {Public: "Über 90 °C …", Data: map[string]any{
			"nil": nil, "bool": true, "int": -1, "float": 1e300, "time": time.Unix(1, 2).UTC(), "memory": MiB(3), "state": Optimal,
			"list": []any{1, "b", []string{"c"}}, "map": map[string]any{"x": map[string]any{"y": 1.5}}, "duration": time.Second,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(e, e.Trimmed()); diff != "" {
				t.Errorf("trimmed (-before +after):\n%s", diff)
			}
		})
	}
	e := ordinary()
	if n := testing.AllocsPerRun(100, func() { e = e.Trimmed() }); n != 0 {
		t.Errorf("trimming an ordinary event allocates %v times", n)
	}
}

// A name of 4 MB in a sentence once went into the ring, the log and every hook.
func TestTrimmedCutsWhatIsLong(t *testing.T) {
	long := strings.Repeat("plan ", 1<<20)
	got := Event{
		Code: EventPlan, Severity: Note, Text: "Planned " + long, Public: long, User: long, GPU: long, Lease: long,
		Data: map[string]any{"a": long, "b": strings.Split(long, " "), "c": 7, long: 1},
	}.Trimmed()
	if !strings.HasPrefix(got.Text, "Planned plan plan") || !strings.HasSuffix(got.Text, "…") || len(got.Public) > maxText {
		t.Errorf("text %q", got.Text)
	}
	if got.Data["c"] != 7 || got.Data[cutMark] != true || len(got.Data["a"].(string)) > maxValue {
		t.Errorf("data %v", got.Data)
	}
	agent := strings.Repeat("<", maxWord) // six bytes each as JSON
	if got := (Event{By: By{Agent: agent}}).Trimmed().By.Agent; len(got) >= maxWord {
		t.Errorf("agent %q", got)
	}
}

func TestTrimmedShowsNothingHidden(t *testing.T) {
	got := Event{
		Text: "a\nb\x1b[2Jc\u202ed\xffe\u2066f\x7fg\u009bh\u2028i", Lease: "x\ry",
		Data: map[string]any{"k\n": "v\x00w"},
	}.Trimmed()
	want := Event{
		Text: "a b\ufffd[2Jc\ufffdd\ufffde\ufffdf\ufffdg\ufffdh i", Lease: "x y",
		Data: map[string]any{"k ": "v\ufffdw"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("trimmed (-want +got):\n%s", diff)
	}
}

// What encoding/json refuses would end the stream of every reader.
func TestTrimmedCanBeEncoded(t *testing.T) {
	loop := map[string]any{}
	loop["loop"] = loop
	for name, v := range map[string]any{
		"not a number": math.NaN(), "infinite": float32(math.Inf(1)), "channel": make(chan int), "function": func() {}, "complex": 1i,
		"number": json.Number("many"), "late": time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC), "far": time.Unix(0, 0).In(time.FixedZone("", 90000)),
		"pointer": &Event{}, "struct": ordinary(), "option": Some(3), "loop": loop, "typed list": []MiB{1, 2}, "typed map": map[EventCode]int{EventGap: 1},
		"raw": json.RawMessage("{"), "bytes": []byte("abc"), "nil list": []string(nil), "nil pointer": (*Event)(nil),
	} {
		t.Run(name, func(t *testing.T) {
			got := Event{Time: time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC), Data: map[string]any{"v": v}}.Trimmed()
			text, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), `"v":`) {
				t.Errorf("the value is gone: %s", text)
			}
		})
	}
}

// nasty draws text of any length, much of it such as takes six bytes as JSON.
func nasty(label string) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		piece := rapid.OneOf(rapid.String(), rapid.Just("<"), rapid.Just("\u2028"), rapid.Just("\xff"), rapid.Just(`"`),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, label)
		return strings.Repeat(piece, rapid.SampledFrom([]int{1, 1, 3, 100, 3000}).Draw(t, label+" times"))
	})
}

func anything(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		nasty("string").AsAny(), rapid.Int().AsAny(), rapid.Uint64().AsAny(), rapid.Float64().AsAny(), rapid.Float32().AsAny(), rapid.Bool().AsAny(),
		rapid.SliceOf(nasty("element")).AsAny(), rapid.Just[any](nil), rapid.Just[any](math.NaN()), rapid.Just[any](MiB(5)),
		rapid.Map(rapid.Int64(), func(n int64) any { return time.Unix(n, 0) }), rapid.Just[any](Some(nastyStruct{})), rapid.Just[any](nastyStruct{strings.Repeat("<", 9999)}),
	}
	if depth > 0 {
		kinds = append(kinds,
			rapid.SliceOf(rapid.Deferred(func() *rapid.Generator[any] { return anything(depth - 1) })).AsAny(),
			rapid.MapOf(nasty("key"), rapid.Deferred(func() *rapid.Generator[any] { return anything(depth - 1) })).AsAny())
	}
	return rapid.OneOf(kinds...)
}

type nastyStruct struct{ Text string }

func TestTrimmedIsSmallWhateverGoesIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Event{
			ID: rapid.Uint64().Draw(t, "id"), Time: time.Unix(rapid.Int64().Draw(t, "time"), 0),
			Code: EventCode(nasty("code").Draw(t, "code")), Severity: Severity(nasty("severity").Draw(t, "severity")),
			GPU: nasty("gpu").Draw(t, "gpu"), Lease: nasty("lease").Draw(t, "lease"), User: nasty("user").Draw(t, "user"),
			Text: nasty("text").Draw(t, "text"), Public: nasty("public").Draw(t, "public"),
			By:   By{User: nasty("by").Draw(t, "by"), Token: nasty("token").Draw(t, "token"), Door: nasty("door").Draw(t, "door"), Agent: nasty("agent").Draw(t, "agent")},
			Data: rapid.MapOf(nasty("key"), anything(4)).Draw(t, "data"),
		}
		if rapid.Bool().Draw(t, "uid is known") {
			e.By.UID = Some(rapid.Int().Draw(t, "uid"))
		}
		trimmed := e.Trimmed()
		text, err := json.Marshal(trimmed)
		if err != nil {
			t.Fatalf("it cannot be encoded: %v", err)
		}
		if len(text) > MaxEventJSON {
			t.Fatalf("%d bytes of JSON", len(text))
		}
		for _, s := range []string{trimmed.Text, trimmed.Public, trimmed.GPU, trimmed.Lease, trimmed.User, trimmed.By.User, trimmed.By.Token, trimmed.By.Door, trimmed.By.Agent, string(text)} {
			if !utf8.ValidString(s) || strings.ContainsAny(s, "\n\r\x1b\u202e\u2066\x00") {
				t.Fatalf("it is not safe to show: %q", s)
			}
		}
		again, _ := json.Marshal(trimmed.Trimmed())
		if string(again) != string(text) || !trimmed.fits() {
			t.Fatalf("trimmed twice it is another:\n%s\n%s", text, again)
		}
	})
}

func TestPrintable(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"python3", 15, "python3"},
		{"a\tb", 15, "a b"},
		{"abcdef", 6, "abcdef"},
		{"abcdefg", 6, "abc…"},
		{"äöü", 5, "ä…"},
		{"<<<", 12, "<…"},
		{"abc", 2, ""},
		{"", Whole, ""},
		{"out.jsonl", Whole, "out.jsonl"},
		{"größe 大 ✓", Whole, "größe 大 ✓"},
		{"a\nb\tc\x1b[31m", Whole, "a b c\uFFFD[31m"},
		{"a\r\v\f\u0085\u2028\u2029b", Whole, "a      b"},
		{"\xff\xfe.", Whole, "\uFFFD\uFFFD."},
		{"\u202e\u200b\u00a0\u3000", Whole, "\uFFFD\uFFFD  "},
		{"\ue000\ufeff\U0010ffff", Whole, "\uFFFD\uFFFD\uFFFD"}, // private use, byte order mark, unassigned
		{"क्\u200dष", Whole, "क्\u200dष"},
		{strings.Repeat("x", special+1), Whole, strings.Repeat("x", special+1)},
	} {
		if got := Printable(c.text, c.most); got != c.want {
			t.Errorf("Printable(%.40q, %d) = %.40q, want %.40q", c.text, c.most, got, c.want)
		}
	}
}

func BenchmarkTrimmed(b *testing.B) {
	e := ordinary()
	b.ReportAllocs()
	for b.Loop() {
		e = e.Trimmed()
	}
}
