package view

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/fleet"
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

// A limit that nobody chose is not what ends a lease until it is near, and is never said to
// be likely.
func TestLimitsThatNobodyChose(t *testing.T) {
	at := func(d time.Duration) *time.Time { when := now.Add(d); return &when }
	for _, c := range []struct {
		of   api.Lease
		want string
	}{
		{api.Lease{Binding: "process", Holder: api.Holder{PID: 7}, Ends: at(47 * time.Hour), Unchosen: true}, "pid 7"},
		{api.Lease{Binding: "named", Ends: at(47 * time.Hour), Unchosen: true}, "release"},
		{api.Lease{Binding: "ttl", Expires: at(5 * time.Hour), Ends: at(4 * time.Hour), Unchosen: true}, "release"},
		{api.Lease{Binding: "ttl", Expires: at(3 * time.Hour), Ends: at(4 * time.Hour), Unchosen: true}, "in 3 h"},
		{api.Lease{Binding: "process", Holder: api.Holder{PID: 7}, Ends: at(40 * time.Minute), Unchosen: true}, "in 40 min"},
		{api.Lease{Binding: "process", Holder: api.Holder{PID: 7}, Ends: at(47 * time.Hour)}, "in 47 h"},
	} {
		if got := Until(c.of, now); got != c.want {
			t.Errorf("%+v is until %q, want %q", c.of, got, c.want)
		}
	}
	e := &api.Estimate{Unknown: "train-3 has no history and nobody chose its time limit", Latest: at(47 * time.Hour)}
	if got := Starts(e, now); got != "?" {
		t.Errorf("it starts %q", got)
	}
	if got := Foretold(e, now); !strings.Contains(got, "is not known, because train-3 has no history and nobody chose its time limit. It starts at the latest in 47 h,") {
		t.Error(got)
	}
	j := api.Job{State: "waiting", Code: "queue", Estimate: e}
	if got := JobNote(j, now); got != "start unknown, train-3 has no history" {
		t.Error(got)
	}
	if got := estimated(j, now); got != "not known, because train-3 has no history and nobody chose its time limit; at the latest in 47 h" {
		t.Error(got)
	}
	e.Passable = true
	for _, got := range []string{Foretold(e, now), estimated(j, now)} {
		if !strings.HasSuffix(strings.TrimSuffix(got, "."), ", if nobody passes it") {
			t.Error(got)
		}
	}
	j.Estimate = &api.Estimate{Likely: at(20 * time.Minute)}
	for _, got := range []string{Foretold(j.Estimate, now), estimated(j, now)} {
		if !strings.Contains(got, "in 20 min, if nobody comes who goes first") && !strings.Contains(got, "in about 20 min, if nobody comes who goes first") {
			t.Error(got)
		}
	}
}

// Who waits for a limit is told from who waits for a device, what lies ahead is not cut to
// whole hours, and a device names five of the leases in the way.
func TestWhatWaitsForWhat(t *testing.T) {
	soon := now.Add(102 * time.Minute)
	all := &Leases{Leases: api.Leases{Waiting: []api.Waiting{
		{ID: "own", Position: 1, Since: now, GPUs: 1, Memory: 4096, Limit: "user", Estimate: &api.Estimate{Likely: &soon}},
		{ID: "machine", Position: 2, Since: now, GPUs: 1, Memory: 4096},
	}}}
	to := term.Screen{Width: 100, Now: now}
	text := strings.Join(all.queue(to).Lines(to.Width, false), "\n")
	for _, want := range []string{"FOR", "its user's limit", "a GPU", "~102 min"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	o := api.Obstacle{GPU: "GPU-0", Code: "no_memory", Text: "needs 4 GiB"}
	for range 24 {
		o.Holders = append(o.Holders, api.HolderUntil{Lease: "held", Memory: 2048, Slots: 1})
	}
	lines := GPUs{"GPU-0": 0}.obstacle(together{o, []string{"GPU-0"}}, to)
	if len(lines) != 1+5+1 || !strings.Contains(lines[6], "and 19 others, which hold 38 GiB and 19 slots") {
		t.Errorf("%s", strings.Join(lines, "\n"))
	}
	if lines := (GPUs{"GPU-0": 0}).obstacle(together{api.Obstacle{Holders: o.Holders[:6]}, []string{"GPU-0"}}, to); len(lines) != 1+6 {
		t.Errorf("%s", strings.Join(lines, "\n"))
	}
}

// A small amount is not written as nothing.
func TestSmallLeases(t *testing.T) {
	for memory, want := range map[gpu.MiB]string{20: "   -/<0.1", 51: "   -/<0.1", 300: "   -/0.3", 0: "   -/-"} {
		if got := LeasedMemory(fleet.Part{PodLease: new(api.PodLease), On: []api.LeasePart{{Memory: memory}}}).Text; got != want {
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
