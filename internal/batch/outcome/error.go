package outcome

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Errors that callers decide on.
var (
	// ErrExists: the output is there already.
	ErrExists = errors.New("the output exists")
	// ErrAppeared: a run cannot have its output, because a file has come into
	// being there since it was begun. What the run has done stands.
	ErrAppeared = errors.New("a file has taken the place of the output")
	// ErrChanged: there is a run to go on with, and it is not this one.
	ErrChanged = errors.New("the unfinished run is another one")
	// ErrGone: there is a run that can never go on, because its input is gone.
	ErrGone = errors.New("the unfinished run cannot go on")
	// ErrShape: the output cannot be written like that.
	ErrShape = errors.New("the output cannot be written like that")
	// ErrBusy: another process works on the same output.
	ErrBusy = errors.New("another run writes this output")
	// ErrUnsafe: somebody else has prepared the output or its folder, or could
	// change what is in it.
	ErrUnsafe = errors.New("somebody else could change what this run writes")
	// ErrFull is in a *WriteError when there is no room.
	ErrFull = errors.New("no room on the disk")
)

// WriteError is a disk that did not take what it was given. What was committed
// before stands, and the run can go on from there.
type WriteError struct {
	Op   string
	File string
	Err  error
}

func (e *WriteError) Error() string { return fmt.Sprintf("%s %s: %v", e.Op, e.File, e.Err) }

func (e *WriteError) Unwrap() error { return e.Err }

// Is makes a full disk, a used up quota and a limit on the size of files
// recognisable as the same.
func (e *WriteError) Is(target error) bool {
	return target == ErrFull && (errors.Is(e.Err, syscall.ENOSPC) || errors.Is(e.Err, syscall.EDQUOT) || errors.Is(e.Err, syscall.EFBIG))
}

func writeError(op, file string, err error) error {
	if err == nil {
		return nil
	}
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err // the rest of it is said here
	}
	return &WriteError{Op: op, File: file, Err: err}
}
