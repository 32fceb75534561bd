package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Errors for callers to test.
var (
	// ErrFull is in a *WriteError when the disk, or the quota, is used up.
	ErrFull = errors.New("disk is full")
	// ErrTooLarge refuses a group that no journal file could hold.
	ErrTooLarge = errors.New("group of entries is too large for the journal")
	// ErrContradiction is the error that a replay returns for an entry that is complete
	// but cannot be true at its place. Opening treats it as damage.
	ErrContradiction = errors.New("it contradicts the entries before it")
	// ErrClosed is the error of a closed journal.
	ErrClosed = errors.New("journal is closed")
)

// WriteError reports that the disk did not take a write. The group of that write is not
// in the journal.
type WriteError struct {
	Op   string // what was tried, in a few words
	File string
	Full bool // the disk is full, not broken
	Err  error
}

// Failed returns the error of a write to a file that the disk did not take.
func Failed(op, file string, err error) *WriteError {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		err = p.Err // its path may be the name that the file had when it was created
	}
	return &WriteError{Op: op, File: file, Full: errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT), Err: err}
}

func (e *WriteError) Error() string {
	hint := "check the disk; the journal tries again at the next write"
	if e.Full {
		hint = "free some room on that disk; the journal goes on by itself"
	}
	return fmt.Sprintf("journal: %s %s: %v (%s)", e.Op, e.File, e.Err, hint)
}

func (e *WriteError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrFull) recognize a full disk.
func (e *WriteError) Is(target error) bool { return target == ErrFull && e.Full }

// CorruptError reports damage that no crash explains: entries that were safely on disk
// are not readable any more. Opening refuses the journal, because going on would forget
// leases that somebody holds.
type CorruptError struct {
	File   string
	Offset int64  // where in File the damage begins
	Seq    uint64 // the number of the first entry that is lost
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("journal: %s is damaged at byte %d, entry %d: %s. Nothing was changed. "+
		"Bring the directory back from a copy, or run \"berth journal repair\": it keeps the entries "+
		"before the damage and puts the damaged files aside", e.File, e.Offset, e.Seq, e.Reason)
}

// VersionError reports a file in a format of a later version of berth.
type VersionError struct {
	File         string
	Found, Known uint32
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("journal: %s has format version %d and this berth reads up to %d: "+
		"start the newer berth that wrote it. Nothing was changed", e.File, e.Found, e.Known)
}
