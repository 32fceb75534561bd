package launch

import (
	"fmt"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Receipt says which limits an environment enforces on a program, and which it does not.
type Receipt struct {
	EnforcedBy string   `json:"enforced_by"`
	IsolatedBy string   `json:"isolated_by"`
	ClearedBy  string   `json:"cleared_by,omitempty"`
	Held       []string `json:"held,omitempty"` // one sentence each
	Gaps       []string `json:"gaps,omitempty"`

	Sentence string   `json:"-"` // what limits the memory of the program
	limited  []string // the names of the libraries that enforce the limit themselves
}

func (r *Receipt) hold(format string, args ...any) {
	r.Held = append(r.Held, fmt.Sprintf(format, args...))
}
func (r *Receipt) miss(format string, args ...any) {
	r.Gaps = append(r.Gaps, fmt.Sprintf(format, args...))
}

// summarize writes the sentence of the receipt, when the libraries that enforce the limit
// themselves are known. memory is that of the lease on each device, and context the part
// of it that a CUDA context takes.
func (r *Receipt) summarize(l api.Lease, memory, context gpu.MiB) {
	amount := memory.String()
	if len(l.Parts) > 1 {
		amount += " on each device"
	}
	switch {
	case memory == 0:
		r.Sentence = "It is a lease of slots, without memory to be held to."
	case r.EnforcedBy == MPS:
		r.Sentence = fmt.Sprintf("The driver refuses a CUDA process more than %s; the sum of several processes is measured, and not refused.", amount)
	case r.EnforcedBy == Framework && len(r.limited) > 0:
		r.Sentence = fmt.Sprintf("%s %s at most %s of the %s; what other libraries and programs take is measured, and not refused.",
			words.And(r.limited), words.Form(len(r.limited), "takes", "take"), poolOf(memory, context), amount)
	case r.EnforcedBy == Framework, r.EnforcedBy == Watchdog:
		r.Sentence = fmt.Sprintf("Nothing refuses memory: what its processes take is measured, and held against %s.", amount)
	default:
		r.Sentence = fmt.Sprintf("Nothing holds it to %s.", amount)
	}
}
