package device

import "errors"

// Callers compare with these errors. Backends wrap them with the operation and, in Error,
// with what the user can do about it.
var (
	ErrLost         = errors.New("device is not on the bus")
	ErrHung         = errors.New("device did not answer in time")
	ErrUnsupported  = errors.New("not supported")
	ErrNoLibrary    = errors.New("driver library not found")
	ErrNoDriver     = errors.New("driver not loaded")
	ErrMismatch     = errors.New("driver and its library have different versions")
	ErrNoPermission = errors.New("no permission")
)

// Error is a failure with a remedy.
type Error struct {
	Op   string // what was tried, in a few words
	Err  error  // the cause; one of the above where it fits
	Hint string // what to do, one sentence
}

func (e *Error) Error() string {
	text := e.Op + ": " + e.Err.Error()
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Hint returns the remedy that err carries, if any.
func Hint(err error) string {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Hint
	}
	return ""
}
