package view

import (
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
)

// What an optimization says at its end does not contradict itself: memory that can be
// leased because leases were made smaller is the result, and not nothing.
func TestFreed(t *testing.T) {
	step := []api.RungStep{{Text: "x"}}
	for name, c := range map[string]struct {
		rungs []api.Rung
		want  string
	}{
		"nothing there": {nil, "There was nothing to do."},
		"left alone":    {[]api.Rung{{Name: "shrink", Left: step}}, "Nothing was freed."},
		"shrunk":        {[]api.Rung{{Name: "shrink", Done: step, Freed: 17203}}, "16.8 GiB more can be leased, because leases were made smaller (2 s). Programs use as much memory as before."},
		"trimmed":       {[]api.Rung{{Name: "trim", Done: step, Freed: 1024}}, "1 GiB freed in 2 s: trim 1 GiB."},
		"both":          {[]api.Rung{{Name: "trim", Done: step, Freed: 1024}, {Name: "shrink", Done: step, Freed: 1024}}, "1 GiB freed in 2 s: trim 1 GiB. 1 GiB more can be leased, because leases were made smaller."},
		"in vain":       {[]api.Rung{{Name: "dead", Done: step}}, "Nothing was freed: 1 step, 2 s."},
	} {
		got := Freed(api.Optimization{Took: 2, Rungs: c.rungs})
		if got != c.want {
			t.Errorf("%s: %s", name, got)
		}
		if strings.Contains(got, "Nothing was freed") && strings.Contains(got, "more can be leased") {
			t.Errorf("%s: it contradicts itself: %s", name, got)
		}
	}
}
