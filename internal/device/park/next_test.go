package park_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/park"
)

func states(list ...park.State) (all []park.Outcome) {
	for i, s := range list {
		all = append(all, park.Outcome{Process: park.Process{PID: i + 1}, State: s})
	}
	return all
}

func TestNext(t *testing.T) {
	const r, l, c = park.Running, park.Locked, park.Checkpointed
	for _, x := range []struct {
		goal park.Goal
		all  []park.State
		step park.Step
		on   []int
		met  bool
	}{
		{park.Away, nil, "", nil, true},
		{park.Away, []park.State{r, r}, park.Lock, []int{1, 2}, false},
		{park.Away, []park.State{l, r}, park.Lock, []int{2}, false},
		{park.Away, []park.State{l, l, park.Without}, park.Checkpoint, []int{1, 2}, false},
		{park.Away, []park.State{c, l}, park.Checkpoint, []int{2}, false},
		{park.Away, []park.State{c, r}, park.Lock, []int{2}, false},
		{park.Away, []park.State{c, c, park.Gone, park.Without}, "", nil, true},
		{park.Away, []park.State{c, park.Failed}, "", nil, false},
		{park.Away, []park.State{c, park.Unknown}, "", nil, false},
		{park.Back, []park.State{c, c}, park.Restore, []int{1, 2}, false},
		{park.Back, []park.State{c, l}, park.Restore, []int{1}, false},
		{park.Back, []park.State{c, r}, park.Restore, []int{1}, false},
		{park.Back, []park.State{l, l}, park.Unlock, []int{1, 2}, false},
		{park.Back, []park.State{l, r}, park.Unlock, []int{1}, false},
		{park.Back, []park.State{l, park.Failed}, park.Unlock, []int{1}, false},
		{park.Back, []park.State{r, park.Gone, park.Without}, "", nil, true},
		{park.Back, []park.State{r, park.Unknown}, "", nil, false},
	} {
		step, on := park.Next(x.goal, states(x.all...))
		var pids []int
		for _, p := range on {
			pids = append(pids, p.PID)
		}
		if step != x.step || !slices.Equal(pids, x.on) {
			t.Errorf("%s from %v: %q on %v, want %q on %v", x.goal, x.all, step, pids, x.step, x.on)
		}
		if met := park.Reached(x.goal, states(x.all...)); met != x.met {
			t.Errorf("%s from %v: reached is %v", x.goal, x.all, met)
		}
	}
}

// Whatever a driver does to the processes, following Next comes to an end, and
// never moves memory of one process while another one of the lease runs.
func TestNextComesToAnEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		after := map[park.Step]park.State{park.Lock: park.Locked, park.Checkpoint: park.Checkpointed, park.Restore: park.Locked, park.Unlock: park.Running}
		list := rapid.SliceOfN(rapid.SampledFrom([]park.State{park.Running, park.Locked, park.Checkpointed, park.Without, park.Gone}), 0, 5).Draw(t, "states")
		goal := rapid.SampledFrom([]park.Goal{park.Away, park.Back}).Draw(t, "goal")
		all := states(list...)
		for range 4 * (len(all) + 1) {
			step, on := park.Next(goal, all)
			if step == "" {
				break
			}
			if goal == park.Away && step == park.Checkpoint && slices.ContainsFunc(all, func(o park.Outcome) bool { return o.State == park.Running }) {
				t.Fatalf("memory moves while a process runs: %v", all)
			}
			if goal == park.Back && step == park.Unlock && slices.ContainsFunc(all, func(o park.Outcome) bool { return o.State == park.Checkpointed }) {
				t.Fatalf("a process runs while the memory of another one is away: %v", all)
			}
			var done []park.Outcome
			for i, p := range on {
				s := after[step]
				if i > 0 && rapid.Bool().Draw(t, "dies") {
					s = park.Gone
				}
				done = append(done, park.Outcome{Process: p, State: s})
			}
			all = park.Merge(all, done)
		}
		if !park.Reached(goal, all) {
			t.Fatalf("%s is not reached: %v", goal, all)
		}
	})
}

func TestLimit(t *testing.T) {
	for _, x := range []struct {
		step   park.Step
		memory gpu.MiB
		want   time.Duration
	}{
		{park.Lock, 1 << 20, 10 * time.Second}, {park.Unlock, 0, 10 * time.Second},
		{park.Checkpoint, 0, 30 * time.Second}, {park.Restore, 80 * 1024, 350 * time.Second}, {park.Checkpoint, -5, 30 * time.Second},
	} {
		if got := park.Limit(x.step, x.memory); got != x.want {
			t.Errorf("%s of %v: %v, want %v", x.step, x.memory, got, x.want)
		}
	}
}

func TestHostMemory(t *testing.T) {
	const gib = 1024
	for _, x := range []struct {
		name string
		host park.Host
		room gpu.MiB
	}{
		{"half of the machine", park.Host{Total: 128 * gib, Available: 120 * gib}, 64 * gib},
		{"less what is parked", park.Host{Total: 128 * gib, Available: 120 * gib, Taken: 40 * gib}, 24 * gib},
		{"what a setting says", park.Host{Total: 128 * gib, Available: 120 * gib, Most: gpu.Some[gpu.MiB](100 * gib)}, 100 * gib},
		{"what is free, less a twentieth", park.Host{Total: 100 * gib, Available: 30 * gib}, 25 * gib},
		{"what is free, less 2 GiB", park.Host{Total: 16 * gib, Available: 6 * gib}, 4 * gib},
		{"less what is on its way", park.Host{Total: 100 * gib, Available: 30 * gib, Taken: 10 * gib, Coming: 10 * gib}, 15 * gib},
		{"what the control group says", park.Host{Total: 128 * gib, Available: 120 * gib, Group: gpu.Some[gpu.MiB](3 * gib)}, 3 * gib},
		{"none", park.Host{Total: 128 * gib, Available: 120 * gib, Most: gpu.Some[gpu.MiB](0)}, 0},
		{"never less than none", park.Host{Total: 8 * gib, Available: 1 * gib}, 0},
	} {
		if got := x.host.Room(); got != x.room {
			t.Errorf("%s: %v, want %v", x.name, got, x.room)
		}
		if why := x.host.Refuse(x.room); x.room > 0 && why != "" {
			t.Errorf("%s: what fits is refused: %s", x.name, why)
		}
		if x.host.Refuse(x.room+1) == "" {
			t.Errorf("%s: more than fits is not refused", x.name)
		}
	}
}

func TestIdleEvidence(t *testing.T) {
	type sample struct {
		at     int
		share  float64 // less than 0: not known
		memory gpu.MiB
	}
	for _, x := range []struct {
		name    string
		samples []sample
		since   int // less than 0: not idle
	}{
		{"nothing is known", nil, -1},
		{"it does nothing", []sample{{0, 0, 100}, {5, 0, 100}, {10, 0.2, 100}}, 0},
		{"it works", []sample{{0, 0, 100}, {5, 40, 100}}, -1},
		{"it worked", []sample{{0, 40, 100}, {5, 0, 100}, {10, 0, 100}}, 5},
		{"its memory changed", []sample{{0, 0, 100}, {5, 0, 101}, {10, 0, 101}}, 5},
		{"the driver does not say", []sample{{0, 0, 100}, {5, -1, 100}}, -1},
		{"nobody looked for a while", []sample{{0, 0, 100}, {60, 0, 100}}, 60},
		{"the clock went back", []sample{{10, 0, 100}, {5, 0, 100}}, 5},
	} {
		var e park.Evidence
		start := time.Unix(1e9, 0)
		for _, s := range x.samples {
			share := gpu.Some(gpu.Percent(s.share))
			if s.share < 0 {
				share = gpu.Opt[gpu.Percent]{}
			}
			e.Sample(start.Add(time.Duration(s.at)*time.Second), share, s.memory)
		}
		idle, is := e.Idle()
		if is != (x.since >= 0) || is && !idle.Since.Equal(start.Add(time.Duration(x.since)*time.Second)) {
			t.Errorf("%s: %+v %v", x.name, idle, is)
		}
	}
}
