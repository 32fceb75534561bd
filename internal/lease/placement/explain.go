package placement

import (
	"fmt"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Explain returns why a request does not fit, in the terms and with the code of Choose,
// or nil if it fits. It is for answers to people: it costs far more than Choose.
func Explain(s *Snapshot, r *lease.Request, gate Gate) *NoFitError {
	n := s.needOf(r, gate)
	e := &NoFitError{Request: *r}
	ready := 0 // devices that could serve it if they were empty
	for i := range s.devices {
		reasons := s.reasons(&n, r, i)
		e.Reasons = append(e.Reasons, reasons...)
		if len(reasons) == 0 {
			e.Fit++
		}
		if s.could(&n, i) {
			ready++
		}
	}
	if e.Fit >= r.Devices() {
		return nil
	}
	ever := s.ceilings(&n)
	e.Ever = ready >= r.Devices()
	e.LargestNow, e.LargestEver = LargestNow(s, r, gate), largest(ever, r.Devices())
	e.Hint = s.hint(e, len(ever))
	return e
}

// reasons returns why a device is not taken. It is empty if takes reports true.
func (s *Snapshot) reasons(n *need, r *lease.Request, i int) []Reason {
	if s.takes(n, i) {
		return nil
	}
	u, d := &s.use[i], &s.devices[i]
	var all []Reason
	because := func(code Code, format string, args ...any) *Reason {
		all = append(all, Reason{GPU: d.UUID, Index: d.Index, Code: code, Text: fmt.Sprintf(format, args...)})
		return &all[len(all)-1]
	}
	switch {
	case n.pinned && i != n.pin:
		because(OtherDevice, "the request is for %s", r.Where.GPU)
	case n.only != nil && !n.only[i]:
		because(Unmet, "the request names the devices that will do, and this is none of them")
	case !s.meets(n, i):
		because(Unmet, "%s", unmetText(&r.Where, &s.models[s.model[i]]))
	case u.Closed != "":
		because(Closed, "nothing is granted here: %s", u.Closed)
	case u.Ceiling < n.memory:
		because(TooSmall, "needs %s and could never have more than %s",
			n.memory.Exact(), max(u.Ceiling, 0).ExactBeside(n.memory)).Needs = n.memory
	case u.MaxPipelines < r.Slots:
		because(TooSmall, "needs %s and has only %d in all", words.Count(r.Slots, "slot"), u.MaxPipelines)
	case u.Alone:
		because(Alone, "is leased to somebody alone")
	case n.alone && u.Leases > 0:
		because(Alone, "has %s, and the request is for a device alone", words.Count(u.Leases, "lease"))
	case s.free[i] < 0:
		because(BadState, "%s", stateText(u))
	case s.hasRoom(n, i):
		because(HeldBack, "%s", s.refusal(n, i))
	default:
		if int(s.free[i]) < r.Slots {
			because(NoSlot, "needs %s%s%s", words.Count(r.Slots, "slot"), taken(u), fewer(u))
		}
		if s.room[i] < n.memory {
			because(NoMemory, "needs %s and has %s", n.memory.ExactBeside(s.room[i]), s.room[i].ExactBeside(n.memory)).Needs = n.memory
		}
	}
	return all
}

// taken says how many of the usable slots of a device are taken, after what is needed.
func taken(u *Use) string {
	switch {
	case u.Active < u.Usable:
		return fmt.Sprintf("; %d of %d are taken", u.Active, u.Usable)
	case u.Usable == 1:
		return ", and its only one is taken"
	}
	return fmt.Sprintf(", and all %d are taken", u.Usable)
}

// fewer returns a note that a device has more slots than can be used now, or "" if it has
// not.
func fewer(u *Use) string {
	if u.Usable >= u.MaxPipelines {
		return ""
	}
	if u.Slower != "" {
		return fmt.Sprintf(" (of %d: %s)", u.MaxPipelines, u.Slower)
	}
	return fmt.Sprintf(" (of %d, while it is %s or not fully trusted)", u.MaxPipelines, u.State)
}

func stateText(u *Use) string {
	text := "the device is " + string(u.State)
	if u.Reason != "" {
		text += ": " + u.Reason
	}
	return text
}

func unmetText(w *gpu.Where, m *gpu.Model) string {
	switch w.Unmet(m) {
	case "vendor":
		return fmt.Sprintf("it is made by %s, not by %s", m.Vendor, w.Vendor)
	case "name":
		if w.Like {
			return fmt.Sprintf("its name is %s, which is not like %s", m.Name, w.Name)
		}
		return fmt.Sprintf("its name is %s, not %s", m.Name, w.Name)
	case "cc":
		if m.CC == (gpu.Capability{}) {
			return fmt.Sprintf("it has no compute capability, and %s or more is asked for", w.CC)
		}
		return fmt.Sprintf("its compute capability is %s, below %s", m.CC, w.CC)
	case "confidential":
		if m.Confidential == "" {
			return "its driver does not say whether it is in confidential mode"
		}
		return fmt.Sprintf("its confidential mode is %s, not %s", m.Confidential, w.Confidential)
	}
	return fmt.Sprintf("it has %s of memory, less than %s", m.Memory.Beside(w.MinMemory), w.MinMemory.Beside(m.Memory))
}

// Explanation says whether a request would be granted, and what is in its way.
type Explanation struct {
	Refusal  *NoFitError // nil if it would be granted now
	Quota    error       // how the service is over its quota; nil if it is not
	Position int         // in the queue, from 1; 0 if it does not wait
	Ahead    []*lease.Request
	Holdings map[string][]lease.Holding // by device: who holds it
	Foreign  map[string]ForeignUse      // by device: who uses it under no lease
	Grant    *lease.Lease               // the lease that it would get now; nil if none
	Policy   string                     // the policy that chooses
	Ranking  []Place                    // every device, in the order in which the request would get them

	// LargestNow and LargestEver are the most memory on each device that the same request
	// could have, now and on an empty machine; zero if none.
	LargestNow, LargestEver gpu.MiB
}

// ForeignUse is the memory that processes under no lease use on a device.
type ForeignUse struct {
	Memory gpu.MiB
	PIDs   []int
}
