package ledger

import (
	"errors"
	"fmt"

	"github.com/berth-gpu/berth/internal/journal"
	"github.com/berth-gpu/berth/internal/record"
)

// lostFences is more than the grants that a machine can forget when it loses
// power: only those to processes are not on disk when they are answered, and
// the journal syncs by itself long before there are so many.
const lostFences = 1 << 16

// recover reads the book back. If the machine was started again since, the
// fences jump: the last grants before may be forgotten, and their fences must
// not be given out twice.
func (l *Ledger) recover(open func(func(journal.Record) error) (journal.Journal, error)) error {
	var boot string
	log, err := open(func(r journal.Record) error {
		read, err := l.book.Read(r.Data)
		if newer := (*record.VersionError)(nil); err != nil && !errors.As(err, &newer) {
			err = fmt.Errorf("%w: %w", journal.ErrContradiction, err)
		}
		if err != nil {
			return err
		}
		if read.Kind == record.Fence {
			boot = read.Why
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.journal.Journal = log
	if boot == l.boot {
		return nil
	}
	fence := l.book.Fence()
	if boot != "" {
		fence += lostFences
	}
	mark := record.NewFence(fence, l.boot)
	if err := l.book.Replay(&mark); err != nil {
		return errors.Join(err, log.Close())
	}
	failed := (*journal.WriteError)(nil)
	err = log.Append([][]byte{mark.Append(nil)}, journal.Care{Durable: true, Reserve: true})
	if errors.As(err, &failed) {
		l.journal.noteTrouble(err)
		return nil // a disk that takes nothing now is no reason not to start: the next start jumps again
	}
	if err != nil {
		return errors.Join(err, log.Close())
	}
	return nil
}
