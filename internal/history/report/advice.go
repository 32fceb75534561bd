package report

import (
	"cmp"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// The limits above which advice is worth giving.
const (
	settled    = 10 * time.Minute // a younger lease may still load its model
	impatience = time.Minute      // a request that waits longer has a reason
	worthwhile = gpu.MiB(1024)    // less memory is not worth mentioning
	watched    = 5 * time.Minute  // a device that was seen for less may have had a pause
	idle       = 1                // percent
	mostAdvice = 20
)

// advice returns what could be done better, the most important first.
func (a *Answers) advice(now time.Time) []api.Advice {
	list := []api.Advice{}
	for _, more := range [][]api.Advice{a.unwell(), a.foreign(), a.over(), a.waiting(now), a.unused(now), a.oversized(now), a.idle(), a.programs()} {
		list = append(list, more...)
	}
	return list[:min(len(list), mostAdvice)]
}

func (a *Answers) unwell() (list []api.Advice) {
	for _, d := range a.Status.GPUs {
		if !d.Well() {
			list = append(list, api.Advice{
				Code: "unwell", Text: fmt.Sprintf("GPU %d is %s: %s.", d.Device.Index, d.State, d.Reason),
				Command: fmt.Sprintf("berth status %d", d.Device.Index),
			})
		}
	}
	return list
}

func (a *Answers) foreign() (list []api.Advice) {
	for _, d := range a.devices() {
		if d.Foreign >= worthwhile {
			list = append(list, api.Advice{
				Code: "foreign", Text: fmt.Sprintf("%s of GPU %d is used under no lease.", d.Foreign, d.Index), Command: "berth leases --orphans",
			})
		}
	}
	return list
}

// each calls f with every part of every lease that holds memory and whose use
// can be measured. Under MPS, a device does not report what its programs use.
func (a *Answers) each(f func(l api.Lease, p api.LeasePart)) {
	for _, l := range a.Leases.Leases {
		for _, p := range l.Parts {
			if p.Memory > 0 && l.State == "active" && l.EnforcedBy != "mps" {
				f(l, p)
			}
		}
	}
}

func (a *Answers) over() (list []api.Advice) {
	a.each(func(l api.Lease, p api.LeasePart) {
		if used := p.Measured.Or(0); used > p.Memory {
			list = append(list, api.Advice{
				Code: "over", Text: fmt.Sprintf("%s uses %s on %s and leased %s: it should lease more.", l.ID, used, a.label(p.GPU), p.Memory),
				Command: "berth leases --processes",
			})
		}
	})
	return list
}

func (a *Answers) waiting(now time.Time) (list []api.Advice) {
	for _, w := range a.Leases.Waiting {
		if waits := now.Sub(w.Since); waits >= impatience {
			list = append(list, api.Advice{
				Code: "waiting", Text: fmt.Sprintf("%s has waited for %s for %s.", w.ID, amount(w), words.Age(waits)), Command: "berth explain " + words.Shell(w.ID),
			})
		}
	}
	return list
}

func amount(w api.Waiting) string {
	if w.Memory == 0 {
		return words.Count(w.Slots, "slot")
	}
	return w.Memory.String()
}

func (a *Answers) unused(now time.Time) (list []api.Advice) {
	a.each(func(l api.Lease, p api.LeasePart) {
		if held := now.Sub(l.Granted); held >= settled && p.Measured.Or(0) == 0 {
			list = append(list, api.Advice{
				Code: "unused", Text: fmt.Sprintf("%s has leased %s on %s for %s, and nothing under it uses the GPU.", l.ID, p.Memory, a.label(p.GPU), words.Age(held)),
				Command: "berth release " + words.Shell(l.ID),
			})
		}
	})
	return list
}

func (a *Answers) oversized(now time.Time) (list []api.Advice) {
	a.each(func(l api.Lease, p api.LeasePart) {
		used := p.Measured.Or(0)
		if used > 0 && 2*used < p.Memory && p.Memory-used >= worthwhile && now.Sub(l.Granted) >= settled {
			list = append(list, api.Advice{
				Code: "oversized", Text: fmt.Sprintf("%s leases %s on %s and uses %s of it: it could lease less.", l.ID, p.Memory, a.label(p.GPU), used),
			})
		}
	})
	return list
}

func (a *Answers) idle() (list []api.Advice) {
	for _, d := range a.devices() {
		load, known := d.Utilization.Get()
		if covers := time.Duration(d.Covers * float64(time.Second)); known && load < idle && d.Leased >= worthwhile && covers >= watched {
			list = append(list, api.Advice{
				Code:    "idle",
				Text:    fmt.Sprintf("GPU %d did nothing in the last %s, and %s of it is leased.", d.Index, words.Age(covers), d.Leased),
				Command: fmt.Sprintf("berth status %d", d.Index),
			})
		}
	}
	return list
}

func (a *Answers) programs() (list []api.Advice) {
	for _, m := range a.Measurements.Measurements {
		name := cmp.Or(m.Step, m.Name)
		switch {
		case m.Asked == 0 || m.Next == 0:
		case m.Peak > m.Asked:
			list = append(list, api.Advice{Code: "program", Text: fmt.Sprintf("%s asked for %s and used %s: it should ask for %s.", name, m.Asked, m.Peak, m.Next)})
		case m.Asked > 2*m.Peak && m.Asked-m.Next >= worthwhile:
			list = append(list, api.Advice{Code: "program", Text: fmt.Sprintf("%s asked for %s and used at most %s: %s is enough.", name, m.Asked, m.Peak, m.Next)})
		}
	}
	return list
}

// label returns the name of a device for people.
func (a *Answers) label(uuid string) string {
	for _, d := range a.Status.GPUs {
		if d.Device.UUID == uuid {
			return fmt.Sprintf("GPU %d", d.Device.Index)
		}
	}
	return uuid
}
