// Package later says of an error that it passes.
//
// Pure: no clock, no I/O.
package later

import (
	"errors"
	"time"
)

// Error says that something cannot be done now and may be possible later: a disk is full or
// broken, the audit log or the user database does not answer, no file descriptors are left,
// or somebody who hands over says so. Who meets it tries again and says why it waits; it
// never ends what somebody has asked for.
type Error struct {
	Cause error
	After time.Duration // when to try again; zero: as whoever tries sees fit
}

func (e *Error) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Because returns cause as an error that passes; nil for nil.
func Because(cause error, after time.Duration) error {
	if cause == nil {
		return nil
	}
	return &Error{Cause: cause, After: after}
}

// Passes reports whether an error passes.
func Passes(err error) bool {
	_, passes := errors.AsType[*Error](err)
	return passes
}

// After returns when to try again, or otherwise if the error does not say that.
func After(err error, otherwise time.Duration) time.Duration {
	if e, passes := errors.AsType[*Error](err); passes && e.After > 0 {
		return e.After
	}
	return otherwise
}
