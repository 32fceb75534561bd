package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// candidates returns the devices, by position, that a pipeline could run on if
// nobody else held anything. If there is none, it reports the reasons.
func (c *compiler) candidates(p *Pipeline, planned *api.PlannedPipeline) []int {
	if len(c.devices) == 0 {
		first := firstOnGPU(p)
		c.add(p.at(first), NoGPU, "it needs a GPU ("+gpuNeed(first)+"), and this machine has none",
			"run it on a machine with one; to try the plan alone, serve with --devices sim:4")
		return nil
	}
	sights := c.sights(p, planned)
	wished := c.wished(p)
	if len(wished) == 0 {
		c.add(p.place(), NoSuchDevice, fmt.Sprintf("no GPU of this machine is %q", p.GPU), "there is ", c.inventory())
		for i := range c.devices {
			wished = append(wished, i)
		}
		c.hopeless(p, planned, sights, wished) // also report what no other wish could meet
		return nil
	}
	var fitting []int
	var reasons []string
	for _, i := range wished {
		if reason := unfit(&c.devices[i], planned, sights); reason != "" {
			reasons = append(reasons, c.devices[i].label()+" "+reason)
		} else {
			fitting = append(fitting, i)
		}
	}
	if len(fitting) == 0 && !c.hopeless(p, planned, sights, wished) {
		c.add(p.place(), NoFit, "no GPU has everything it needs: "+strings.Join(reasons, "; "), "lower its needs, or make the libraries see the other GPUs")
	}
	return fitting
}

func (c *compiler) wished(p *Pipeline) []int {
	var found []int
	for i := range c.devices {
		if c.devices[i].meets(&p.Where) {
			found = append(found, i)
		}
	}
	return found
}

// unfit returns what a device will never have, or "" if it has everything.
func unfit(d *Device, planned *api.PlannedPipeline, sights []sight) string {
	switch {
	case planned.Slots > d.MaxPipelines:
		return "has only " + words.Count(d.MaxPipelines, "slot")
	case planned.Memory > d.ceiling():
		return "has only " + d.ceiling().String()
	}
	for i := range sights {
		if !sights[i].sees(d) {
			return "is not seen by " + sights[i].label()
		}
	}
	return ""
}

// hopeless reports each need that no device can ever meet. It returns whether there is
// one.
func (c *compiler) hopeless(p *Pipeline, planned *api.PlannedPipeline, sights []sight, devices []int) bool {
	slots, largest := 0, &c.devices[devices[0]]
	for _, i := range devices {
		slots = max(slots, c.devices[i].MaxPipelines)
		if c.devices[i].ceiling() > largest.ceiling() {
			largest = &c.devices[i]
		}
	}
	found := false
	if planned.Slots > slots {
		found = true
		c.add(p.place(), TooManySlots, fmt.Sprintf("it asks for %s, and no GPU %s has more than %d", words.Count(planned.Slots, "slot"), scope(p, largest), slots),
			"lower slots, or raise max_pipelines in the configuration")
	}
	if planned.Memory > largest.ceiling() {
		found = true
		c.tooMuch(p, planned, largest)
	}
	for i := range sights {
		seen := false
		for _, at := range devices {
			seen = seen || sights[i].sees(&c.devices[at])
		}
		if !seen {
			found = true
			c.blind(p, &sights[i], devices)
		}
	}
	return found
}

// scope returns the devices among which d is the largest, in words: those that the
// pipeline may use or, if it may use none of them, all devices of the machine.
func scope(p *Pipeline, d *Device) string {
	if d.meets(&p.Where) {
		return "it may use"
	}
	return "of this machine"
}

// tooMuch reports each step that is too large by itself, or else the steps that
// are too large together.
func (c *compiler) tooMuch(p *Pipeline, planned *api.PlannedPipeline, largest *Device) {
	room := fmt.Sprintf("the largest GPU %s is %s (%s) with %s", scope(p, largest), largest.label(), largest.Name, largest.ceiling())
	alone := false
	for i, position := range p.sequence() {
		if s := &planned.Steps[i]; s.Memory+planned.Context > largest.ceiling() {
			alone = true
			remedy := "work on smaller pieces"
			if s.MemoryFrom == api.MemoryDefault {
				remedy = "that is a guess: declare memory_mb if it needs less"
			}
			c.add(p.at(&p.Steps[position]), TooMuchMemory,
				fmt.Sprintf("it needs %s (%s) and %s for the CUDA context, and %s", s.Memory.Beside(planned.Context), s.MemoryFrom, planned.Context.Beside(s.Memory), room),
				fmt.Sprintf("%s; at most %s fit", remedy, max(largest.ceiling()-planned.Context, 0)))
		}
	}
	if alone {
		return
	}
	peak := slices.IndexFunc(planned.Steps, func(s api.PlannedStep) bool { return s.Name == planned.PeakStep })
	reason := fmt.Sprintf("%s are needed at once (with %s for the CUDA context), and %s", planned.Memory.Beside(planned.Context), planned.Context.Beside(planned.Memory), room)
	if alive := planned.Steps[peak].Alive; len(alive) > 0 {
		reason += fmt.Sprintf("; outputs still on the GPU: %s", listed(alive))
	}
	c.add(p.at(&p.Steps[p.sequence()[peak]]), TooMuchMemory, reason,
		"declare output_mb of earlier steps, if their outputs are smaller than assumed, or take them before this step")
}

func firstOnGPU(p *Pipeline) *Step {
	all := p.sequence()
	at := slices.IndexFunc(all, func(i int) bool { return p.Steps[i].UsesGPU() })
	return &p.Steps[all[at]]
}

// gpuNeed returns why a step needs a GPU.
func gpuNeed(s *Step) string {
	switch {
	case s.Input.OnGPU():
		return string(s.Input)
	case s.Output.OnGPU():
		return string(s.Output)
	}
	return "memory_mb " + fmt.Sprint(int64(s.Memory))
}

// inventory names the devices of the machine, and groups those that look the
// same.
func (c *compiler) inventory() string {
	type look struct {
		name  string
		total gpu.MiB
	}
	var looks []look
	members := map[look][]string{}
	for i := range c.devices {
		l := look{c.devices[i].Name, c.devices[i].MemoryTotal}
		if members[l] == nil {
			looks = append(looks, l)
		}
		members[l] = append(members[l], fmt.Sprint(c.devices[i].Index))
	}
	var parts []string
	for _, l := range looks {
		parts = append(parts, fmt.Sprintf("GPU %s (%s, %s)", listed(members[l]), l.name, l.total))
	}
	return strings.Join(parts, "; ")
}
