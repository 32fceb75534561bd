package park

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
)

// Goal says where the memory of the processes of a lease has to be.
type Goal string

// The goals.
const (
	Away Goal = "away" // all of it in the memory of the machine
	Back Goal = "back" // all of it on the device, and the processes run
)

// NextStep returns the next step to a goal, and the processes that take it together. It looks
// only at the states, so it continues where another daemon left off. All processes are
// locked before the memory of one moves, and all memory is back before one is unlocked:
// no process runs beside another one of its lease whose memory is away. A process that
// the driver gave up, or whose state is not known, takes no step; see Stuck. An empty
// step means that there is nothing left to do.
func NextStep(goal Goal, all []move.Outcome) (move.Step, []move.Process) {
	order := []struct {
		in   move.State
		step move.Step
	}{{move.Running, move.Lock}, {move.Locked, move.Checkpoint}}
	if goal == Back {
		order[0].in, order[0].step = move.Checkpointed, move.Restore
		order[1].in, order[1].step = move.Locked, move.Unlock
	}
	for _, o := range order {
		if on := in(o.in, all); len(on) > 0 {
			return o.step, on
		}
	}
	return "", nil
}

// in returns the processes that are in a state.
func in(s move.State, all []move.Outcome) (list []move.Process) {
	for _, o := range all {
		if o.State == s {
			list = append(list, o.Process)
		}
	}
	return list
}

// Stuck returns the processes that are not where a goal wants them. A process that has
// ended, or that has nothing on a device, is where every goal wants it.
func Stuck(goal Goal, all []move.Outcome) (list []move.Outcome) {
	there := move.Checkpointed
	if goal == Back {
		there = move.Running
	}
	for _, o := range all {
		if o.State != there && o.State != move.Without && o.State != move.Gone {
			list = append(list, o)
		}
	}
	return list
}

// Merge returns the outcomes in all, with newer ones of the same processes in their place
// and those of other processes added.
func Merge(all, newer []move.Outcome) []move.Outcome {
	merged, index := slices.Clone(all), map[move.Process]int{}
	for i, o := range merged {
		index[o.Process] = i
	}
	for _, n := range newer {
		i, known := index[n.Process]
		if !known {
			i, index[n.Process] = len(merged), len(merged)
			merged = append(merged, n)
		}
		merged[i] = n
	}
	return merged
}

// Refusals returns what the driver refused, as a sentence without a subject, or "" if it
// refused nothing.
func Refusals(all []move.Outcome) string {
	var list []string
	for _, o := range all {
		if o.Error != "" {
			list = append(list, fmt.Sprintf("process %d: %s", o.PID, o.Error))
		}
	}
	return strings.Join(list, "; ")
}

// Limit returns how long a step that moves an amount of memory may take. A step on a
// process that somebody has stopped never ends by itself.
func Limit(s move.Step, memory gpu.MiB) time.Duration {
	const quick, slow, rate = 10 * time.Second, 30 * time.Second, 256 // MiB a second
	if s == move.Checkpoint || s == move.Restore {
		return slow + time.Duration(max(memory, 0)/rate)*time.Second
	}
	return quick
}
