package proof

import (
	"fmt"
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Wrong counts wrong words of memory, and shows the first one.
type Wrong struct {
	Count           uint64
	At              uint64 // distance of the first from the start of the tested memory, in bytes
	Expected, Found uint32
}

// say returns the count and the first place.
func (w Wrong) say(what, whole string) string {
	return fmt.Sprintf("%s%s %s wrong, the first at byte %#x: expected %#08x, found %#08x",
		words.Count(int64(w.Count), what), whole, words.Form(int64(w.Count), "is", "are"), w.At, w.Expected, w.Found)
}

// Memory returns the step for patterns that were written to memory and read again.
func Memory(tested gpu.MiB, passes int, w Wrong) Step {
	s := Step{Name: StepMemory, Memory: tested, Verdict: Passed, Detail: fmt.Sprintf("%s, %s", tested, words.Count(passes, "pattern"))}
	switch {
	case w.Count > 0:
		s.Verdict, s.Detail = Failed, w.say("word", " of "+tested.String())
	case tested == 0:
		s.Verdict, s.Detail = Unasked, "no memory is free"
	}
	return s
}

// Link is the connection of a device to its machine. Zero means not known.
type Link struct {
	Generation, Width         int // of PCIe, at present
	MostGeneration, MostWidth int // the best that the device and its slot can do
}

// perLane holds the rate of one lane in GB/s, by PCIe generation.
var perLane = []float64{1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}

// Norm returns the highest rate of the link, in GB/s.
func (l Link) Norm() gpu.Opt[float64] {
	if l.MostGeneration < 1 || l.MostGeneration >= len(perLane) || l.MostWidth < 1 {
		return gpu.Opt[float64]{}
	}
	return gpu.Some(perLane[l.MostGeneration] * float64(l.MostWidth))
}

// slowLink is the share of its norm below which a link counts as slow. A good one reaches
// between 0.8 and 0.9 if nobody else uses it, and half of that beside another program
// that copies without a pause.
const slowLink = 1.0 / 3

// Copy returns the step for copies in one direction, at a rate in GB/s.
func Copy(name Name, rate float64, l Link, w Wrong) Step {
	s := Step{Name: name, Verdict: Passed, Value: gpu.Some(rate), Norm: l.Norm(), Unit: "GB/s"}
	norm, known := s.Norm.Get()
	s.Detail = fmt.Sprintf("%.1f GB/s", rate)
	if known {
		s.Detail += fmt.Sprintf(" of %.1f", norm)
	}
	switch {
	case w.Count > 0:
		s.Verdict, s.Detail = Failed, w.say("word", "")
	case known && rate < slowLink*norm:
		s.Verdict, s.Detail = Failed, "slow link: "+s.Detail
	case !known:
		s.Detail += "; how fast the link should be is not known"
	}
	return s
}

// Compute returns the step for a computation whose answer is known.
func Compute(values int, w Wrong) Step {
	if w.Count > 0 {
		return Step{Name: StepCompute, Verdict: Failed, Detail: w.say("result", fmt.Sprintf(" of %d", values))}
	}
	return Step{Name: StepCompute, Verdict: Passed, Detail: words.Count(values, "result")}
}

// Clocks has the clock of a device while it computed.
type Clocks struct {
	SM, Most gpu.Opt[gpu.MHz]
	Reasons  []gpu.ThrottleReason // nil if the device cannot tell
}

// stuckClock is the share of its highest clock below which a device that computes
// has to give a reason.
const stuckClock = 0.5

// Step returns the step for these clocks.
func (c Clocks) Step() Step {
	now, known := c.SM.Get()
	most, limited := c.Most.Get()
	if !known || !limited || most <= 0 {
		return Step{Name: StepClocks, Verdict: Unasked, Detail: "the driver does not tell the clock"}
	}
	s := Step{Name: StepClocks, Verdict: Passed, Value: gpu.Some(float64(now)), Norm: gpu.Some(float64(most)), Unit: "MHz"}
	s.Detail = fmt.Sprintf("%.0f of %.0f MHz while it computed", now, most)
	var reasons []string
	for _, r := range c.Reasons {
		if r != gpu.ThrottleIdle {
			reasons = append(reasons, string(r))
		}
	}
	slices.Sort(reasons)
	switch {
	case len(reasons) > 0:
		s.Detail += ", because of " + words.And(reasons)
	case float64(now) >= stuckClock*float64(most):
	case c.Reasons == nil:
		s.Verdict, s.Detail = Unasked, s.Detail+"; the driver does not tell why"
	default:
		s.Verdict, s.Detail = Failed, "the clock is stuck: "+s.Detail+", and the driver gives no reason"
	}
	return s
}

// Step returns the step for a link that was read under load.
func (l Link) Step() Step {
	s := Step{Name: StepLink, Value: gpu.Some(float64(l.Width)), Norm: gpu.Some(float64(l.MostWidth)), Unit: "lanes"}
	s.Detail = fmt.Sprintf("PCIe generation %d with %d lanes; %d with %d are possible", l.Generation, l.Width, l.MostGeneration, l.MostWidth)
	switch {
	case l.Width <= 0 || l.MostWidth <= 0 || l.Generation <= 0 || l.MostGeneration <= 0:
		return Step{Name: StepLink, Verdict: Unasked, Detail: "the driver does not tell the link"}
	case l.Width < l.MostWidth || l.Generation < l.MostGeneration:
		s.Verdict = Failed
	default:
		s.Verdict = Passed
	}
	return s
}

// Errors has the memory errors that a device counts.
type Errors struct {
	Corrected, Uncorrected gpu.Opt[int64] // so far
	Pending                gpu.Opt[bool]  // whether memory waits to be replaced at the next reset
	Broken                 gpu.Opt[bool]  // whether memory could not be replaced
}

// Grown returns the step for the error counters before a check and after it.
func Grown(before, after Errors) Step {
	s := Step{Name: StepErrors, Verdict: Passed, Detail: "none came during the check"}
	corrected, known := grown(before.Corrected, after.Corrected)
	uncorrected, known2 := grown(before.Uncorrected, after.Uncorrected)
	switch {
	case after.Broken.Or(false):
		s.Verdict, s.Detail = Failed, "memory is broken, and there is nothing left to replace it with; have the device exchanged"
	case after.Pending.Or(false):
		s.Verdict, s.Detail = Failed, "broken memory waits to be replaced; reset the device"
	case uncorrected > 0:
		s.Verdict, s.Detail = Failed, words.Count(uncorrected, "uncorrected error")+" came during the check"
	case corrected > 0:
		s.Detail = words.Count(corrected, "corrected error") + " came during the check"
	case !known && !known2 && !after.Pending.Known():
		s.Verdict, s.Detail = Unasked, "the device does not count them"
	}
	return s
}

func grown(before, after gpu.Opt[int64]) (int64, bool) {
	old, known := before.Get()
	now, known2 := after.Get()
	if !known || !known2 {
		return 0, false
	}
	return max(0, now-old), true
}

// Look returns the step for memory that was read before anybody wrote to it.
func Look(looked gpu.MiB, left int64) Step {
	s := Step{Name: StepResidue, Verdict: Passed, Memory: looked, Left: left, Detail: "all of " + looked.String() + " is zero"}
	switch {
	case looked == 0:
		s.Verdict, s.Detail = Unasked, "no memory is free"
	case left > 0:
		s.Verdict, s.Detail = Failed, fmt.Sprintf("%s of %s that earlier programs may have written", words.Count(left, "byte"), looked)
	}
	return s
}

// Scrubbed returns the step for memory that was overwritten with zeros; left bytes were
// not zero afterwards.
func Scrubbed(memory gpu.MiB, left int64) Step {
	s := Step{Name: StepScrub, Verdict: Passed, Memory: memory, Left: left, Detail: memory.String() + " overwritten"}
	switch {
	case memory == 0:
		s.Verdict, s.Detail = Unasked, "no memory is free"
	case left > 0:
		s.Verdict, s.Detail = Failed, fmt.Sprintf("%s of %s are not zero after they were overwritten", words.Count(left, "byte"), memory)
	}
	return s
}
