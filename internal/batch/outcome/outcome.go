// Package outcome keeps the outcomes of a run so that each is there exactly
// once, whatever dies.
//
// While a run is not finished, there is a folder OUTPUT.berth beside OUTPUT. In
// it, the run appends outcomes to a file in groups, and a journal says after
// each group how long the file is and which records are in it. A run that was
// killed continues from its journal: it cuts the file back to that length, and
// does not do the recorded records again. OUTPUT itself appears at the end, by
// a rename, so it never holds half a record or half a run.
package outcome

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/berth-gpu/berth/internal/batch/rawjson"
)

// Outcome is the result of one record.
type Outcome struct {
	Index  int64  // index of the record
	Data   []byte // one JSON value, without line ends
	Failed bool   // whether Data carries an error
}

// ErrorKey is the field that a failed record carries.
const ErrorKey = "_error"

// inputKey is the field for a record that is not an object, so that it can carry an
// error.
const inputKey = "_input"

// Failure returns the outcome of a record that failed: the record itself, with the error
// beside its fields, so that it can be run again unchanged.
func Failure(index int64, data []byte, text string) Outcome {
	out := make([]byte, 0, len(data)+len(text)+len(ErrorKey)+8)
	out = append(out, '{')
	if rawjson.IsObject(data) {
		for key, value := range rawjson.Fields(data) {
			if rawjson.Is(key, ErrorKey) {
				continue // the error of an earlier run
			}
			out = appendField(out, key, value)
		}
	} else {
		out = appendField(out, rawjson.Quote(inputKey), data)
	}
	out = appendField(out, rawjson.Quote(ErrorKey), rawjson.Quote(text))
	return Outcome{Index: index, Data: append(out, '}'), Failed: true}
}

// Success returns the outcome that a worker gave. It counts as failed if it carries an
// error itself.
func Success(index int64, data []byte) Outcome {
	failed := bytes.Contains(data, []byte(ErrorKey)) && rawjson.Field(data, ErrorKey) != nil
	return Outcome{Index: index, Data: data, Failed: failed}
}

func appendField(to, key, value []byte) []byte {
	if len(to) > 1 {
		to = append(to, ',')
	}
	to = append(to, key...)
	to = append(to, ':')
	return append(to, value...)
}

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
