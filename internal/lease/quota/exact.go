package quota

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/text/words"
)

// AdmitExactly applies the settings of its service to a request that says exactly
// what it wants on each device. It does what Admit does, but refuses a part below the
// minimum of the service instead of raising it. Used is what the service has in use.
func (s *Settings) AdmitExactly(r lease.Request, used lease.Usage) (lease.Request, error) {
	if err := s.Knows(r.Holder.Service); err != nil {
		return r, err
	}
	served, known := s.Services[r.Holder.Service]
	if !known {
		return r, nil
	}
	service := served.Service
	for _, p := range r.Exact {
		refuse := func(err error, limit gpu.MiB, text string) error {
			return &AdmitError{
				Service: service.Name, Err: err, Asked: lease.Usage{Memory: p.Memory}, Limit: lease.Usage{Memory: limit},
				Text: fmt.Sprintf("%s on %s is %s of %s", p.Memory.ExactBeside(limit), p.GPU, text, limit.ExactBeside(p.Memory)),
			}
		}
		switch {
		case service.MaxMemory > 0 && p.Memory > service.MaxMemory:
			return r, refuse(ErrMaxMemory, service.MaxMemory, "more than its max_memory_mb")
		case p.Memory < service.MinMemory:
			return r, refuse(ErrMinMemory, service.MinMemory, "less than its min_memory_mb")
		}
	}
	service.MinMemory = 0 // Memory says nothing
	return Admit(service, r, used)
}

// CheckParts returns everything that is wrong with a request and its parts, as
// lease.FieldErrors; nil if nothing is.
func CheckParts(r *lease.Request) error {
	var errs lease.FieldErrors
	if errors.As(r.Validate(), &errs); len(r.Exact) == 0 {
		errs = append(errs, lease.FieldError{Field: "parts", Detail: "is empty"})
	}
	for i, p := range r.Exact {
		refuse := func(name, detail string) {
			if detail != "" {
				errs = append(errs, lease.FieldError{Field: fmt.Sprintf("parts[%d].%s", i, name), Detail: detail})
			}
		}
		refuse("gpu", words.TextProblem(p.GPU))
		if p.Memory != 0 {
			refuse("memory_mb", lease.MemoryProblem(p.Memory, 1))
		}
		refuse("slots", words.NumberProblem(p.Slots, 0, lease.MaxSlots))
		if p.Memory == 0 && p.Slots == 0 {
			refuse("memory_mb", "is zero, and slots is zero too; ask for memory, slots or both")
		}
		if slices.ContainsFunc(r.Exact[:i], func(other lease.Part) bool { return other.GPU == p.GPU }) {
			refuse("gpu", "is given twice: "+p.GPU)
		}
	}
	if errs == nil {
		return nil
	}
	return errs
}

// Repeats returns an error if a lease does not answer a request that has its id and
// says exactly what it wants: it has other parts, or their scopes together are too long.
func Repeats(l *lease.Lease, r *lease.Request) error {
	if difference := Difference(l, r.Exact); difference != "" {
		return fmt.Errorf("ask for %s again: %w with other parts: %s", r.ID, lease.ErrDuplicate, difference)
	}
	both := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(l.Scope), r.Scope...))))
	if detail := words.NamesProblem(both, lease.MaxScope); detail != "" {
		return lease.FieldErrors{{Field: "scope", Detail: detail + "; it adds to the scope of the lease that stands"}}
	}
	return nil
}

// Difference says how the parts of a lease differ from those that a request asks for, in
// any order; "" if they do not. What berth has taken from a lease by shrinking it counts
// as its own.
func Difference(l *lease.Lease, asked []lease.Part) string {
	held := slices.Clone(l.Parts)
	for i := range held {
		held[i].Memory = max(held[i].Memory, l.Asked)
	}
	on := func(parts []lease.Part, uuid string) (lease.Part, bool) {
		i := slices.IndexFunc(parts, func(p lease.Part) bool { return p.GPU == uuid })
		if i < 0 {
			return lease.Part{}, false
		}
		return parts[i], true
	}
	var texts []string
	for _, p := range held {
		switch other, there := on(asked, p.GPU); {
		case !there:
			texts = append(texts, fmt.Sprintf("it has %s on %s, where the request is for nothing", amounts(p), p.GPU))
		case other != p:
			texts = append(texts, fmt.Sprintf("it has %s on %s, where the request is for %s", amounts(p), p.GPU, amounts(other)))
		}
	}
	for _, p := range asked {
		if _, there := on(held, p.GPU); !there {
			texts = append(texts, fmt.Sprintf("it has nothing on %s, where the request is for %s", p.GPU, amounts(p)))
		}
	}
	return strings.Join(texts, "; ")
}

func amounts(p lease.Part) string { return p.Memory.Exact() + " and " + words.Count(p.Slots, "slot") }
