package proof_test

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/proof"
)

// step returns a step that is done.
func step(name proof.Name, v proof.Verdict, detail string) proof.Step {
	return proof.Step{Name: name, Verdict: v, Detail: detail}
}

func TestJudge(t *testing.T) {
	memory, compute := proof.Memory(1024, 4, proof.Wrong{}), proof.Compute(64, proof.Wrong{})
	for name, c := range map[string]struct {
		verb    proof.Verb
		steps   []proof.Step
		verdict proof.Verdict
		reason  string
	}{
		"all passed": {
			proof.Check, []proof.Step{memory, compute}, proof.Passed, "1 GiB of memory and the computation are right",
		},
		"some could not be asked": {
			proof.Check, []proof.Step{memory, compute, proof.Link{}.Step(), proof.Clocks{}.Step()}, proof.Passed,
			"1 GiB of memory and the computation are right; not asked: link and clocks",
		},
		"memory could not be asked": {
			proof.Check, []proof.Step{proof.Memory(0, 0, proof.Wrong{}), compute}, proof.Unasked, "memory: no memory is free",
		},
		"a step was never done": {
			proof.Check, []proof.Step{memory, {Name: proof.StepCompute, Done: 50}}, proof.Unasked, "compute: not tried",
		},
		"one failed, another could not be asked": {
			proof.Check, []proof.Step{proof.Memory(0, 0, proof.Wrong{}), step(proof.StepCompute, proof.Failed, "wrong")}, proof.Failed, "compute: wrong",
		},
		"two failed": {
			proof.Check, []proof.Step{memory, compute, step(proof.StepLink, proof.Failed, "x4"), step(proof.StepClocks, proof.Failed, "")}, proof.Failed,
			"clocks: failed and link: x4",
		},
		"nothing":         {proof.Check, nil, proof.Unasked, "memory: not tried and compute: not tried"},
		"nothing is left": {proof.Residue, []proof.Step{proof.Look(2048, 0)}, proof.Passed, "nothing is left in 2 GiB of free memory"},
		"residue": {
			proof.Residue, []proof.Step{proof.Look(2048, 1)}, proof.Failed, "residue: 1 byte of 2 GiB that earlier programs may have written",
		},
		"scrubbed":    {proof.Scrub, []proof.Step{proof.Scrubbed(2048, 0)}, proof.Passed, "2 GiB of free memory were overwritten"},
		"no room":     {proof.Scrub, []proof.Step{proof.Scrubbed(0, 0)}, proof.Unasked, "scrub: no memory is free"},
		"other steps": {proof.Scrub, []proof.Step{memory}, proof.Unasked, "scrub: not tried"},
	} {
		t.Run(name, func(t *testing.T) {
			r := proof.Judge(proof.Ask{Verb: c.verb, GPU: "GPU-1"}, c.steps, 3*time.Second)
			if r.Verdict != c.verdict || r.Reason != c.reason || r.GPU != "GPU-1" || r.Took != 3 {
				t.Errorf("%+v; want %s: %s", r, c.verdict, c.reason)
			}
		})
	}
}

// A device that failed stays failed, whatever happened afterwards.
func TestFailureStays(t *testing.T) {
	ask := proof.Ask{Verb: proof.Check}
	failed := []proof.Step{proof.Memory(1024, 1, proof.Wrong{Count: 1})}
	if r := proof.Unable(ask, failed, "the driver has gone", 0); r.Verdict != proof.Failed {
		t.Errorf("%+v", r)
	}
	if r := proof.Unable(ask, nil, "the driver has gone", 0); r.Verdict != proof.Unasked || r.Reason != "the driver has gone" {
		t.Errorf("%+v", r)
	}
	r := proof.Broke(ask, failed, "it crashed", 0)
	if r.Verdict != proof.Failed || !strings.HasPrefix(r.Reason, "memory: 1 word of 1 GiB is wrong") || !strings.HasSuffix(r.Reason, "; then it crashed") {
		t.Errorf("%+v", r)
	}
	if r := proof.Broke(ask, nil, "it crashed", 0); r.Verdict != proof.Failed || r.Reason != "it crashed" {
		t.Errorf("%+v", r)
	}
}

func TestSteps(t *testing.T) {
	gen5 := proof.Link{Generation: 5, Width: 16, MostGeneration: 5, MostWidth: 16}
	clocks := func(now, most gpu.MHz, reasons ...gpu.ThrottleReason) proof.Step {
		return proof.Clocks{SM: gpu.Some(now), Most: gpu.Some(most), Reasons: append([]gpu.ThrottleReason{}, reasons...)}.Step()
	}
	none := proof.Errors{Corrected: gpu.Some(int64(7)), Uncorrected: gpu.Some(int64(0)), Pending: gpu.Some(false)}
	with := func(change func(*proof.Errors)) proof.Errors {
		e := none
		change(&e)
		return e
	}
	for name, c := range map[string]struct {
		step    proof.Step
		verdict proof.Verdict
		detail  string
	}{
		"memory":        {proof.Memory(4096, 6, proof.Wrong{}), proof.Passed, "4 GiB, 6 patterns"},
		"memory, wrong": {proof.Memory(4096, 6, proof.Wrong{Count: 3, At: 0x1000, Expected: 0xffffffff, Found: 0xfffffffe}), proof.Failed, "3 words of 4 GiB are wrong, the first at byte 0x1000: expected 0xffffffff, found 0xfffffffe"},
		"no memory":     {proof.Memory(0, 0, proof.Wrong{}), proof.Unasked, "no memory is free"},

		"copy":                 {proof.Copy(proof.StepCopyIn, 54.96, gen5, proof.Wrong{}), proof.Passed, "55.0 GB/s of 63.0"},
		"slow":                 {proof.Copy(proof.StepCopyIn, 20, gen5, proof.Wrong{}), proof.Failed, "slow link: 20.0 GB/s of 63.0"},
		"copy, beside another": {proof.Copy(proof.StepCopyIn, 25, gen5, proof.Wrong{}), proof.Passed, "25.0 GB/s of 63.0"},
		"copy, no norm":        {proof.Copy(proof.StepCopyOut, 25, proof.Link{}, proof.Wrong{}), proof.Passed, "25.0 GB/s; how fast the link should be is not known"},
		"PCIe to come":         {proof.Copy(proof.StepCopyOut, 25, proof.Link{MostGeneration: 9, MostWidth: 16}, proof.Wrong{}), proof.Passed, "25.0 GB/s; how fast the link should be is not known"},
		"copied otherwise":     {proof.Copy(proof.StepCopyIn, 55, gen5, proof.Wrong{Count: 1, Found: 1}), proof.Failed, "1 word is wrong, the first at byte 0x0: expected 0x00000000, found 0x00000001"},

		"compute":        {proof.Compute(1000, proof.Wrong{}), proof.Passed, "1000 results"},
		"compute, wrong": {proof.Compute(1000, proof.Wrong{Count: 2, At: 8}), proof.Failed, "2 results of 1000 are wrong, the first at byte 0x8: expected 0x00000000, found 0x00000000"},

		"clock":               {clocks(1980, 1980), proof.Passed, "1980 of 1980 MHz while it computed"},
		"clock, capped":       {clocks(800, 1980, gpu.ThrottlePowerCap, gpu.ThrottleIdle), proof.Passed, "800 of 1980 MHz while it computed, because of power_cap"},
		"clock, stuck":        {clocks(345, 1980), proof.Failed, "the clock is stuck: 345 of 1980 MHz while it computed, and the driver gives no reason"},
		"clock, stuck, idle":  {clocks(345, 1980, gpu.ThrottleIdle), proof.Failed, "the clock is stuck: 345 of 1980 MHz while it computed, and the driver gives no reason"},
		"clock, no reasons":   {proof.Clocks{SM: gpu.Some(gpu.MHz(345)), Most: gpu.Some(gpu.MHz(1980))}.Step(), proof.Unasked, "345 of 1980 MHz while it computed; the driver does not tell why"},
		"clock, most unknown": {proof.Clocks{SM: gpu.Some(gpu.MHz(345))}.Step(), proof.Unasked, "the driver does not tell the clock"},

		"link":            {gen5.Step(), proof.Passed, "PCIe generation 5 with 16 lanes; 5 with 16 are possible"},
		"link, lanes":     {proof.Link{Generation: 5, Width: 4, MostGeneration: 5, MostWidth: 16}.Step(), proof.Failed, "PCIe generation 5 with 4 lanes; 5 with 16 are possible"},
		"link, slow":      {proof.Link{Generation: 1, Width: 16, MostGeneration: 4, MostWidth: 16}.Step(), proof.Failed, "PCIe generation 1 with 16 lanes; 4 with 16 are possible"},
		"link, not known": {proof.Link{Width: 16, MostWidth: 16}.Step(), proof.Unasked, "the driver does not tell the link"},

		"errors":              {proof.Grown(none, none), proof.Passed, "none came during the check"},
		"errors, corrected":   {proof.Grown(none, with(func(e *proof.Errors) { e.Corrected = gpu.Some(int64(9)) })), proof.Passed, "2 corrected errors came during the check"},
		"errors, uncorrected": {proof.Grown(none, with(func(e *proof.Errors) { e.Uncorrected = gpu.Some(int64(1)) })), proof.Failed, "1 uncorrected error came during the check"},
		"errors, pending":     {proof.Grown(none, with(func(e *proof.Errors) { e.Pending = gpu.Some(true) })), proof.Failed, "broken memory waits to be replaced; reset the device"},
		"errors, broken":      {proof.Grown(none, with(func(e *proof.Errors) { e.Broken = gpu.Some(true) })), proof.Failed, "memory is broken, and there is nothing left to replace it with; have the device exchanged"},
		"errors, reset":       {proof.Grown(none, proof.Errors{Corrected: gpu.Some(int64(0))}), proof.Passed, "none came during the check"},
		"errors, not counted": {proof.Grown(proof.Errors{}, proof.Errors{}), proof.Unasked, "the device does not count them"},

		"nothing is left":   {proof.Look(1024, 0), proof.Passed, "all of 1 GiB is zero"},
		"nothing looked at": {proof.Look(0, 0), proof.Unasked, "no memory is free"},
		"scrubbed":          {proof.Scrubbed(1024, 0), proof.Passed, "1 GiB overwritten"},
		"not scrubbed":      {proof.Scrubbed(1024, 4), proof.Failed, "4 bytes of 1 GiB are not zero after they were overwritten"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.step.Verdict != c.verdict || c.step.Detail != c.detail {
				t.Errorf("%s: %s; want %s: %s", c.step.Verdict, c.step.Detail, c.verdict, c.detail)
			}
		})
	}
}

func TestEveryStepHasATextAndAPlace(t *testing.T) {
	for _, v := range proof.Verbs() {
		if len(proof.Steps(v)) == 0 || (proof.Ask{Verb: v}).Limit() <= 0 {
			t.Errorf("%s has no steps, or no limit", v)
		}
		for _, s := range proof.Steps(v) {
			if strings.Contains(s.Text(), "_") {
				t.Errorf("%s is shown to people as %s", s, s.Text())
			}
		}
	}
	if quick, long := (proof.Ask{Verb: proof.Check, Kind: proof.Quick}).Limit(), (proof.Ask{Verb: proof.Check, Kind: proof.Long}).Limit(); quick >= long {
		t.Errorf("a quick check may take %v, a long one %v", quick, long)
	}
	for _, v := range []proof.Verdict{proof.Passed, proof.Failed, proof.Unasked, ""} {
		if v.Text() == "" || strings.Contains(v.Text(), "_") {
			t.Errorf("verdict %q is shown to people as %q", v, v.Text())
		}
	}
}
