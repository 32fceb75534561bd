package outcome

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Errors that callers decide on.
var (
	// ErrExists means that the output exists already.
	ErrExists = errors.New("the output exists")
	// ErrAppeared means that a file with the name of the output appeared after
	// the run began. The outcomes of the run are kept.
	ErrAppeared = errors.New("a file has taken the place of the output")
	// ErrChanged means that the unfinished run has other options or another
	// input.
	ErrChanged = errors.New("the unfinished run is another one")
	// ErrGone means that the unfinished run can never continue, because its
	// input is gone.
	ErrGone = errors.New("the unfinished run cannot go on")
	// ErrShape means that the output cannot be written in this shape.
	ErrShape = errors.New("the output cannot be written like that")
	// ErrBusy means that another process works on the same output.
	ErrBusy = errors.New("another run writes this output")
	// ErrUnsafe means that another user prepared the output or its folder, or
	// could change what is in it.
	ErrUnsafe = errors.New("somebody else could change what this run writes")
	// ErrFull is in a *WriteError when the disk has no room.
	ErrFull = errors.New("no room on the disk")
)

// WriteError reports that the disk did not take data. Outcomes committed before
// are kept, and a run can continue from there.
type WriteError struct {
	Op   string
	File string
	Err  error
}

func (e *WriteError) Error() string { return fmt.Sprintf("%s %s: %v", e.Op, e.File, e.Err) }

func (e *WriteError) Unwrap() error { return e.Err }

// Is makes a full disk, a used-up quota and a limit on file size all match
// ErrFull.
func (e *WriteError) Is(target error) bool {
	return target == ErrFull && (errors.Is(e.Err, syscall.ENOSPC) || errors.Is(e.Err, syscall.EDQUOT) || errors.Is(e.Err, syscall.EFBIG))
}

func writeError(op, file string, err error) error {
	if err == nil {
		return nil
	}
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err // WriteError says the rest
	}
	return &WriteError{Op: op, File: file, Err: err}
}
