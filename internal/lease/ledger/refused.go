package ledger

import (
	"context"

	"github.com/berth-gpu/berth/internal/lease/placement"
)

// These types of package placement describe devices to the ledger, and explain and refuse
// requests.
type (
	Observation  = placement.Observation
	Explanation  = placement.Explanation
	ForeignUse   = placement.ForeignUse
	TimeoutError = placement.TimeoutError
	QueuedError  = placement.QueuedError
	ResizeError  = placement.ResizeError
)

// ErrWithdrawn reports a request that was withdrawn while it waited. It matches
// context.Canceled, and its text is for people.
var ErrWithdrawn error = withdrawnError{}

type withdrawnError struct{}

func (withdrawnError) Error() string        { return "the request was withdrawn" }
func (withdrawnError) Is(target error) bool { return target == context.Canceled }
