package lease

import (
	"errors"
	"fmt"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
)

// Why a change is refused. Errors of Apply wrap one of these, or are
// FieldErrors, an *access.Refusal, or a *OverSoldError.
var (
	ErrDuplicate  = errors.New("the id is in use")
	ErrUnknown    = errors.New("there is no lease or request with this id")
	ErrWaiting    = errors.New("it waits, and is no lease yet")
	ErrNotYours   = access.ErrNotYours
	ErrStaleFence = errors.New("the fence is old")
	ErrNoFence    = errors.New("the fence was never given")
	ErrExpired    = errors.New("the lease has expired")
	ErrNotDue     = errors.New("its time has not come")
	ErrBinding    = errors.New("the lease has no time to live")
	ErrNotBound   = errors.New("the lease is not bound to a process")
	ErrState      = errors.New("the lease is not in the state for it")
	ErrDevice     = errors.New("the device is not known")
	ErrOverSold   = errors.New("there is not that much left")
)

// OverSoldError refuses a grant or a resume for which there is no room. It is
// an ErrOverSold.
type OverSoldError struct {
	ID         string
	GPU        string
	Sum        Sum     // of the device, as it is
	Needs      gpu.MiB // memory beyond what is already counted
	NeedsSlots int
}

func (e *OverSoldError) Error() string {
	if e.lacksSlots() {
		return fmt.Sprintf("grant %s: %s has %d of %d usable slots in use, and %d more are needed",
			e.ID, e.GPU, e.Sum.Active, e.Sum.Usable, e.NeedsSlots)
	}
	return fmt.Sprintf("grant %s: %s has %s available, and %s is needed", e.ID, e.GPU, e.Sum.Available(), e.Needs)
}

// Is makes it an ErrOverSold.
func (e *OverSoldError) Is(target error) bool { return target == ErrOverSold }

func (e *OverSoldError) lacksSlots() bool {
	return e.NeedsSlots > 0 && e.Sum.Active+e.NeedsSlots > e.Sum.Usable
}
