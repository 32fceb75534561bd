package audit

import (
	"strconv"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
)

// rotate begins another file. The caller holds mu.
func (l *Log) rotate(now time.Time) (err error) {
	if !l.doubtful {
		if err := l.file.Sync(func() {}); err != nil {
			return err
		}
	}
	if err := l.file.Rename(Rotated.Name(l.first)); err != nil {
		// The file grows beyond its limit, which is better than no log.
		if l.trouble.Load() == nil {
			l.tell(gpu.Warning, "The daemon cannot begin a new file of the audit log, and goes on with the old one: %v", err)
		}
		return nil
	}
	l.close()
	l.first, l.doubtful = 0, false
	if l.file, err = file.OpenLines(l.folder, CurrentName); err != nil {
		return err
	}
	if err := l.begin(now); err != nil {
		l.close()
		return err
	}
	return nil
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
		oldest, _ = Rotated.Of(kept[0])
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
