package ledger

import (
	"errors"
	"fmt"

	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/stored"
)

// lostFences is more than the number of grants that a machine can lose with its
// power. The ledger answers only grants to processes before they are on disk, and
// the journal syncs by itself long before there are that many.
const lostFences = 1 << 16

// recover reads the book from the journal. If the machine was rebooted since, recover
// skips lostFences fences: the last grants before the reboot may be lost, and the ledger
// must not use their fences twice.
func (l *Ledger) recover(open func(func(journal.Entry) error) (journal.Journal, error)) error {
	var boot string
	log, err := open(func(r journal.Entry) error {
		read, err := l.book.Read(r.Data)
		if newer := (*stored.VersionError)(nil); err != nil && !errors.As(err, &newer) {
			err = fmt.Errorf("%w: %w", journal.ErrContradiction, err)
		}
		if err != nil {
			return err
		}
		if read.Kind == stored.Fence {
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
	mark := stored.NewFence(fence, l.boot)
	if err := l.book.Replay(&mark); err != nil {
		return errors.Join(err, log.Close())
	}
	failed := (*journal.WriteError)(nil)
	err = log.Append([][]byte{lease.AppendEntry(nil, &mark)}, journal.Care{Durable: true, Reserve: true})
	if errors.As(err, &failed) {
		l.journal.Note(err)
		return nil // the daemon starts on a full disk too: the next start skips fences again
	}
	if err != nil {
		return errors.Join(err, log.Close())
	}
	return nil
}
