package lease

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
)

// ErrEnforced refuses to resize a lease whose programs were started with its limit: they
// would keep the old one.
var ErrEnforced = errors.New("its programs were started with its limit")

// Resize gives a lease another amount of memory on each of its devices, with the same
// fence. It takes more only where there is room now, and gives back at once. What the
// processes of the lease use beyond the new amount counts as before.
type Resize struct {
	Key
	Fence  uint64  // zero means any
	Memory gpu.MiB // on each device
	By     access.Actor
	Why    string

	// Shrinks says that berth takes what the lease does not use. The lease gets that
	// back when it asks for it, before others are served.
	Shrinks bool
}

func (r Resize) apply(b *Book, now time.Time) (Effect, error) {
	e, err := b.find(access.Resize, r.Key, r.Fence, &r.By)
	if err != nil {
		return Effect{}, err
	}
	old, l := e.lease, *e.lease
	if err := old.Resizable(); err != nil {
		return Effect{}, fmt.Errorf("resize %s: %w", r.ID, err)
	}
	if len(old.Scope) > 0 && r.By.Door != access.Itself {
		return Effect{}, fmt.Errorf("resize %s: %w", r.ID, errScoped)
	}
	l.Parts = slices.Clone(l.Parts)
	for i := range l.Parts {
		l.Parts[i].Memory = r.Memory
	}
	if err := l.validate(); err != nil { // before what it says about room
		return Effect{}, err
	}
	l.Asked = 0 // its owner has now chosen its size
	if r.Shrinks {
		if err := e.shrinkable(r.Memory); err != nil {
			return Effect{}, fmt.Errorf("shrink %s: %w", r.ID, err)
		}
		l.Asked = max(old.Asked, old.Parts[0].Memory)
	}
	if r.Memory != old.Parts[0].Memory && l.EnforcedBy == "framework" && !strings.Contains(l.Note, keepsLimit) {
		l.AddNote(keepsLimit)
	}
	if e.pool != nil && r.Memory < e.pool.taken {
		return Effect{}, fmt.Errorf("resize %s: %w: the leases in the pool have %s", r.ID, ErrPoolInUse, e.pool.taken.Exact())
	}
	for i, p := range old.Parts {
		needs := e.growth(i, r.Memory)
		if d := e.places[i].device; needs > 0 && (!d.known || !d.hasRoom(needs, 0, false)) {
			return Effect{}, &OverSoldError{ID: r.ID, GPU: p.GPU, Sum: d.Sum, Needs: needs}
		}
	}
	return b.become(e, &l, Resized, r.By, r.Why, now)
}

// keepsLimit is the note of a lease that was resized while its programs run.
const keepsLimit = "programs that run keep the memory limit they were started with, unless they follow the new one, as the Python package does"

// shrinkable refuses a size that is not smaller than what a lease has, or smaller
// than what its processes use.
func (e *entry) shrinkable(to gpu.MiB) error {
	for i, p := range e.lease.Parts {
		switch measured := e.places[i].measured; {
		case e.lease.Pool:
			return fmt.Errorf("%w: it is a pool, and its memory is for its children", ErrState)
		case e.want != nil:
			return ErrAsked
		case p.Memory != e.lease.Parts[0].Memory:
			return fmt.Errorf("%w: it has different amounts on its devices", ErrState)
		case to >= p.Memory:
			return fmt.Errorf("%w: it has %s, which is not more than %s", ErrState, p.Memory.ExactBeside(to), to.ExactBeside(p.Memory))
		case to < measured:
			return fmt.Errorf("%w than %s: %s", ErrInUse, to.ExactBeside(measured), measured.ExactBeside(to))
		}
	}
	return nil
}

// Resizable returns why the size of the lease cannot change, or nil if it can.
func (l *Lease) Resizable() error {
	if l.Exclusive {
		return fmt.Errorf("%w: it has its device alone, with all of the memory", ErrState)
	}
	if err := l.divisible(); !errors.Is(err, errScoped) || !l.Allows(MayShrink) {
		return err
	}
	return nil // by berth alone
}

// errScoped means that somebody else decides the size of a lease.
var errScoped = fmt.Errorf("%w: it has a scope, and whoever set that decides its size", ErrState)

// divisible returns why memory cannot be taken out of the lease, or nil if it can.
func (l *Lease) divisible() error {
	switch {
	case l.State != Active:
		return fmt.Errorf("%w: it is %s", ErrState, string(l.State))
	case len(l.Scope) > 0:
		return errScoped
	case l.From != 0:
		return fmt.Errorf("%w: its memory is from the pool %s; release it and take another one from there", ErrState, l.Parent)
	case l.EnforcedBy == "mps":
		return fmt.Errorf("%w, by %s", ErrEnforced, l.EnforcedBy)
	}
	return nil
}

// Growth returns how much more of a device a lease would take if it had this much memory
// there. What its processes use beyond the lease is taken already.
func (b *Book) Growth(k Key, uuid string, memory gpu.MiB) gpu.MiB {
	if e := b.leases.get(k); e != nil {
		for i, p := range e.lease.Parts {
			if p.GPU == uuid {
				return e.growth(i, memory)
			}
		}
	}
	return memory
}

func (e *entry) growth(part int, memory gpu.MiB) gpu.MiB {
	has := e.holds(part)
	if e.pool != nil {
		memory -= e.pool.taken // that is taken already
	}
	return max(memory-max(has, e.places[part].measured), 0)
}
