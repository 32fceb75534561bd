// Package proof has the words in which a GPU is proved: what a helper process
// is asked to do, the steps that it takes, and how their outcome is judged.
//
// Three answers are possible, never two: a device passed, it failed, or it
// could not be asked.
//
// It also knows which drivers were checked to clear the memory of a GPU before the
// next program gets it, and whose programs may have left something there.
//
// Pure: no clock, no I/O.
package proof

import (
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Verb says what the helper process does with a device.
type Verb string

// The verbs.
const (
	Check   Verb = "check"   // tests memory, copies, computation, clocks and links
	Residue Verb = "residue" // looks for what earlier programs left in free memory
	Scrub   Verb = "scrub"   // overwrites free memory
)

// Verbs lists the verbs that prove something.
func Verbs() []Verb { return []Verb{Check, Residue, Scrub} }

// Kind says how thoroughly a check tests.
type Kind string

// The kinds of check.
const (
	Quick Kind = "quick" // some seconds
	Long  Kind = "long"  // some minutes: more patterns, repeatedly
)

// Kinds lists every kind.
func Kinds() []Kind { return []Kind{Quick, Long} }

const (
	// Spare is how much of the free memory of a device a check leaves to others.
	Spare gpu.MiB = 512
	// Context is the most memory that the driver takes for the helper process itself.
	Context gpu.MiB = 640
)

// Ask is a request to a helper process.
type Ask struct {
	Verb   Verb    `json:"verb"`
	Kind   Kind    `json:"kind,omitempty"`
	GPU    string  `json:"gpu"`                 // UUID
	Memory gpu.MiB `json:"memory_mb,omitempty"` // most memory to take, Context included; 0 means all free memory less Spare

	// Lease and Fence name the lease that the helper process runs under, if any. The
	// helper process gets them in its environment.
	Lease string `json:"-"`
	Fence uint64 `json:"-"`

	// Plant, for tests, flips one bit of the device's memory before the check, or the
	// look for residue, reads it. They must find it.
	Plant bool `json:"plant,omitempty"`
}

// Room returns how many of the free bytes of a device may be tested.
func (a Ask) Room(free uint64) uint64 {
	room := int64(free) - int64(Spare)<<20
	if a.Memory > 0 {
		room = min(room, int64(a.Memory-Context)<<20)
	}
	return uint64(max(0, room))
}

// Limit returns how long the helper process may take. A device that takes longer hangs.
func (a Ask) Limit() time.Duration {
	if a.Verb == Check && a.Kind == Long {
		return 15 * time.Minute
	}
	return 2 * time.Minute
}

// Verdict is the outcome of a step, or of all of them.
type Verdict string

// The verdicts. A step that is not done yet has none.
const (
	Passed  Verdict = "passed"
	Failed  Verdict = "failed"
	Unasked Verdict = "could_not_be_asked"
)

// Text returns the verdict as people say it.
func (v Verdict) Text() string {
	switch v {
	case Passed, Failed:
		return string(v)
	case Unasked:
		return "could not be asked"
	}
	return "running"
}

// Name names a step.
type Name string

// The steps: those of a check in their order, and those of the other verbs.
const (
	StepMemory  Name = "memory"
	StepCopyIn  Name = "copy_to_device"
	StepCopyOut Name = "copy_from_device"
	StepCompute Name = "compute"
	StepClocks  Name = "clocks"
	StepLink    Name = "link"
	StepErrors  Name = "errors"

	StepResidue Name = "residue"
	StepScrub   Name = "scrub"
)

// Steps lists the steps of a verb in their order.
func Steps(v Verb) []Name {
	switch v {
	case Check:
		return []Name{StepMemory, StepCopyIn, StepCopyOut, StepCompute, StepClocks, StepLink, StepErrors}
	case Residue:
		return []Name{StepResidue}
	case Scrub:
		return []Name{StepScrub}
	}
	return nil
}

// essential lists the steps without which nothing is proved: a device whose
// memory could not be tested has not passed because its clocks are right.
var essential = []Name{StepMemory, StepCompute, StepResidue, StepScrub}

// Text returns the name as people say it.
func (n Name) Text() string {
	switch n {
	case StepCopyIn:
		return "copy to the device"
	case StepCopyOut:
		return "copy from the device"
	case StepErrors:
		return "memory errors"
	}
	return string(n)
}

// Step is one test, finished or not.
type Step struct {
	Name    Name             `json:"name"`
	Verdict Verdict          `json:"verdict,omitempty"`  // empty until it is done
	Done    gpu.Percent      `json:"done,omitempty"`     // progress, until it is done
	Detail  string           `json:"detail,omitempty"`   // the finding, in one sentence without its full stop
	Value   gpu.Opt[float64] `json:"value,omitzero"`     // the measurement
	Norm    gpu.Opt[float64] `json:"norm,omitzero"`      // the expected value
	Unit    string           `json:"unit,omitempty"`     // unit of both
	Memory  gpu.MiB          `json:"memory_mb,omitzero"` // memory that it covered
	Left    int64            `json:"left_bytes,omitzero"`
	Took    float64          `json:"took_seconds,omitzero"`
}

// Result is the result of asking a device.
type Result struct {
	Verb    Verb    `json:"verb"`
	Kind    Kind    `json:"kind,omitempty"`
	GPU     string  `json:"gpu"`
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason"` // why, in one sentence without its full stop
	Steps   []Step  `json:"steps,omitempty"`
	Memory  gpu.MiB `json:"memory_mb"`  // memory that was tested, looked at or overwritten
	Left    int64   `json:"left_bytes"` // bytes that were not zero: after residue, and after scrub
	Took    float64 `json:"took_seconds"`
}

// Judge combines steps into a result. A failed step fails the device. If a step without
// which nothing is proved is absent or could not be asked, the device could not be asked.
func Judge(a Ask, steps []Step, took time.Duration) Result {
	r := Result{Verb: a.Verb, Kind: a.Kind, GPU: a.GPU, Steps: steps, Took: took.Seconds()}
	var missing, failed []string
	for _, name := range Steps(a.Verb) {
		i := slices.IndexFunc(steps, func(s Step) bool { return s.Name == name && s.Verdict != "" })
		switch {
		case i < 0:
			if slices.Contains(essential, name) {
				missing = append(missing, name.Text()+": not tried")
			}
			continue
		case steps[i].Verdict == Failed:
			failed = append(failed, steps[i].say())
		case steps[i].Verdict == Unasked && slices.Contains(essential, name):
			missing = append(missing, steps[i].say())
		}
		r.Memory, r.Left = max(r.Memory, steps[i].Memory), r.Left+steps[i].Left
	}
	switch {
	case len(failed) > 0:
		r.Verdict, r.Reason = Failed, words.And(failed)
	case len(missing) > 0 || len(steps) == 0:
		r.Verdict, r.Reason = Unasked, words.And(missing)
	default:
		r.Verdict, r.Reason = Passed, passed(a, r)
	}
	return r
}

// say returns the step with its finding.
func (s Step) say() string {
	if s.Detail == "" {
		return s.Name.Text() + ": " + s.Verdict.Text()
	}
	return s.Name.Text() + ": " + s.Detail
}

// passed describes a result without complaint.
func passed(a Ask, r Result) string {
	switch a.Verb {
	case Residue:
		return "nothing is left in " + r.Memory.String() + " of free memory"
	case Scrub:
		return r.Memory.String() + " of free memory were overwritten"
	}
	var not []string
	for _, s := range r.Steps {
		if s.Verdict == Unasked {
			not = append(not, s.Name.Text())
		}
	}
	text := r.Memory.String() + " of memory and the computation are right"
	if len(not) > 0 {
		text += "; not asked: " + words.And(not)
	}
	return text
}

// Unable returns the result for a device that could not be asked, with the steps
// that were done before.
func Unable(a Ask, steps []Step, why string, took time.Duration) Result {
	r := Judge(a, steps, took)
	if r.Verdict != Failed {
		r.Verdict, r.Reason = Unasked, why
	}
	return r
}

// Broke returns the result for a device that kept the helper process from finishing.
func Broke(a Ask, steps []Step, why string, took time.Duration) Result {
	r := Judge(a, steps, took)
	if r.Verdict == Failed {
		why = r.Reason + "; then " + why
	}
	r.Verdict, r.Reason = Failed, why
	return r
}
