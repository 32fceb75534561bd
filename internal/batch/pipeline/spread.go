package pipeline

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// plan puts every run on a device. It places pipelines that can go to few devices first,
// then large ones, so that they do not get in each other's way. Each run goes where it
// starts soonest, and of those devices to the one with the least load, then to the one
// that worked least lately.
func (c *compiler) plan(drafts []draft) *api.Plan {
	seats := make([]seat, len(c.devices))
	for i := range seats {
		seats[i] = seat{device: &c.devices[i], from: make([]int, len(drafts))}
	}
	for _, i := range placingOrder(drafts) {
		d := &drafts[i]
		for n := range d.source.runs() {
			run := api.PlannedRun{Name: d.planned.Name}
			if d.source.Count > 0 {
				run.Name = fmt.Sprintf("%s[%d]", d.planned.Name, n)
			}
			if len(d.candidates) > 0 {
				chosen := choose(seats, d, i)
				chosen.take(&d.planned, i, &run)
			}
			d.planned.Runs = append(d.planned.Runs, run)
		}
		d.planned.Unsatisfied = unsatisfied(d.planned.Runs)
	}
	return c.summary(drafts, seats)
}

func placingOrder(drafts []draft) []int {
	order := make([]int, len(drafts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(len(drafts[a].candidates), len(drafts[b].candidates)),
			cmp.Compare(drafts[b].planned.Memory, drafts[a].planned.Memory),
		)
	})
	return order
}

// seat is a device while the plan fills it.
type seat struct {
	device  *Device
	waves   []wave
	from    []int // by draft, the first wave that may have room for it
	runs    int
	waiting int
	slots   int     // slots of all runs, whatever their wave
	memory  gpu.MiB // memory of all runs, whatever their wave
}

// wave holds runs that run side by side.
type wave struct {
	runs    int
	slots   int
	memory  gpu.MiB
	seconds float64 // duration of the longest run
}

// The waves of a run that cannot start now: on a device where others have to give
// something back first, and on a device that has to recover first.
const (
	busy   = 1 << 30
	unwell = busy + 1
)

func choose(seats []seat, d *draft, number int) *seat {
	best := &seats[d.candidates[0]]
	bestWave, bestLoad := best.wave(&d.planned, number), best.load(&d.planned)
	for _, i := range d.candidates[1:] {
		s := &seats[i]
		w, load := s.wave(&d.planned, number), s.load(&d.planned)
		if cmp.Or(cmp.Compare(w, bestWave), cmp.Compare(load, bestLoad), cmp.Compare(s.device.Recent, best.device.Recent)) < 0 {
			best, bestWave, bestLoad = s, w, load
		}
	}
	return best
}

// wave returns the first wave with room for one more run of a pipeline, from 0. The runs
// of a pipeline are all alike, so a wave without room for one has none for the next: the
// search continues where it ended.
func (s *seat) wave(p *api.PlannedPipeline, number int) int {
	free, room := s.device.Usable-s.device.Active, s.device.Available
	switch {
	case s.device.shut() != "":
		return unwell
	case p.Slots > free || p.Memory > room:
		return busy
	}
	w := s.from[number]
	for w < len(s.waves) && (s.waves[w].slots+p.Slots > free || s.waves[w].memory+p.Memory > room) {
		w++
	}
	s.from[number] = w
	return w
}

// obstacle returns why a run cannot start on the device now.
func (s *seat) obstacle(p *api.PlannedPipeline) string {
	d := s.device
	free := max(d.Usable-d.Active, 0)
	switch {
	case d.shut() != "":
		return fmt.Sprintf("nothing is granted on %s: %s", d.label(), d.shut())
	case p.Slots > free:
		return fmt.Sprintf("%s of %s are free, and it needs %d", words.Count(free, "slot"), d.label(), p.Slots)
	}
	return fmt.Sprintf("%s can lease %s now, and it needs %s", d.label(), max(d.Available, 0).Beside(p.Memory), p.Memory.Beside(d.Available))
}

// load returns the share of the device that one more run would fill: of its
// slots or of its memory, whichever is larger. Above one, runs take turns.
func (s *seat) load(p *api.PlannedPipeline) float64 {
	d := s.device
	usable := d.Usable
	if usable <= 0 {
		usable = max(d.MaxPipelines, 1)
	}
	slots := float64(d.Active+s.slots+p.Slots) / float64(usable)
	memory := float64(d.ceiling()-d.Available+s.memory+p.Memory) / float64(max(d.ceiling(), 1))
	return max(slots, memory)
}

// take puts a run on the device.
func (s *seat) take(p *api.PlannedPipeline, number int, run *api.PlannedRun) {
	run.GPU, run.Index = s.device.UUID, gpu.Some(s.device.Index)
	s.runs++
	s.slots += p.Slots
	s.memory += p.Memory
	w := s.wave(p, number)
	if w >= busy {
		s.waiting++
		run.Waits = s.obstacle(p)
		return
	}
	if w == len(s.waves) {
		s.waves = append(s.waves, wave{})
	}
	at := &s.waves[w]
	at.runs++
	at.slots += p.Slots
	at.memory += p.Memory
	at.seconds = max(at.seconds, p.Seconds.Or(0))
	run.Wave = w + 1
}

// unsatisfied returns, for each obstacle, how many runs it stops.
func unsatisfied(runs []api.PlannedRun) []string {
	var texts []string
	count := map[string]int{}
	for i := range runs {
		if text := runs[i].Waits; text != "" {
			if count[text] == 0 {
				texts = append(texts, text)
			}
			count[text]++
		}
	}
	for i, text := range texts {
		noun := "run waits"
		if count[text] > 1 {
			noun = "runs wait"
		}
		texts[i] = fmt.Sprintf("%d %s: %s", count[text], noun, text)
	}
	return texts
}
