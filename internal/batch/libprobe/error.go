package libprobe

import "errors"

// Errors that callers decide on; *Error wraps them.
var (
	ErrNoInterpreter = errors.New("there is no such interpreter")
	ErrNoAnswer      = errors.New("it gave no answer")
	ErrTimeLimit     = errors.New("it did not end in time")
	ErrCrashed       = errors.New("it crashed")
)

// Error reports a child process that did not answer.
type Error struct {
	Interpreter string
	Library     string // library that the child was asked about; empty for the interpreter itself
	Err         error  // one of the above if one fits
	Detail      string // how it ended and what it said last; may be empty
	Hint        string // what to do, one sentence; may be empty
}

func (e *Error) Error() string {
	text := "probe " + e.Interpreter
	if e.Library != "" {
		text += " for " + e.Library
	}
	text += ": " + e.Reason()
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Reason returns the error without the name of the interpreter and the library.
func (e *Error) Reason() string {
	if e.Detail == "" {
		return e.Err.Error()
	}
	return e.Err.Error() + ": " + e.Detail
}
