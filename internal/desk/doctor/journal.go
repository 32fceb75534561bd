package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/stored"
)

// Journal is the journal of a daemon, as files. It can be read and repaired without the
// daemon.
type Journal struct{ dir string }

// OpenJournal finds the journal in the state folder of a daemon. It opens no file yet.
func OpenJournal(stateDir string) (*Journal, error) {
	dir := journalDir(stateDir)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{fmt.Errorf("there is no journal in %s", stateDir), "name the state folder of the daemon: --state-dir DIR"}
	} else if err != nil {
		return nil, err
	}
	return &Journal{dir}, nil
}

// journalDir returns the folder of the journal in a state folder.
func journalDir(stateDir string) string { return filepath.Join(stateDir, "journal") }

// Error is a failure with a next step.
type Error struct {
	error
	next string
}

func (e *Error) Unwrap() error { return e.error }

// Hint returns the next step.
func (e *Error) Hint() string { return e.next }

// Hinted adds a next step to an error.
func Hinted(err error, next string) error { return &Error{err, next} }

// Records returns the records of the journal up to the damage, if there is any, whether
// they make sense or not. A daemon may be writing to it.
func (j *Journal) Records() (records []journal.Entry, rec journal.Recovery, err error) {
	rec, err = ReadJournal(j.dir, func() func(journal.Entry) error {
		records = nil
		return func(r journal.Entry) error {
			r.Data = slices.Clone(r.Data) // it is valid only during the call
			records = append(records, r)
			return nil
		}
	})
	return records, rec, err
}

// book returns the book that the journal describes.
func (j *Journal) book() (book *lease.Book, rec journal.Recovery, err error) {
	rec, err = ReadJournal(j.dir, func() func(journal.Entry) error {
		book = lease.New()
		return Believe(book)
	})
	return book, rec, err
}

// ReadJournal reads the journal in a folder. It tries several times: what only looks damaged
// because a daemon writes to it is right at the next try, and real damage remains. It calls
// begin for every try; begin returns the function that takes the records.
func ReadJournal(folder string, begin func() func(journal.Entry) error) (rec journal.Recovery, err error) {
	for range 3 {
		rec, err = filelog.Read(file.PrivateDir(folder), begin())
		damage := (*journal.CorruptError)(nil)
		if !errors.As(err, &damage) && !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return rec, err
}

// Believe returns a function that takes records into a book, and returns an error for a
// record that contradicts those before.
func Believe(book *lease.Book) func(journal.Entry) error {
	return func(r journal.Entry) error {
		_, err := book.Read(r.Data)
		if newer := (*stored.VersionError)(nil); err != nil && !errors.As(err, &newer) {
			return fmt.Errorf("%w: %w", journal.ErrContradiction, err)
		}
		return err
	}
}
