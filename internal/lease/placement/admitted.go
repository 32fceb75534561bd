package placement

import (
	"fmt"
	"strings"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Target is a device that a request with exact parts names.
type Target struct {
	*Observation
	lease.Sum
	Most gpu.MiB // memory that could be leased at some time
}

// ExactError refuses a request that says exactly what it wants on each device.
type ExactError struct {
	ID      string
	Reasons []Reason // in the order of its parts
	Ever    bool     // the request would fit if nobody held anything and every device were well
}

func (e *ExactError) Error() string {
	texts := make([]string, len(e.Reasons))
	for i, r := range e.Reasons {
		texts[i] = fmt.Sprintf("GPU %d (%s) %s", r.Index, r.GPU, r.Text)
	}
	return fmt.Sprintf("lease %s exactly: %s", e.ID, strings.Join(texts, "; "))
}

// Exactly returns an error if a request cannot have exactly its parts now, regardless of
// the queue. Look returns the device with a UUID, or false if there is none.
func Exactly(r *lease.Request, look func(uuid string) (Target, bool)) error {
	e := &ExactError{ID: r.ID, Ever: true}
	for _, p := range r.Exact {
		target, known := look(p.GPU)
		if !known {
			return fmt.Errorf("lease %s exactly: %w: %s", r.ID, lease.ErrDevice, p.GPU)
		}
		e.Reasons = append(e.Reasons, target.reasons(p)...)
		e.Ever = e.Ever && p.Memory <= target.Most && p.Slots <= target.MaxPipelines
	}
	if len(e.Reasons) > 0 {
		return e
	}
	return nil
}

// reasons returns why a request cannot have a part on the device.
func (t *Target) reasons(p lease.Part) (all []Reason) {
	because := func(code Code, format string, args ...any) *Reason {
		all = append(all, Reason{GPU: p.GPU, Index: t.Device.Index, Code: code, Text: fmt.Sprintf(format, args...)})
		return &all[len(all)-1]
	}
	barred := t.Barred()
	switch {
	case barred != "":
		because(Closed, "grants nothing: %s", barred)
	case t.Alone > 0:
		because(Alone, "grants nothing: a lease has it alone")
	case p.Memory > t.Most:
		because(TooSmall, "can never lease %s: it has %s at most",
			p.Memory.ExactBeside(max(t.Most, 0)), max(t.Most, 0).ExactBeside(p.Memory)).Needs = p.Memory
	default:
		if p.Slots > 0 && t.Active+p.Slots > t.MaxPipelines {
			because(NoSlot, "cannot lease %s: %d of %d are taken", words.Count(p.Slots, "slot"), t.Active, t.MaxPipelines)
		}
		if p.Memory > t.Available() {
			because(NoMemory, "cannot lease %s: it has %s left",
				p.Memory.ExactBeside(max(t.Available(), 0)), max(t.Available(), 0).ExactBeside(p.Memory)).Needs = p.Memory
		}
	}
	return all
}
