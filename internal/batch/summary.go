package batch

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Summary describes a run at its end.
type Summary struct {
	Stage    string       `json:"stage"`
	Records  int64        `json:"records"`     // records with an outcome, earlier runs included
	Before   int64        `json:"done_before"` // records that earlier runs did
	Failed   int64        `json:"failed"`      // records whose outcome is an error
	Marked   int64        `json:"marked"`      // records that broke workers in this run
	Retries  int64        `json:"retries"`
	Restarts int64        `json:"restarts"`
	Seconds  float64      `json:"seconds"`         // how long this run took
	Error    string       `json:"error,omitempty"` // why it did not reach its end
	GPUs     []GPUSummary `json:"gpus"`

	// Energy is the energy that the workers of this run used, above what the devices draw
	// by themselves. It is absent if nobody measured it. The caller of the run sets it
	// with Bill.
	Energy    gpu.Opt[gpu.Joules] `json:"energy_joules,omitzero"`
	PerRecord gpu.Opt[gpu.Joules] `json:"joules_per_record,omitzero"`
}

// Bill adds the energy that the workers used.
func (s *Summary) Bill(used gpu.Opt[gpu.Joules]) {
	s.Energy = used
	if records := s.Records - s.Before; used.Known() && records > 0 {
		s.PerRecord = gpu.Some(used.Or(0) / gpu.Joules(records))
	}
}

// GPUSummary describes the part of one GPU in a run.
type GPUSummary struct {
	GPU
	Records  int64   `json:"records"`
	Failed   int64   `json:"failed"`
	Restarts int64   `json:"restarts"`
	Rate     float64 `json:"records_per_second"` // over the whole run
	Busy     float64 `json:"busy_seconds"`       // total time that its workers were at work
	Trouble  string  `json:"trouble,omitempty"`  // what was wrong with it, to follow its name, if workers left for that
}

// Took returns how long this run took.
func (s Summary) Took() time.Duration { return time.Duration(s.Seconds * float64(time.Second)) }

func (r *Run) summary(err error) Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Summary{
		Stage: r.tally.stage, Records: r.before + r.tally.done, Before: r.before, Failed: r.tally.failed, Marked: r.tally.marked,
		Retries: r.tally.retries, Restarts: r.tally.restarts, Seconds: r.tally.ended.Sub(r.tally.started).Seconds(),
	}
	if err != nil {
		s.Error = err.Error()
	}
	for _, c := range r.staff.cards {
		g := GPUSummary{GPU: c.gpu, Records: c.done, Failed: c.failed, Restarts: c.restarts, Busy: c.busy.Seconds(), Trouble: c.trouble}
		if s.Seconds > 0 {
			g.Rate = float64(c.done) / s.Seconds
		}
		s.GPUs = append(s.GPUs, g)
	}
	slices.SortFunc(s.GPUs, func(a, b GPUSummary) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID))
	})
	return s
}
