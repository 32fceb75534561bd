package desk

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
)

// wish is what a caller asks for, with what is added by the way that it came.
type wish struct {
	api.LeaseRequest
	as        string   // name of the holder; empty means that of its process
	preferred string   // UUID of the device to try first; may be empty
	only      []string // UUIDs of the devices to choose from; empty means any

	unitExists bool // whether to refuse a unit that does not exist; else it may come later

	implied bool        // nobody said what ends the lease
	again   lease.Again // which existing lease answers the request
	note    string      // how the lease differs from the request; may be empty

	run      lease.Run // what it is for, which is bound to its minder later; zero for what users ask for
	since    time.Time // since when the run waits
	precedes bool      // an operator gave the job its priority
}

// resolved is a wish for which the desk has looked everything up: the request for the
// ledger, and what becomes of the lease.
type resolved struct {
	lease.Request
	learned   bool     // Memory is what earlier runs used
	launched  bool     // a launcher asks, and gets what it needs
	environs  bool     // the launcher leaves the environment of the program to the daemon
	caps      []string // libraries that the environment limits
	isolation string   // what keeps the program from other devices
}

// exactly returns the parts of a wish that says exactly what it wants, or nil if it does
// not. It refuses a caller who may not ask for parts, and a wish that contradicts them.
func (w *wish) exactly(by *Caller, bound lease.Binding) ([]lease.Part, error) {
	if len(w.Parts) == 0 && !w.Admitted {
		return nil, nil
	}
	if err := access.May(by.Actor, access.Admit, access.Object{}); err != nil {
		return nil, fmt.Errorf("lease %s exactly: %w", w.ID, err)
	}
	if errs := w.contradictions(bound); errs != nil {
		return nil, errs
	}
	parts := make([]lease.Part, len(w.Parts))
	for i, p := range w.Parts {
		parts[i] = lease.Part{GPU: p.GPU, Memory: p.Memory, Slots: p.Slots}
	}
	return parts, nil
}

// contradictions lists the fields of a wish that contradict its parts.
func (w *wish) contradictions(bound lease.Binding) (errs lease.FieldErrors) {
	wrong := func(is bool, field, detail string) {
		if is {
			errs = append(errs, lease.FieldError{Field: field, Detail: detail})
		}
	}
	const beside = "is set beside parts, which say all about the devices; leave it out"
	wrong(len(w.Parts) == 0, "parts", "is empty; an admitted request says exactly what it wants on each device")
	wrong(!w.Admitted, "admitted", "is false; a request with parts needs it, because it goes before everybody who waits")
	wrong(w.ID == "", "id", "is empty; the same id finds the lease when the request is made again")
	wrong(w.GPUs > 1, "gpus", beside) // a body without gpus means 1
	wrong(w.Memory != 0, "memory_mb", beside)
	wrong(w.AllMemory, "all_memory", beside)
	wrong(w.Exclusive, "exclusive", beside)
	wrong(w.Slots.Known(), "slots", beside)
	wrong(w.GPU != "", "gpu", beside)
	wrong(w.Prefer != "", "prefer", beside)
	wrong(w.Policy != "", "policy", beside)
	wrong(w.Where != "", "where", beside)
	wrong(w.Learned, "learned_memory", beside)
	wrong(w.Pool, "pool", "is set beside parts; ask for a pool with memory_mb")
	wrong(w.FromPool != "", "from_pool", beside)
	wrong(w.Parent != "", "parent", "is set beside parts; a child has the devices of its parent")
	wrong(w.Timeout.Or(0) != 0, "timeout_seconds", "is set, and an admitted request never waits; leave it out")
	wrong(bound == lease.ByProcess, "binding", "is process; an admitted request is for a named lease, or one with a ttl")
	return errs
}

// ofPool lists the fields of a wish for a pool, or for memory of one, that contradict that.
func (w *wish) ofPool(memory gpu.MiB) (errs lease.FieldErrors) {
	wrong := func(is bool, field, detail string) {
		if is {
			errs = append(errs, lease.FieldError{Field: field, Detail: detail})
		}
	}
	if w.FromPool == "" {
		return nil
	}
	wrong(w.Pool, "pool", "is set beside from_pool; a pool cannot take its memory from another one")
	wrong(w.Parent != "", "parent", "is set beside from_pool, which is the parent; leave one of them out")
	wrong(w.Exclusive, "exclusive", "is set beside from_pool; the pool decides about the device")
	wrong(w.AllMemory, "all_memory", "is set beside from_pool; say how much of the pool it takes")
	wrong(memory == 0 && !w.AllMemory, "memory_mb", "is zero; say how much of the pool it takes (--memory 4GiB)")
	return errs
}

// choice says which devices a wish leaves to choose from.
type choice struct {
	where     gpu.Where    // the conditions that they must meet
	preferred string       // UUID of the device to try first; may be empty
	named     []gpu.Device // the only device that the wish allows; empty if it names none
}

// extent says how a request shares its devices.
type extent struct {
	exclusive bool
	parent    string
	fence     uint64 // of the parent; 0 if its id says which it is
	slots     int
}

// binding returns what ends the lease, also for a request that does not say it.
func binding(w *api.LeaseRequest) lease.Binding {
	switch {
	case w.Binding != "":
		return lease.Binding(w.Binding)
	case w.TTL.Known():
		return lease.ByTTL
	case w.PID != 0:
		return lease.ByProcess
	}
	return lease.ByName
}

// joined joins two notes, of which either may be empty.
func joined(note, more string) string {
	if note == "" || more == "" {
		return note + more
	}
	return note + "; " + more
}
