package lease

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// The limits of a request.
const (
	MaxIDLength = words.MaxText    // characters
	MaxMemory   = gpu.MiB(1) << 30 // on one device: a PiB
	MaxSlots    = 1 << 16          // on one device
	MaxGPUs     = 1 << 16
	MaxScope    = 256       // names in a scope: as many pods may share a Kubernetes claim
	MaxPriority = 1_000_000 // the least is −MaxPriority
	MinTTL      = time.Second
	MaxTTL      = 30 * 24 * time.Hour
	MaxWait     = 30 * 24 * time.Hour // from Requested to Deadline, without what it had waited before; see Request.Since
)

// FieldError refuses the value of one field. Field is its name in the API.
type FieldError struct {
	Field  string
	Detail string // what is wrong and what is allowed
}

func (e FieldError) Error() string { return e.Field + ": " + e.Detail }

// FieldErrors lists everything that is wrong with a request.
type FieldErrors []FieldError

func (e FieldErrors) Error() string {
	texts := make([]string, len(e))
	for i, one := range e {
		texts[i] = one.Error()
	}
	return "request: " + strings.Join(texts, "; ")
}

// MemoryProblem returns what is wrong with an amount of memory, which must be at least
// this; "" if nothing is.
func MemoryProblem(m, least gpu.MiB) string {
	if m < least || m > MaxMemory {
		return fmt.Sprintf("is %d; it must be a whole number from %d to %d", int64(m), int64(least), int64(MaxMemory))
	}
	return ""
}

// Validate returns everything that is wrong with a request, as FieldErrors; nil
// if nothing is.
func (r *Request) Validate() error {
	var errs FieldErrors
	refuse := func(field, detail string) {
		if detail != "" {
			errs = append(errs, FieldError{field, detail})
		}
	}
	refuse("allocation_id", words.TextProblem(r.ID))
	if r.Holder.Service != "" {
		refuse("service", words.TextProblem(r.Holder.Service))
	}
	if r.Parent != "" {
		refuse("parent", words.TextProblem(r.Parent))
	}
	refuse("memory_mb", MemoryProblem(r.Memory, 0))
	refuse("slots", words.NumberProblem(r.Slots, 0, MaxSlots))
	if r.Memory == 0 && r.Slots == 0 && r.Parent == "" && r.Exact == nil {
		refuse("memory_mb", "is zero, and slots is zero too; ask for memory, slots or both")
	}
	refuse(r.poolProblem(r.Parent, max(r.GPUs, 1), r.Memory))
	if r.Pool && r.Exact != nil {
		refuse("pool", "is set beside parts; ask for a pool with memory_mb")
	}
	switch {
	case !r.Exclusive:
	case r.Parent != "":
		refuse("exclusive", "is set for a child; a child shares the devices of its parent")
	case r.Exact != nil:
		refuse("exclusive", "is set beside parts, which say all about the devices; leave it out")
	case r.Slots == 0 && r.Into == 0:
		refuse("slots", "is zero; an exclusive lease has at least one")
	}
	refuse("gpus", words.NumberProblem(r.GPUs, 1, MaxGPUs))
	if r.Priority != First || r.Into == 0 {
		refuse("priority", words.NumberProblem(r.Priority, -MaxPriority, MaxPriority))
	}
	refuse(bindingProblem(r.Binding, r.TTL, r.Holder))
	refuse("time_limit_seconds", timeLimitProblem(r.TimeLimit))
	r.Terms.validate(refuse)
	if wait := r.Deadline.Sub(r.Requested); wait < 0 || r.Into == 0 && !r.Requested.Equal(r.Since) {
		refuse("timeout_seconds", words.TimeProblem(wait, 0, MaxWait))
	}
	if errs == nil {
		return nil
	}
	return errs
}

func bindingProblem(b Binding, ttl time.Duration, h Holder) (field, detail string) {
	switch b {
	case ByTTL:
		return "ttl_seconds", TTLProblem(ttl)
	case ByProcess:
		if h.PID <= 0 || h.Boot == "" {
			return "binding", "is process, but the process is not known; use a ttl or a named lease"
		}
	case ByName:
	default:
		return "binding", fmt.Sprintf("is %q; it must be process, ttl or named", string(b))
	}
	if ttl != 0 {
		return "ttl_seconds", fmt.Sprintf("is set, but a %s lease has no time to live", string(b))
	}
	return "", ""
}

// TTLProblem returns what is wrong with a time to live; "" if nothing is.
func TTLProblem(ttl time.Duration) string { return words.TimeProblem(ttl, MinTTL, MaxTTL) }

// Seconds converts a number of seconds from outside to a duration. It converts a
// number beyond all durations to the longest or the shortest duration, which
// Validate refuses, and never to one that looks right.
func Seconds(n float64) time.Duration {
	switch d := n * float64(time.Second); {
	case d >= math.MaxInt64:
		return math.MaxInt64
	case d > math.MinInt64:
		return time.Duration(d)
	}
	return math.MinInt64 // also for NaN
}
