package pipeline

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
)

func TestWish(t *testing.T) {
	h200 := Device{
		UUID: "GPU-5f12ab", Index: 3, Name: "NVIDIA H200", Vendor: gpu.NVIDIA,
		ComputeCapability: "9.0", MemoryTotal: 143771,
	}
	unknown := Device{UUID: "x", Index: 3, Name: "?", Vendor: gpu.AMD, MemoryTotal: 1}
	for _, c := range []struct {
		wish          string
		h200, unknown bool
	}{
		{"3", true, true},
		{" 3 ", true, true},
		{"2", false, false},
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
		{"memory>=100GiB", true, false},
		{"memory>=200GiB", false, false},
		{"name~H200, memory>=100GiB,cc>=9.0", true, false},
		{"name~H200,memory>=200GiB", false, false},
	} {
		w, err := parseWish(c.wish)
		if err != nil {
			t.Errorf("%q: %v", c.wish, err)
			continue
		}
		if got := w.meets(&h200); got != c.h200 {
			t.Errorf("%q meets an H200: %v", c.wish, got)
		}
		if got := w.meets(&unknown); got != c.unknown {
			t.Errorf("%q meets a device of which little is known: %v", c.wish, got)
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
		if !matches([]rune(pattern.String()), []rune(name)) {
			rt.Errorf("%q does not match %q", pattern.String(), name)
		}
		if matches([]rune(pattern.String()+"z"), []rune(name)) {
			rt.Errorf("%qz matches %q", pattern.String(), name)
		}
	})
}

func TestSamePhysicalGPU(t *testing.T) {
	d := Device{UUID: "GPU-5F12ab", PCI: "00000000:1B:00.0"}
	for _, c := range []struct {
		seen Visible
		want bool
	}{
		{Visible{UUID: "GPU-5f12ab"}, true},
		{Visible{UUID: "5f12ab"}, true},
		{Visible{UUID: "5f12ac", PCI: "0000:1b:00.0"}, false}, // the UUID counts
		{Visible{PCI: "0000:1b:00.0"}, true},
		{Visible{PCI: "1B:00.0"}, true},
		{Visible{PCI: "0001:1B:00.0"}, false},
		{Visible{PCI: "0000:1C:00.0"}, false},
		{Visible{PCI: "bus 1B"}, false},
		{Visible{PCI: "a:b:c:d:e"}, false},
		{Visible{Name: "NVIDIA H200"}, false}, // a name says nothing
		{Visible{}, false},
	} {
		if got := c.seen.same(&d); got != c.want {
			t.Errorf("%+v is %+v: %v", c.seen, d, got)
		}
	}
}
