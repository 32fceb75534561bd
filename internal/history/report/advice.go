package report

import (
	"cmp"
	"fmt"
	"slices"
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

// tips collects advice.
type tips []api.Advice

func (t *tips) add(code, command, format string, args ...any) {
	*t = append(*t, api.Advice{Code: code, Command: command, Text: fmt.Sprintf(format, args...)})
}

// advice returns what could be done better, the most important first.
func (a *Answers) advice(now time.Time) []api.Advice {
	list := tips{}
	for _, d := range a.Status.GPUs {
		if !d.Well() {
			list.add("unwell", fmt.Sprintf("berth status %d", d.Device.Index), "GPU %d is %s: %s.", d.Device.Index, d.State, d.Reason)
		}
	}
	for _, d := range a.devices() {
		if d.Foreign >= worthwhile {
			list.add("foreign", "berth leases --orphans", "%s of GPU %d is used under no lease.", d.Foreign, d.Index)
		}
	}
	for l, p := range a.measured {
		if used := p.Measured.Or(0); used > p.Memory {
			list.add("over", "berth leases --processes", "%s uses %s on %s and leased %s: it should lease more.", l.ID, used.Beside(p.Memory), a.label(p.GPU), p.Memory.Beside(used))
		}
	}
	hogs := map[string]bool{} // ids of leases about which everything is said
	for _, n := range a.Status.Needs {
		if n.Kind == "hog" {
			hogs[n.Lease] = true
			list.add(n.Kind, n.Next, "%s, for %s.", n.Text, words.Age(now.Sub(*n.Since)))
		}
	}
	for _, w := range a.Leases.Waiting {
		if waits := now.Sub(w.Since); waits >= impatience {
			list.add("waiting", "berth explain "+words.Shell(w.ID), "%s has waited for %s for %s.", w.ID, Amount(w), words.Age(waits))
		}
	}
	for l, p := range a.measured {
		if held := now.Sub(l.Granted); held >= settled && p.Measured.Or(0) == 0 && !hogs[l.ID] {
			next := "berth release "
			if l.Binding == "process" { // a release would leave its program running
				next = "berth cancel "
			}
			list.add("unused", next+words.Shell(l.ID), "%s has leased %s on %s for %s, and nothing under it uses the GPU.", l.ID, p.Memory, a.label(p.GPU), words.Age(held))
		}
	}
	for l, p := range a.measured {
		used := p.Measured.Or(0)
		if used > 0 && 2*used < p.Memory && p.Memory-used >= worthwhile && now.Sub(l.Granted) >= settled && !hogs[l.ID] {
			list.add("oversized", "", "%s leases %s on %s and uses %s of it: it could lease less.", l.ID, p.Memory.Beside(used), a.label(p.GPU), used.Beside(p.Memory))
		}
	}
	for _, d := range a.devices() {
		load, known := d.Utilization.Get()
		if covers := time.Duration(d.Covers * float64(time.Second)); known && load < idle && d.Leased >= worthwhile && covers >= watched {
			list.add("idle", fmt.Sprintf("berth status %d", d.Index), "GPU %d did nothing in the last %s, and %s of it is leased.", d.Index, words.Age(covers), d.Leased)
		}
	}
	for _, m := range a.Measurements.Measurements {
		name := cmp.Or(m.Step, m.Name)
		switch {
		case m.Asked == 0 || m.Next == 0:
		case m.Peak > m.Asked:
			list.add("program", "", "%s asked for %s and used %s: it should ask for %s.", name, m.Asked.Beside(m.Peak, m.Next), m.Peak.Beside(m.Asked, m.Next), m.Next.Beside(m.Asked, m.Peak))
		case m.Asked > 2*m.Peak && m.Asked-m.Next >= worthwhile:
			list.add("program", "", "%s asked for %s and used at most %s: %s is enough.", name, m.Asked.Beside(m.Peak, m.Next), m.Peak.Beside(m.Asked, m.Next), m.Next.Beside(m.Asked, m.Peak))
		}
	}
	return list[:min(len(list), mostAdvice)]
}

// measured yields every part of every lease that holds memory and whose use can be
// measured. Under MPS, a device does not report what its programs use, and what is used of
// a pool is measured for the leases from it.
func (a *Answers) measured(yield func(api.Lease, api.LeasePart) bool) {
	for _, l := range a.Leases.Leases {
		if l.Pool != nil && l.Pool.Leases > 0 {
			continue
		}
		for _, p := range l.Parts {
			if p.Memory > 0 && l.State == "active" && l.EnforcedBy != "mps" && !yield(l, p) {
				return
			}
		}
	}
}

// Amount says how much a request waits for: memory, or slots if it asks for no memory.
func Amount(w api.Waiting) string {
	if w.Memory == 0 {
		return words.Count(w.Slots, "slot")
	}
	return w.Memory.String()
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

// The limits above which advice on a period is worth giving.
const (
	mostPeriodAdvice = 10
	worthHours       = 1.0 // a shorter idle time is a pause
)

// AdvicePeriod returns what could have been done better in a period, the largest
// waste first.
func AdvicePeriod(r *api.PeriodReport) []api.Advice {
	programs := slices.Clone(r.Programs)
	slices.SortStableFunc(programs, func(x, y api.ProgramPeriod) int { return cmp.Compare(y.Measured-y.Used, x.Measured-x.Used) })
	var list tips
	for _, p := range programs {
		if unused := p.Measured - p.Used; 2*p.Used < p.Measured && unused >= float64(worthwhile) {
			list.add("oversized", "", "%s of %s left %.0f %% of the memory that it leased unused, in %s: it could lease less.",
				p.Program, cmp.Or(p.User, "somebody"), 100*unused/p.Measured, words.Count(p.Leases, "lease"))
		}
	}
	slices.SortStableFunc(programs, func(x, y api.ProgramPeriod) int { return cmp.Compare(y.Idle, x.Idle) })
	for _, p := range programs {
		if p.Idle >= worthHours && 2*p.Idle > p.Hours {
			list.add("idle", "", "%s of %s held leases for %.1f hours, and their GPUs did nothing for %.1f of them: it could park, or give its leases back.",
				p.Program, cmp.Or(p.User, "somebody"), p.Hours, p.Idle)
		}
	}
	for _, d := range r.GPUs {
		if hot := d.States[gpu.Throttled] + d.States[gpu.Critical]; d.Measured > 0 && hot > d.Measured/20 {
			list.add("unwell", "", "GPU %d was throttled or critical for %.0f %% of the time: look at its cooling.", d.Index.Or(-1), 100*hot/d.Measured)
		}
	}
	return list[:min(len(list), mostPeriodAdvice)]
}
