package sim_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/device/sim"
)

// Whatever steps are tried in whatever order, the states follow each other as they do
// with a driver, memory is on the card or off it and never half, and the card never
// holds more than it has.
func TestParkingHistories(t *testing.T) {
	file := scenario(t, `
devices: rtx-4060
timeline:
  - {device: 0, process: {pid: 5000001, memory_mb: 3000, load: 20}}
  - {device: 0, process: {pid: 5000002, memory_mb: 2500, load: 20}}
  - {at: 20s, for: 40s, repeat: 90s, device: 0, process: {pid: 5000003, memory_mb: 4000, load: 20}}
`)
	rapid.Check(t, func(rt *rapid.T) {
		clock := newHand()
		b, err := sim.Open(file, sim.Options{Clock: clock.Now})
		if err != nil {
			rt.Fatal(err)
		}
		devices, _ := b.Scan(t.Context())
		lot := history{rt, b, devices[0], map[move.Process]*told{}}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			if rapid.Bool().Draw(rt, "time passes") {
				clock.pass(time.Duration(rapid.IntRange(1, 4000).Draw(rt, "ms")) * time.Millisecond)
			} else {
				pid := 5000000 + rapid.IntRange(1, 3).Draw(rt, "pid")
				lot.try(clock.Now(), rapid.SampledFrom(move.Steps()).Draw(rt, "step"), pid)
			}
			lot.look(clock.Now())
		}
	})
}

// history is what was done to the processes of a card.
type history struct {
	*rapid.T
	backend *sim.Backend
	card    device.Device
	told    map[move.Process]*told
}

// told is what the card said about a process.
type told struct {
	state  move.State
	done   time.Time // when its last step ends
	memory gpu.MiB   // when it was locked
	lost   bool
}

// try takes a step with the process that has a pid now, and checks the answer.
func (h *history) try(now time.Time, step move.Step, pid int) {
	start, runs := h.backend.Started(pid)
	if !runs {
		return
	}
	id := move.Process{PID: pid, Start: start}
	was := h.told[id]
	if was == nil {
		was = &told{state: move.Running}
		h.told[id] = was
	}
	had, free := h.memory(pid)
	outcomes, err := h.card.(device.Parkable).Move(h.Context(), step, []move.Process{id})
	if err != nil {
		h.Fatal(err)
	}
	o, what := outcomes[0], fmt.Sprintf("%s of %d, which is %s", step, pid, was.state)
	order := map[move.Step][2]move.State{
		move.Lock: {move.Running, move.Locked}, move.Checkpoint: {move.Locked, move.Checkpointed},
		move.Restore: {move.Checkpointed, move.Locked}, move.Unlock: {move.Locked, move.Running},
	}[step]
	want := 0
	switch {
	case was.done.After(now) || was.state != order[0]:
		want = device.CodeIllegalState
	case was.lost && step == move.Restore:
		want = device.CodeSystem
	case step == move.Restore && was.memory > free:
		want, was.lost = device.CodeOutOfMemory, true
	}
	if o.Code != want || (o.Error == "") != (want == 0) {
		h.Fatalf("%s: %+v; want the answer %d", what, o, want)
	}
	if want != 0 {
		return
	}
	if o.State != order[1] {
		h.Fatalf("%s: %+v; want %s", what, o, order[1])
	}
	was.state = o.State
	if step == move.Lock {
		was.memory = had
	}
	if step == move.Checkpoint || step == move.Restore {
		was.done = now.Add(seconds(o.Took))
	}
}

// memory returns what a process has on the card, and what is free there.
func (h *history) memory(pid int) (has, free gpu.MiB) {
	var s gpu.Sample
	if err := h.card.Fast(h.Context(), &s); err != nil {
		h.Fatal(err)
	}
	for _, p := range s.Processes {
		if p.PID == pid {
			has = p.Memory.Or(0)
		}
	}
	return has, s.MemoryFree.Or(0)
}

// look checks that the card shows what it said.
func (h *history) look(now time.Time) {
	var s gpu.Sample
	if err := h.card.Fast(h.Context(), &s); err != nil {
		h.Fatal(err)
	}
	if used, total := s.MemoryUsed.Or(0), s.MemoryTotal.Or(0); used > total || used+s.MemoryFree.Or(0) != total {
		h.Fatalf("the card uses %d of %d MiB and has %v free", used, total, s.MemoryFree)
	}
	for id, was := range h.told {
		start, runs := h.backend.Started(id.PID)
		has, _ := h.memory(id.PID)
		away := was.state == move.Checkpointed && !was.done.After(now)
		switch {
		case !runs || start != id.Start: // it ended
			delete(h.told, id)
		case away && has != 0:
			h.Fatalf("%d is parked and has %d MiB on the card", id.PID, has)
		case !away && was.state != move.Running && has != was.memory:
			h.Fatalf("%d is %s and has %d MiB; want %d", id.PID, was.state, has, was.memory)
		}
	}
}
