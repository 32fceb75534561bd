package view

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
)

// Whatever holders call themselves, no line is too long, and nothing that a
// terminal would act on gets through.
func TestLeaseTableFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := &Leases{Leases: someLeases(), GPUs: GPUs{"GPU-0": 0, "GPU-1": 1}}
		for i := range all.Leases.Leases {
			l := &all.Leases.Leases[i]
			l.ID, l.Holder.Service, l.Holder.User = names().Draw(t, "id"), names().Draw(t, "service"), names().Draw(t, "user")
		}
		width := rapid.IntRange(60, 200).Draw(t, "width")
		to := term.Screen{Width: width, Now: now}
		for _, line := range all.held(to).Lines(width, false) {
			if term.Columns(line) > width {
				t.Fatalf("%d columns, want at most %d: %q", term.Columns(line), width, line)
			}
			if strings.ContainsAny(line, "\x1b\n") || strings.HasSuffix(line, " ") {
				t.Fatalf("line %q", line)
			}
		}
	})
}

// A small amount is not written as nothing.
func TestSmallLeases(t *testing.T) {
	for memory, want := range map[gpu.MiB]string{20: "   -/<0.1", 51: "   -/<0.1", 300: "   -/0.3", 0: "   -/-"} {
		if got := leasedCell(api.Lease{}, api.LeasePart{Memory: memory}).Text; got != want {
			t.Errorf("%s is written %q, want %q", memory, got, want)
		}
	}
}

// Whoever waits for a quota is told its place once.
func TestPlaceIsSaidOnce(t *testing.T) {
	e := api.Explanation{Position: 2, Text: "The quota is used up. It is number 2 in the queue."}
	if got := (GPUs{}).Why(e); got != "The quota is used up." {
		t.Errorf("said %q", got)
	}
}

func TestSaid(t *testing.T) {
	gpus := GPUs{"GPU-0": 0, "GPU-1": 1}
	for want, parts := range map[string][]api.LeasePart{
		"4 GiB on GPU 0":   {{GPU: "GPU-0", Memory: 4096}},
		"2 slots on GPU 1": {{GPU: "GPU-1", Slots: 2}},
		"1 GiB and 1 slot on each of GPU 0 and GPU 1": {{GPU: "GPU-0", Memory: 1024, Slots: 1}, {GPU: "GPU-1", Memory: 1024, Slots: 1}},
		"1 GiB on GPU 0 and 2 GiB on GPU-9":           {{GPU: "GPU-0", Memory: 1024}, {GPU: "GPU-9", Memory: 2048}},
	} {
		if got := gpus.Had(api.Lease{Parts: parts}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
