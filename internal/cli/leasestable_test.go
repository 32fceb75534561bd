package cli

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// Whatever holders call themselves, no line is too long, and nothing that a
// terminal would act on gets through.
func TestLeaseTableFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := &leaseList{Leases: fakeLeases(), gpus: indexes{"GPU-0": 0, "GPU-1": 1}}
		for i := range all.Leases.Leases {
			l := &all.Leases.Leases[i]
			l.ID, l.Holder.Service, l.Holder.User = names().Draw(t, "id"), names().Draw(t, "service"), names().Draw(t, "user")
		}
		width := rapid.IntRange(60, 200).Draw(t, "width")
		to := screen{width: width, now: testNow}
		for _, line := range all.held(to).lines(width, false) {
			if columns(line) > width {
				t.Fatalf("%d columns, want at most %d: %q", columns(line), width, line)
			}
			if strings.ContainsAny(line, "\x1b\n") || strings.HasSuffix(line, " ") {
				t.Fatalf("line %q", line)
			}
		}
	})
}

func TestMemoryBar(t *testing.T) {
	for _, c := range []struct {
		used, leased, foreign gpu.MiB
		want                  string
	}{
		{0, 0, 0, "░░░░"}, {25, 0, 25, "█░░░"}, {25, 50, 25, "█▒▒░"}, {75, 50, 25, "███░"}, {100, 500, 0, "████"}, {0, 1, 0, "▒░░░"},
	} {
		m := gpu.Sample{MemoryUsed: gpu.Some(c.used), MemoryTotal: gpu.Some[gpu.MiB](100)}
		if got := memoryBar(m, api.DeviceAvailable{Leased: c.leased, Foreign: c.foreign}, 4); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if got := memoryBar(gpu.Sample{}, api.DeviceAvailable{Leased: 5}, 4); got != "    " {
		t.Errorf("unknown: %q", got)
	}
}

func TestFreeID(t *testing.T) {
	taken := api.Leases{Leases: []api.Lease{{ID: "a"}, {ID: "b"}, {ID: "b-2"}}, Waiting: []api.Waiting{{ID: "b-3"}}}
	for service, want := range map[string]string{"a": "a-2", "b": "b-4", "c": "c"} {
		if got := freeID(service, taken); got != want {
			t.Errorf("%s: %s, want %s", service, got, want)
		}
	}
}

func TestFlagValues(t *testing.T) {
	for text, want := range map[string]float64{"90": 90, "1m30s": 90, "0": 0, "500ms": 0.5, "0.25": 0.25} {
		var v secondsValue
		if err := v.Set(text); err != nil || v.Or(-1) != want {
			t.Errorf("%q: %v, %v; want %v", text, v.Or(-1), err, want)
		}
	}
	for _, text := range []string{"", "soon", "-1", "-1s", "NaN", "Inf", "1e400"} {
		if err := new(secondsValue).Set(text); err == nil {
			t.Errorf("%q was taken for a length of time", text)
		}
	}
	var v memoryValue
	if err := v.Set("4GiB"); err != nil || v != 4096 || v.String() != "4 GiB" {
		t.Errorf("4GiB: %v, %v", v, err)
	}
	for _, text := range []string{"", "0", "-1", "1.5", "much"} {
		if err := v.Set(text); err == nil {
			t.Errorf("%q was taken for memory", text)
		}
	}
}

// A small amount is not written as nothing.
func TestSmallLeases(t *testing.T) {
	for memory, want := range map[gpu.MiB]string{20: "   -/<0.1", 51: "   -/<0.1", 300: "   -/0.3", 0: "   -/-"} {
		if got := leasedCell(api.Lease{}, api.LeasePart{Memory: memory}).text; got != want {
			t.Errorf("%s is written %q, want %q", memory, got, want)
		}
	}
}

// Whoever waits for a quota is told its place once.
func TestPlaceIsSaidOnce(t *testing.T) {
	e := api.Explanation{Position: 2, Text: "The quota is used up. It is number 2 in the queue."}
	if got := (indexes{}).why(e); got != "The quota is used up." {
		t.Errorf("said %q", got)
	}
}

func TestQuoted(t *testing.T) {
	for word, want := range map[string]string{"embedder-1": "embedder-1", "a b": "'a b'", "it's": `'it'\''s'`, "größe": "größe"} {
		if got := quoted(word); got != want {
			t.Errorf("%s is quoted as %s, want %s", word, got, want)
		}
	}
}

func TestSaid(t *testing.T) {
	gpus := indexes{"GPU-0": 0, "GPU-1": 1}
	for want, parts := range map[string][]api.LeasePart{
		"4 GiB on GPU 0":   {{GPU: "GPU-0", Memory: 4096}},
		"2 slots on GPU 1": {{GPU: "GPU-1", Slots: 2}},
		"1 GiB and 1 slot on each of GPU 0 and GPU 1": {{GPU: "GPU-0", Memory: 1024, Slots: 1}, {GPU: "GPU-1", Memory: 1024, Slots: 1}},
		"1 GiB on GPU 0 and 2 GiB on GPU-9":           {{GPU: "GPU-0", Memory: 1024}, {GPU: "GPU-9", Memory: 2048}},
	} {
		if got := gpus.had(api.Lease{Parts: parts}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
