package quickjson

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
)

type inner struct {
	GPU    string `json:"gpu"`
	Memory int64  `json:"memory_mb,omitempty"`
}

type sample struct {
	ID      string           `json:"id" minLength:"1" maxLength:"8"`
	State   string           `json:"state,omitempty" enum:"active,parked"`
	Ref     gpu.Ref          `json:"ref,omitempty"`
	GPUs    int              `json:"gpus,omitempty" minimum:"1" maximum:"4"`
	Share   float64          `json:"share,omitempty" minimum:"0" maximum:"1"`
	Fence   uint64           `json:"fence,omitempty"`
	Shared  bool             `json:"shared,omitempty"`
	TTL     gpu.Opt[float64] `json:"ttl,omitzero"`
	Memory  gpu.Opt[gpu.MiB] `json:"memory,omitzero"`
	Begun   time.Time        `json:"begun,omitzero"`
	Ends    *time.Time       `json:"ends,omitempty"`
	Scope   []string         `json:"scope,omitempty"`
	Kept    []gpu.State      `json:"kept,omitzero"` // empty is not nil
	First   inner            `json:"first,omitzero"`
	Last    *inner           `json:"last,omitempty"`
	Parts   []inner          `json:"parts,omitempty"`
	Foreign *other1          `json:"foreign,omitempty"`
	Names   map[string]int   `json:"names,omitempty"`
	Hidden  string           `json:"-"`
	More
}

// More is embedded.
type More struct {
	Next  string       `json:"next,omitempty"`
	Count gpu.Opt[int] `json:"count,omitzero"`
}

// other1 is left to encoding/json.
type other1 struct {
	Text string `json:"text"`
}

func codec() *Codec[sample] {
	return &Codec[sample]{Inline: []any{inner{}}, After: map[string]string{"names": "id"}}
}

func anySample() *rapid.Generator[sample] {
	word := rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[a-z<>&]{1,6}`), rapid.SampledFrom([]string{`"`, `\`, "ü", "\n", "\u2028", "\xff"}))
	at := rapid.Custom(func(t *rapid.T) time.Time { return time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "s"), 5).UTC() })
	within := rapid.Custom(func(t *rapid.T) inner {
		return inner{word.Draw(t, "gpu"), rapid.Int64().Draw(t, "memory")}
	})
	return rapid.Custom(func(t *rapid.T) sample {
		v := sample{
			ID: word.Draw(t, "id"), State: word.Draw(t, "state"), Ref: gpu.Ref(word.Draw(t, "ref")), GPUs: rapid.IntRange(-1, 5).Draw(t, "gpus"),
			Share: rapid.Float64Range(-2, 2).Draw(t, "share"), Fence: rapid.Uint64().Draw(t, "fence"), Shared: rapid.Bool().Draw(t, "shared"),
			First: within.Draw(t, "first"), Scope: rapid.SliceOfN(word, 0, 2).Draw(t, "scope"), Parts: rapid.SliceOfN(within, 0, 3).Draw(t, "parts"),
		}
		if rapid.Bool().Draw(t, "all") {
			ends, last := at.Draw(t, "ends"), within.Draw(t, "last")
			v.TTL, v.Memory, v.Begun, v.Ends, v.Last = gpu.Some(rapid.Float64().Draw(t, "ttl")), gpu.Some(gpu.MiB(rapid.Int64().Draw(t, "mib"))), at.Draw(t, "begun"), &ends, &last
		}
		if rapid.Bool().Draw(t, "kept") {
			v.Kept = []gpu.State{}
		}
		if rapid.Bool().Draw(t, "others") {
			v.Foreign, v.Names = &other1{word.Draw(t, "text")}, map[string]int{"a": 1}
		}
		if rapid.Bool().Draw(t, "more") {
			v.Next, v.Count = word.Draw(t, "next"), gpu.Some(rapid.Int().Draw(t, "count"))
		}
		return v
	})
}

func TestAppendAndReadAreAsEncodingJSON(t *testing.T) {
	for name, loose := range map[string]bool{"strict": false, "loose": true} {
		t.Run(name, func(t *testing.T) { testAgainstEncodingJSON(t, loose) })
	}
}

func testAgainstEncodingJSON(t *testing.T, loose bool) {
	c := codec()
	c.Loose = loose
	rapid.Check(t, func(t *rapid.T) {
		v := anySample().Draw(t, "v")
		theirs, err := json.Marshal(&v)
		if err != nil {
			t.Fatal(err)
		}
		ours := c.Append([]byte("before"), &v)[len("before"):]
		var want, got sample
		if json.Unmarshal(theirs, &want) != nil || json.Unmarshal(ours, &got) != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("Append wrote %s\nencoding/json %s", ours, theirs)
		}
		for _, text := range [][]byte{ours, theirs} {
			var got sample
			if c.Read(text, &got) && !reflect.DeepEqual(got, want) {
				t.Fatalf("%s was read as\n%+v, and by encoding/json as\n%+v", text, got, want)
			}
		}
	})
}

func TestAppend(t *testing.T) {
	c := codec()
	for want, v := range map[string]sample{
		`{"id":""}`: {},
		`{"id":"a","names":{"b":2},"gpus":3,"share":0.5}`:           {ID: "a", Names: map[string]int{"b": 2}, GPUs: 3, Share: 0.5},
		`{"id":"a","ttl":60,"first":{"gpu":"g"},"last":{"gpu":""}}`: {ID: "a", TTL: gpu.Some(60.0), First: inner{GPU: "g"}, Last: new(inner)},
		`{"id":"a","next":"b","count":0}`:                           {ID: "a", More: More{Next: "b", Count: gpu.Some(0)}},
		`{"id":"a","ttl":1000000}`:                                  {ID: "a", TTL: gpu.Some(1e6), Share: math.Copysign(0, -1)},
	} {
		if got := c.Append(nil, &v); string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := new(Codec[struct {
		A int `json:"a,omitempty"`
	}]).Append(nil, new(struct {
		A int `json:"a,omitempty"`
	})); string(got) != "{}" {
		t.Errorf("got %s, want {}", got)
	}
}

// A loose codec takes texts beyond ASCII, lists of them, every value, and what encoding/json
// reads. It reads all of it as encoding/json does.
func TestReadLoosely(t *testing.T) {
	c := codec()
	c.Loose = true
	for _, text := range []string{
		`{"id":""}`, `{"id":"39 °C"}`, `{"id":"a","gpus":0,"state":"lost"}`, `{"id":"a","scope":["x","ü"]}`, `{"id":"a","kept":[]}`,
		`{"id":"a","names":{"b}\\\"":2}}`, `{"id":"a","foreign":{"text":"\n"},"gpus":1}`, `{"id":"a","ttl":48617050.06}`,
	} {
		var got, want sample
		if !c.Read([]byte(text), &got) {
			t.Errorf("%s is not taken", text)
		}
		if err := json.Unmarshal([]byte(text), &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, want %+v (%v)", text, got, want, err)
		}
	}
	for _, text := range []string{`{"id":"\xff"}`, `{"id":"a\n"}`, `{"id":"a","scope":["x"}`, `{"id":"a","scope":[1]}`, `{"id":"a","names":{"b":2}`, `{"id":"a","names":7}`, `{"id":"a","names":{"b":"\`} {
		var got sample
		if c.Read([]byte(text), &got) || !reflect.DeepEqual(got, sample{}) {
			t.Errorf("%q is taken, or leaves %+v", text, got)
		}
	}
}

// Read takes what the tags allow, in any order, and nothing else.
func TestRead(t *testing.T) {
	c := codec()
	for _, text := range []string{
		`{"id":"a"}`, `{"gpus":4,"id":"12345678"}`, `{"id":"a","parts":[]}`, `{"id":"a","parts":[{"gpu":"x"},{"gpu":"y","memory_mb":3}]}`,
		`{"id":"a","state":"parked","share":1,"first":{"gpu":"x"},"last":{"gpu":"y"}}`, `{"id":"a","ref":"` + strings.Repeat("x", 128) + `"}`,
		`{"id":"a","count":-2,"next":"b"}`, `{"id":"a","fence":9223372036854775807}`, `{"id":"a","memory":-9223372036854775807}`, `{"id":"a","fence":1234567890123456789}`,
		`{"id":"a","ttl":-1.5,"memory":-3,"begun":"2030-01-02T03:04:05Z","ends":"2030-01-02T03:04:05Z"}`,
	} {
		var got, want sample
		if !c.Read([]byte(text), &got) {
			t.Errorf("%s is not taken", text)
		}
		if err := json.Unmarshal([]byte(text), &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, want %+v (%v)", text, got, want, err)
		}
	}
	for _, text := range []string{
		``, `{}`, `{"id":""}`, `{"id":"123456789"}`, `{"id":"a"} `, `{"id":"a","id":"b"}`, `{"id":"a","gpus":0}`, `{"id":"a","gpus":5}`, `{"id":"a","gpus":1.0}`,
		`{"id":"a","share":1.5}`, `{"id":"a","share":-1}`, `{"id":"a","share":1.}`, `{"id":"a","share":01}`, `{"id":"a","state":"lost"}`, `{"id":"a","scope":["x"]}`,
		`{"id":"a","fence":-1}`, `{"id":"a","fence":9223372036854775808}`, `{"id":"a","fence":18446744073709551615}`, `{"id":"a","fence":99999999999999999999}`, `{"id":"a","memory":-9223372036854775808}`, `{"id":"a","names":{}}`, `{"id":"a","foreign":{"text":""}}`, `{"id":"a","parts":[{}]}`,
		`{"id":"ü"}`, `{"id":null}`, `{"id":"a","ref":"` + strings.Repeat("x", 129) + `"}`, `{"id":"a","unknown":1}`, `{"id":"a","shared":tru}`,
	} {
		if c.Read([]byte(text), new(sample)) {
			t.Errorf("%s is taken", text)
		}
	}
}
