package gpu

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseWhere(t *testing.T) {
	good := map[string]Where{
		"":                                  {},
		"  ":                                {},
		"vendor=NVIDIA":                     {Vendor: NVIDIA},
		"name~H200":                         {Name: "H200", Like: true},
		"name = NVIDIA H200 , cc >= 9":      {Name: "NVIDIA H200", CC: Capability{9, 0}},
		"memory>=40GiB":                     {MinMemory: 40 << 10},
		"gpu=GPU-5f,cc>=12.10":              {GPU: "GPU-5f", CC: Capability{12, 10}},
		"name~H*,vendor=amd,memory>=1024":   {Name: "H*", Like: true, Vendor: AMD, MinMemory: 1024},
		"confidential=ON":                   {Confidential: Confidential},
		"name~a=b":                          {Name: "a=b", Like: true},
		"vendor=nvidia,cc>=8.0,memory>=40g": {Vendor: NVIDIA, CC: Capability{8, 0}, MinMemory: 40 << 10},
	}
	for text, want := range good {
		got, err := ParseWhere(text)
		if err != nil || got != want {
			t.Errorf("ParseWhere(%q) = %+v, %v", text, got, err)
		}
		if again, err := ParseWhere(got.String()); err != nil || again != got {
			t.Errorf("%q was written as %q and read as %+v, %v", text, got, again, err)
		}
	}
	bad := map[string]string{
		"H200":               `constraint "H200": "H200" cannot be asked for: use vendor=, name=, name~, cc>=, memory>=, confidential= or gpu=`,
		"cores>=3":           `"cores" cannot be asked for`,
		"cc=8.0":             "write cc>=…",
		"confidential=maybe": `"maybe" is not a mode: write confidential=on, off or devtools`,
		"name>=x":            "write name=… or name~…",
		"vendor~nv":          "write vendor=…",
		"memory":             "write memory>=…",
		"memory>=":           "nothing after memory>=",
		"memory>=lots":       `"lots" is not an amount of memory`,
		"memory>=-4":         "amount of memory",
		"cc>=eight":          `"eight" is not a compute capability: write it like 8.0`,
		"cc>=-1.0":           "is not a compute capability",
		"cc>=0":              "is not a compute capability",
		"cc>=x,memory>=y":    `constraint "cc>=x": "x" is not a compute capability: write it like 8.0; constraint "memory>=y": `,
		"gpu=-1":             "-1 is not the index of a device",
		"name~a,,cc>=8":      `"" cannot be asked for`,
		"name~a, name=b":     `constraint "name=b": name is given twice`,
		"name~\xff":          "not valid UTF-8",
		"vendor!=amd":        "write vendor=…",
		"memory>=40GiB;cc>8": "is not an amount of memory",
	}
	if _, err := ParseWhere(strings.Repeat(",", 1<<20)); err == nil || len(err.Error()) > 2000 {
		t.Error("a million wrong constraints are all named")
	}
	for text, want := range bad {
		if _, err := ParseWhere(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseWhere(%q): %v, want %q", text, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	cases := []struct {
		where string
		name  string
		want  bool
	}{
		{"name=nvidia h200", "NVIDIA H200", true},
		{"name=h200", "NVIDIA H200", false},
		{"name~h200", "NVIDIA H200", true},
		{"name~DIA h", "NVIDIA H200", true},
		{"name~h201", "NVIDIA H200", false},
		{"name~aab", "aaab", true},
		{"name~*h2?0", "NVIDIA H200", true},
		{"name~h2?0", "NVIDIA H200", false},
		{"name~NVIDIA*", "NVIDIA H200", true},
		{"name~*a*b*c", "xaxbxcxbc", true},
		{"name~*a*b*c", "xaxbxcxb", false},
		{"name~*", "", true},
		{"name~?", "é", true},
		{"name~É", "café", true},
		{"name~x", "", false},
	}
	for _, c := range cases {
		w, err := ParseWhere(c.where)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.named(c.name); got != c.want {
			t.Errorf("%s on %q: %v", c.where, c.name, got)
		}
	}
}

func TestCapabilities(t *testing.T) {
	order := []Capability{{7, 5}, {8, 0}, {8, 9}, {8, 10}, {9, 0}, {12, 1}}
	for i, c := range order {
		for j, d := range order {
			if c.Less(d) != (i < j) {
				t.Errorf("%s below %s: %v", c, d, c.Less(d))
			}
		}
	}
	for _, text := range []string{"", ".", "9.", ".9", "0", "9.0.1", "99999999", "9.0 "} {
		if c, err := ParseCapability(text); err == nil {
			t.Errorf("%q was read as %s", text, c)
		}
	}
}

func FuzzParseWhere(f *testing.F) {
	f.Add("name~H200,memory>=40GiB,cc>=8.0,vendor=nvidia")
	f.Add("gpu=GPU-1,name=~*?")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := ParseWhere(text)
		if err != nil {
			return
		}
		if again, err := ParseWhere(w.String()); err != nil || again != w {
			t.Errorf("%q was read as %+v, written as %q and read as %+v, %v", text, w, w, again, err)
		}
		w.Unmet(&Model{Name: text})
	})
}

func TestDevicesThatMeet(t *testing.T) {
	h200 := Device{
		UUID: "GPU-5f12ab", Index: 3, Name: "NVIDIA H200", Vendor: NVIDIA,
		ComputeCapability: "9.0", MemoryTotal: 143771, Confidential: NotConfidential,
	}
	unknown := Device{UUID: "x", Index: 3, Name: "?", Vendor: AMD, MemoryTotal: 1}
	for _, c := range []struct {
		where         string
		h200, unknown bool
	}{
		{"3", true, true},
		{" 3 ", true, true},
		{"2", false, false},
		{"gpu=3", true, true},
		{"", true, true},
		{"GPU-5f12ab", true, false},
		{"gpu-5F12AB", true, false},
		{"gpu=GPU-5f12ab", true, false},
		{"GPU-5f12", false, false},
		{"name~h200", true, false},
		{"name~*H2?0", true, false},
		{"name~NVIDIA*", true, false},
		{"name~H2?0", false, false},
		{"name=nvidia h200", true, false},
		{"name=H200", false, false},
		{"vendor=NVIDIA", true, false},
		{"cc>=9", true, false},
		{"cc>=8.9", true, false},
		{"cc>=9.1", false, false},
		{"confidential=off", true, false},
		{"confidential=on", false, false},
		{"memory>=100GiB", true, false},
		{"memory>=200GiB", false, false},
		{"name~H200, memory>=100GiB,cc>=9.0", true, false},
		{"name~H200,memory>=200GiB", false, false},
	} {
		w, err := ParseDevices(c.where)
		if err != nil {
			t.Errorf("%q: %v", c.where, err)
			continue
		}
		if got := w.Meets(&h200); got != c.h200 {
			t.Errorf("%q meets an H200: %v", c.where, got)
		}
		if got := w.Meets(&unknown); got != c.unknown {
			t.Errorf("%q meets a device of which little is known: %v", c.where, got)
		}
	}
}

// A pattern made from a name by blanking parts of it matches that name.
func TestPatternsMatchWhatTheyAreMadeFrom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.StringMatching(`[a-dé]{0,12}`).Draw(rt, "name")
		var pattern strings.Builder
		for _, c := range name {
			switch rapid.IntRange(0, 3).Draw(rt, "blank") {
			case 0:
				pattern.WriteByte('?')
			case 1:
				pattern.WriteByte('*')
			default:
				pattern.WriteRune(c)
			}
			if rapid.IntRange(0, 3).Draw(rt, "more") == 0 {
				pattern.WriteByte('*')
			}
		}
		if !like("*"+pattern.String(), name) {
			rt.Errorf("%q does not match %q", pattern.String(), name)
		}
		if like("*"+pattern.String()+"z", name) {
			rt.Errorf("%qz matches %q", pattern.String(), name)
		}
	})
}
