package audit

import (
	"io/fs"
	"slices"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// rotate begins another file. The caller holds mu.
func (l *Log) rotate(now time.Time) error {
	if !l.doubtful {
		l.syncing.Lock()
		err := l.file.Sync()
		l.syncing.Unlock()
		if err != nil {
			return err
		}
	}
	if err := l.complete(); err != nil {
		// The file grows beyond its limit, which is better than no log.
		if l.trouble.Load() == nil {
			l.tell(gpu.Warning, "The daemon cannot begin a new file of the audit log, and goes on with the old one: %v", err)
		}
		return nil
	}
	l.close()
	l.first, l.doubtful = 0, false
	if err := l.openFile(); err != nil {
		return err
	}
	if err := l.begin(now); err != nil {
		l.close()
		return err
	}
	return nil
}

// complete gives the file the name of a complete one, which must be unused. The caller
// holds mu.
func (l *Log) complete() error {
	name := RotatedName(l.first)
	names, err := l.folder.List()
	if err != nil {
		return err
	}
	if slices.Contains(names, name) {
		return &fs.PathError{Op: "rename to", Path: name, Err: fs.ErrExist}
	}
	if err := l.folder.Rename(CurrentName, name); err != nil {
		return err
	}
	return l.folder.Sync()
}

// begin writes the first line of a file that is not the first one. The line carries the
// hash of the last line of the file before, like every line, and says which entries are
// kept. Then begin removes surplus files. The caller holds mu.
func (l *Log) begin(now time.Time) error {
	names, err := l.folder.List()
	if err != nil {
		return err
	}
	complete := Order(names)
	if n := len(complete); n > 0 && complete[n-1] == CurrentName {
		complete = complete[:n-1]
	}
	surplus := complete[:max(len(complete)-(l.settings.Files-1), 0)]
	oldest := l.oldest // also if somebody removed files meanwhile: that stays visible
	if kept := complete[len(surplus):]; len(surplus) > 0 && len(kept) > 0 {
		oldest, _ = FirstOf(kept[0])
	} else if len(surplus) > 0 {
		oldest = l.newest.Seq + 1
	}
	err = l.note(Rotate, "", map[string]string{Oldest: strconv.FormatUint(oldest, 10)}, now)
	if err != nil {
		return err
	}
	l.oldest = oldest
	for _, name := range surplus {
		if err := l.folder.Remove(name); err != nil {
			l.tell(gpu.Warning, "The daemon cannot remove an old file of the audit log: %v", err)
		}
	}
	return nil
}
