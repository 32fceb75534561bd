package placement

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Code names a kind of reason; codes are stable.
type Code string

// The codes say why a device is not taken. Only the first that holds is given, except
// that no_slot and no_memory are given together.
const (
	OtherDevice Code = "other_device" // the request names another device
	Unmet       Code = "constraint"   // the request does not allow the device
	Closed      Code = "closed"       // nothing is granted on the device
	TooSmall    Code = "too_small"    // the request would not fit on the device even if it were empty
	BadState    Code = "state"        // the device is CRITICAL or UNAVAILABLE
	NoSlot      Code = "no_slot"      // too few slots are free
	NoMemory    Code = "no_memory"    // too little memory can be leased
	Alone       Code = "exclusive"    // a lease has the device alone, or the request wants it alone
	HeldBack    Code = "held_back"    // the request fits, but the Gate refuses it
)

// Reason says why a request does not get one device.
type Reason struct {
	GPU   string // UUID
	Index int
	Code  Code
	Text  string // one sentence for people, without the device

	Needs gpu.MiB // on the device, where the sentence is about that
}

// NoFitError is the answer to a request that does not fit.
type NoFitError struct {
	Request lease.Request
	Reasons []Reason // by device, in order of index; a device that fits has none
	Fit     int      // number of devices that fit; fewer than were asked for

	// Ever reports whether the request would fit if nobody held anything and every device
	// were well. A request that never fits should not wait.
	Ever bool

	// LargestNow and LargestEver are the most memory per device that the same
	// request could have got, now and on an empty machine; zero if none.
	LargestNow, LargestEver gpu.MiB

	Hint string // one sentence that says what to do
}

func (e *NoFitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "place %s: ", describe(&e.Request))
	if e.Fit == 0 {
		b.WriteString("no device fits")
	} else {
		fmt.Fprintf(&b, "only %d of %d devices fit", e.Fit, e.Request.Devices())
	}
	fmt.Fprintf(&b, " (%s)", e.Hint)
	return b.String()
}

// hint returns a sentence that says what to do. Able is the number of devices that meet
// the constraints and have the slots.
func (s *Snapshot) hint(e *NoFitError, able int) string {
	r := &e.Request
	switch {
	case len(s.devices) == 0:
		return "there is no GPU on this machine"
	case r.Devices() > len(s.devices):
		return fmt.Sprintf("this machine has %s; ask for no more", devices(len(s.devices)))
	case r.Where.GPU != "" && s.pinned(&r.Where) < 0:
		return fmt.Sprintf("there is no device %s on this machine", r.Where.GPU)
	case r.Where.GPU != "" && r.Devices() > 1:
		return fmt.Sprintf("a request for one given device cannot be for %d", r.Devices())
	case r.Where.GPU != "" && s.devices[s.pinned(&r.Where)].Cut() != "":
		whole := &s.devices[s.pinned(&r.Where)]
		return whole.Label() + " is not leased as a whole: " + whole.Cut()
	case !e.Ever && able < r.Devices():
		return fmt.Sprintf("%s of this machine could ever serve it; change the constraints, the slots or the number of devices", devices(able))
	case !e.Ever:
		return fmt.Sprintf("ask for at most %s: more never fits on this machine", e.LargestEver.Exact())
	case e.LargestNow > 0 && r.Exclusive:
		return fmt.Sprintf("wait, or share a device: at most %s would be granted now (--memory)", e.LargestNow.Exact())
	case e.LargestNow > 0 && e.LargestNow < r.Memory:
		return fmt.Sprintf("wait, or ask for at most %s, which would be granted now", e.LargestNow.Exact())
	}
	for i := range e.Reasons { // where only one device can be meant, its reason is the hint
		if (r.Where.GPU != "" || len(s.devices) == 1) && (e.Reasons[i].Code == Closed || e.Reasons[i].Code == BadState || e.Reasons[i].Code == Alone) {
			return "GPU " + strconv.Itoa(e.Reasons[i].Index) + ": " + e.Reasons[i].Text
		}
	}
	return "wait until somebody releases, or until the devices are well again"
}

func describe(r *lease.Request) string {
	var parts []string
	switch {
	case r.Exclusive:
		parts = append(parts, "a device alone")
	case r.Memory > 0:
		parts = append(parts, r.Memory.Exact())
	}
	if r.Slots > 0 && !r.Exclusive {
		parts = append(parts, words.Count(r.Slots, "slot"))
	}
	text := strings.Join(parts, " and ")
	if r.Devices() > 1 {
		text += fmt.Sprintf(" on each of %d devices", r.Devices())
	}
	if where := r.Where.String(); where != "" {
		text += " where " + where
	}
	return text
}

func devices(n int) string {
	if n == 0 {
		return "no device"
	}
	return words.Count(n, "device")
}

// TimeoutError reports a request that was not granted before its deadline.
type TimeoutError struct {
	Request *lease.Request
	Waited  time.Duration
	Refusal *NoFitError // why it did not fit at the deadline; nil if it would have fitted
	Quota   error       // how its service was over its quota at the deadline; nil if it was not
}

func (e *TimeoutError) Error() string {
	text := fmt.Sprintf("%s was not granted within %s", e.Request.ID, e.Lasted())
	if why := e.Why(); why != nil {
		text += ": " + why.Error()
	}
	return text
}

// Why returns what prevented the grant at the deadline, or nil if nothing did.
func (e *TimeoutError) Why() error {
	switch {
	case e.Quota != nil:
		return e.Quota
	case e.Refusal != nil:
		return e.Refusal
	}
	return nil
}

// Lasted returns how long the request waited, in words.
func (e *TimeoutError) Lasted() string { return words.Duration(e.Waited) }

// QueuedError refuses a request that does not wait and would fit, but would delay
// a waiting request.
type QueuedError struct {
	Waiting    int
	LargestNow gpu.MiB // the most memory that would delay nobody; zero if none
}

func (e *QueuedError) Error() string {
	text := fmt.Sprintf("the request would delay one of the %d requests that wait already; wait in turn", e.Waiting)
	if e.Waiting == 1 {
		text = "the request would delay one that waits already; wait in turn"
	}
	if e.LargestNow > 0 {
		text += ", or ask for at most " + e.LargestNow.Exact() + ", which would be granted now"
	}
	return text
}

// ResizeError refuses to make a lease larger.
type ResizeError struct {
	Lease *lease.Lease
	GPU   string  // where there is no room
	Asked gpu.MiB // on each device
	Most  gpu.MiB // the most that the lease could have there now
	Ever  bool    // it would fit if nobody else held anything
	Why   error   // what is in the way of the growth
}

// Has returns the memory that the lease has on the device without room.
func (e *ResizeError) Has() gpu.MiB {
	for _, p := range e.Lease.Parts {
		if p.GPU == e.GPU {
			return p.Memory
		}
	}
	return 0
}

func (e *ResizeError) Error() string {
	why := "there is no room for that now"
	if !e.Ever {
		why = "that never fits there"
	}
	text := fmt.Sprintf("resize %s from %s to %s: %s", e.Lease.ID, e.Has().ExactBeside(e.Asked), e.Asked.ExactBeside(e.Has()), why)
	if e.Most > e.Has() {
		return text + "; ask for at most " + e.Most.Exact() + ", which it can have now"
	}
	return text + ", nor for more than it has"
}

func (e *ResizeError) Unwrap() error { return e.Why }
