package filelog

import "fmt"

// takeBack removes what was written from start on from the tail, and also from the file
// if the disk allows it.
func (l *Log) takeBack(start int, op string, cause error) error {
	l.tail = l.tail[:start]
	l.suspect = true
	err := l.blame(op, cause)
	l.heal()
	return err
}

// heal makes the file agree with the log's view of it after a failed write or sync, and
// after opening a journal that ended in a crash.
//
// All bytes that may not be on disk are in the tail. heal writes them again,
// and zeros over what follows. That marks their pages as changed, so the next
// sync covers all of them: if it succeeds they are on disk, whatever failed
// before. This needs no new room, so it works on a full disk. If this part of
// the disk is broken, a new segment takes the tail.
//
// Names need no second write: directories go through the file system's journal,
// and a file system that failed there takes no more writes, so a later sync
// that succeeds can be trusted.
func (l *Log) heal() error {
	if l.unnamed {
		if err := l.disk.Sync(); err != nil {
			return l.blame("sync directory of", err)
		}
		l.unnamed = false
	}
	if !l.suspect {
		return nil
	}
	err := l.rewrite()
	if err == nil {
		return nil
	}
	if l.rotate(0); l.suspect || l.unnamed {
		return err
	}
	return nil
}

func (l *Log) rewrite() error {
	n := len(l.tail)
	clean := append(l.tail, make([]byte, l.dirty-l.end())...)
	_, err := l.file.WriteAt(clean, l.synced)
	if err == nil {
		err = l.sync()
	}
	if err != nil {
		return l.blame("mend", fmt.Errorf("%w (after an earlier failure)", err))
	}
	l.tail = clean[:n]
	l.settled(l.last)
	l.dirty = l.end()
	l.suspect = false
	return nil
}
