package lease

import (
	"errors"
	"fmt"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
)

// The reasons why Apply refuses a change. Its errors wrap one of these, or are
// FieldErrors, an *access.Refusal, or an *OverSoldError.
var (
	ErrDuplicate  = errors.New("the id is in use")
	ErrLeft       = errors.New("the process that asked for it has exited, and its lease stands")
	ErrUnknown    = errors.New("there is no lease or request with this id")
	ErrWaiting    = errors.New("the request still waits and has no lease yet")
	ErrNotYours   = access.ErrNotYours
	ErrStaleFence = errors.New("the fence is old")
	ErrNoFence    = errors.New("no lease has had this fence")
	ErrExpired    = errors.New("the lease has expired")
	ErrNotDue     = errors.New("it is not due yet")
	ErrBinding    = errors.New("the lease has no time to live")
	ErrNotBound   = errors.New("the lease is not bound to a process")
	ErrState      = errors.New("the lease is in the wrong state")
	ErrParked     = errors.New("the lease is parked; resume it first, or end its program (berth cancel)")
	ErrUnparkable = errors.New("the lease cannot be parked")
	ErrAsked      = errors.New("a request for this lease waits already")
	ErrInUse      = errors.New("its processes use more")
	ErrDevice     = errors.New("the device is not known")
	ErrOverSold   = errors.New("the device has too little left")
)

// OverSoldError refuses a grant or a resume for which the device has no room. It
// matches ErrOverSold.
type OverSoldError struct {
	ID         string
	GPU        string
	Sum        Sum     // of the device
	Needs      gpu.MiB // memory beyond what is already counted
	NeedsSlots int
	Alone      bool // a lease there has the device alone, or this one wants it alone
}

func (e *OverSoldError) Error() string {
	switch {
	case e.Alone && e.Sum.Alone > 0:
		return fmt.Sprintf("grant %s: a lease has %s alone", e.ID, e.GPU)
	case e.Alone:
		return fmt.Sprintf("grant %s: it wants %s alone, and %d leases are there", e.ID, e.GPU, e.Sum.Leases)
	case e.lacksSlots():
		return fmt.Sprintf("grant %s: %s has %d of %d usable slots in use, and the lease needs %d more",
			e.ID, e.GPU, e.Sum.Active, e.Sum.Usable, e.NeedsSlots)
	}
	return fmt.Sprintf("grant %s: %s has %s available, and the lease needs %s", e.ID, e.GPU, e.Sum.Available().Beside(e.Needs), e.Needs.Beside(e.Sum.Available()))
}

// Is reports whether target is ErrOverSold.
func (e *OverSoldError) Is(target error) bool { return target == ErrOverSold }

func (e *OverSoldError) lacksSlots() bool {
	return e.NeedsSlots > 0 && e.Sum.Active+e.NeedsSlots > e.Sum.Usable
}

// BusyError says that an optimization of leases is under way.
type BusyError struct{ Why string }

func (e *BusyError) Error() string { return e.Why }
