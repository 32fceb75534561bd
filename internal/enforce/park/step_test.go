package park_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/park"
)

func states(list ...move.State) (all []move.Outcome) {
	for i, s := range list {
		all = append(all, move.Outcome{Process: move.Process{PID: i + 1}, State: s})
	}
	return all
}

func TestNext(t *testing.T) {
	const r, l, c = move.Running, move.Locked, move.Checkpointed
	for _, x := range []struct {
		goal park.Goal
		all  []move.State
		step move.Step
		on   []int
		met  bool
	}{
		{park.Away, nil, "", nil, true},
		{park.Away, []move.State{r, r}, move.Lock, []int{1, 2}, false},
		{park.Away, []move.State{l, r}, move.Lock, []int{2}, false},
		{park.Away, []move.State{l, l, move.Without}, move.Checkpoint, []int{1, 2}, false},
		{park.Away, []move.State{c, l}, move.Checkpoint, []int{2}, false},
		{park.Away, []move.State{c, r}, move.Lock, []int{2}, false},
		{park.Away, []move.State{c, c, move.Gone, move.Without}, "", nil, true},
		{park.Away, []move.State{c, move.Failed}, "", nil, false},
		{park.Away, []move.State{c, move.Unknown}, "", nil, false},
		{park.Back, []move.State{c, c}, move.Restore, []int{1, 2}, false},
		{park.Back, []move.State{c, l}, move.Restore, []int{1}, false},
		{park.Back, []move.State{c, r}, move.Restore, []int{1}, false},
		{park.Back, []move.State{l, l}, move.Unlock, []int{1, 2}, false},
		{park.Back, []move.State{l, r}, move.Unlock, []int{1}, false},
		{park.Back, []move.State{l, move.Failed}, move.Unlock, []int{1}, false},
		{park.Back, []move.State{r, move.Gone, move.Without}, "", nil, true},
		{park.Back, []move.State{r, move.Unknown}, "", nil, false},
	} {
		step, on := park.NextStep(x.goal, states(x.all...))
		var pids []int
		for _, p := range on {
			pids = append(pids, p.PID)
		}
		if step != x.step || !slices.Equal(pids, x.on) {
			t.Errorf("%s from %v: %q on %v, want %q on %v", x.goal, x.all, step, pids, x.step, x.on)
		}
		if met := len(park.Stuck(x.goal, states(x.all...))) == 0; met != x.met {
			t.Errorf("%s from %v: reached is %v", x.goal, x.all, met)
		}
	}
}

// Whatever a driver does to the processes, following Next comes to an end, and
// never moves memory of one process while another one of the lease runs.
func TestNextComesToAnEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		after := map[move.Step]move.State{move.Lock: move.Locked, move.Checkpoint: move.Checkpointed, move.Restore: move.Locked, move.Unlock: move.Running}
		list := rapid.SliceOfN(rapid.SampledFrom([]move.State{move.Running, move.Locked, move.Checkpointed, move.Without, move.Gone}), 0, 5).Draw(t, "states")
		goal := rapid.SampledFrom([]park.Goal{park.Away, park.Back}).Draw(t, "goal")
		all := states(list...)
		for range 4 * (len(all) + 1) {
			step, on := park.NextStep(goal, all)
			if step == "" {
				break
			}
			if goal == park.Away && step == move.Checkpoint && slices.ContainsFunc(all, func(o move.Outcome) bool { return o.State == move.Running }) {
				t.Fatalf("memory moves while a process runs: %v", all)
			}
			if goal == park.Back && step == move.Unlock && slices.ContainsFunc(all, func(o move.Outcome) bool { return o.State == move.Checkpointed }) {
				t.Fatalf("a process runs while the memory of another one is away: %v", all)
			}
			var done []move.Outcome
			for i, p := range on {
				s := after[step]
				if i > 0 && rapid.Bool().Draw(t, "dies") {
					s = move.Gone
				}
				done = append(done, move.Outcome{Process: p, State: s})
			}
			all = park.Merge(all, done)
		}
		if len(park.Stuck(goal, all)) > 0 {
			t.Fatalf("%s is not reached: %v", goal, all)
		}
	})
}

func TestLimit(t *testing.T) {
	for _, x := range []struct {
		step   move.Step
		memory gpu.MiB
		want   time.Duration
	}{
		{move.Lock, 1 << 20, 10 * time.Second}, {move.Unlock, 0, 10 * time.Second},
		{move.Checkpoint, 0, 30 * time.Second}, {move.Restore, 80 * 1024, 350 * time.Second}, {move.Checkpoint, -5, 30 * time.Second},
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
		host park.HostMemory
		room gpu.MiB
	}{
		{"half of the machine", park.HostMemory{Total: 128 * gib, Available: 120 * gib}, 64 * gib},
		{"less what is parked", park.HostMemory{Total: 128 * gib, Available: 120 * gib, Taken: 40 * gib}, 24 * gib},
		{"what a setting says", park.HostMemory{Total: 128 * gib, Available: 120 * gib, Most: gpu.Some[gpu.MiB](100 * gib)}, 100 * gib},
		{"what is free, less a twentieth", park.HostMemory{Total: 100 * gib, Available: 30 * gib}, 25 * gib},
		{"what is free, less 2 GiB", park.HostMemory{Total: 16 * gib, Available: 6 * gib}, 4 * gib},
		{"less what is on its way", park.HostMemory{Total: 100 * gib, Available: 30 * gib, Taken: 10 * gib, Coming: 10 * gib}, 15 * gib},
		{"what the control group says", park.HostMemory{Total: 128 * gib, Available: 120 * gib, Group: gpu.Some[gpu.MiB](3 * gib)}, 3 * gib},
		{"none", park.HostMemory{Total: 128 * gib, Available: 120 * gib, Most: gpu.Some[gpu.MiB](0)}, 0},
		{"never less than none", park.HostMemory{Total: 8 * gib, Available: 1 * gib}, 0},
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
	busy := park.HostMemory{Total: 100 * gib, Available: 30 * gib, Taken: 30 * gib, Coming: 20 * gib}
	for memory, want := range map[gpu.MiB]string{
		6 * gib:  "it has 6 GiB on its device, and the machine has 5 GiB to spare in memory",
		21 * gib: "it has 21 GiB on its device, and parked leases may take 20 GiB more of the machine's memory; raise park_host_mb, or resume others first",
	} {
		if got := busy.Refuse(memory); got != want {
			t.Errorf("%v is refused: %q, want %q", memory, got, want)
		}
	}
}
