package programs

import (
	"slices"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// task is a run of the plan that has not begun.
type task struct {
	pipeline *api.PlannedPipeline
	run      api.PlannedRun
	group    *group
	aim      string // UUID of the device whose planned room it asks for
}

// group stands for the tasks with the same need. The daemon grants them one after the
// other, so only the first asks. Tasks of another group do not wait behind it.
type group struct{ asking int }

// need describes the lease that a run asks for.
type need struct {
	candidates      string
	memory          gpu.MiB
	slots           int
	service, policy string
	priority        gpu.Opt[int]
	unplanned       bool
}

func needOf(p *api.PlannedPipeline, run api.PlannedRun) need {
	return need{
		candidates: strings.Join(p.Candidates, " "), memory: p.Memory, slots: p.Slots,
		service: p.Service, policy: p.Policy, priority: p.Priority, unplanned: unplanned(run),
	}
}

// unplanned reports whether the plan found no room for a run. An unplanned run waits
// for leases of others, so it and the planned runs are not in each other's way.
func unplanned(run api.PlannedRun) bool { return run.Wave == 0 }

// mostUnplanned limits the unplanned runs that ask at a time: each is a waiting
// process.
const mostUnplanned = 64

// next returns the index of the task that asks next: one that the plan found no room
// for, one whose device has fewer runs than planned side by side, or, if a device has
// nothing left to do, one from the longest queue. It returns less than zero while all
// devices are as full as planned, or others of the same group ask: the next run begins
// when one ends. The caller holds mu.
func (r *planRuns) next(tasks []*task) int {
	free, unplannedAsk := r.room()
	queue := map[string]int{}
	for i, t := range tasks {
		room := free[t.run.GPU] > 0
		if unplanned(t.run) {
			room = unplannedAsk < mostUnplanned
		} else {
			queue[t.run.GPU]++
		}
		if room && t.group.asking == 0 {
			t.aim = t.run.GPU
			return i
		}
	}
	if len(r.running)+len(r.asking) == 0 {
		return 0 // regardless of the plan
	}
	for _, d := range r.Plan.Devices {
		if free[d.GPU] <= 0 || queue[d.GPU] > 0 {
			continue
		}
		longest := -1
		for i, t := range tasks {
			if t.group.asking == 0 && t.mayUse(d.GPU) && (longest < 0 || queue[t.run.GPU] > queue[tasks[longest].run.GPU]) {
				longest = i
			}
		}
		if longest >= 0 {
			tasks[longest].aim = d.GPU
			return longest
		}
	}
	return -1
}

// room returns how many more runs each device takes according to the plan, and how many
// unplanned runs are asking.
func (r *planRuns) room() (free map[string]int, unplannedAsk int) {
	free = map[string]int{}
	for _, d := range r.Plan.Devices {
		free[d.GPU] = d.SideBySide
	}
	for _, running := range r.running {
		free[device(running)]--
	}
	for _, t := range r.asking {
		if unplanned(t.run) {
			unplannedAsk++
		} else {
			free[t.aim]--
		}
	}
	return free, unplannedAsk
}

// mayUse reports whether a task that was planned elsewhere can run on a device.
func (t *task) mayUse(uuid string) bool {
	return !unplanned(t.run) && (len(t.pipeline.Candidates) == 0 || slices.Contains(t.pipeline.Candidates, uuid))
}
