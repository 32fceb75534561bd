package report

import (
	"cmp"
	"slices"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

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
