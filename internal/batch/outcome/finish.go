package outcome

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Finish gives the output its name, in order if the shape says so, and removes the
// folder. total is the number of records in the input.
//
// The process may be killed at any point. Until the journal says that the run is
// complete, the next run can do everything again from the outcomes. After that, only the
// rename and the cleanup are left, and both can be repeated too.
func (l *Log) Finish(total int64) error {
	p := l.place
	from := logName
	rewrite := p.shape.Ordered && !(l.tidy && p.shape.Format == JSONL && p.shape.Packing == None)
	if rewrite {
		from = orderedName
	}
	if !l.over {
		if l.done.count != total || l.top > total {
			return fmt.Errorf("output: %d outcomes for %d records: this is a mistake in berth; the outcomes are in %s", l.done.count, total, p.folder.dir.Name())
		}
		if l.total < 0 { // from here on, the input is not needed any more
			if err := p.journal.append(entry{Total: &total}); err != nil {
				return err
			}
			l.total = total
		}
		if rewrite {
			if err := l.order(total); err != nil {
				return err
			}
		} else if err := l.headerOfNothing(); err != nil {
			return err
		}
		if err := p.journal.append(entry{Complete: true}); err != nil {
			return err
		}
		l.over = true
	}
	if err := p.rename(from); err != nil {
		return err
	}
	return l.tidyUp()
}

// headerOfNothing writes the header of a CSV without records.
func (l *Log) headerOfNothing() error {
	if l.table == nil || !l.table.settled() || l.bytes > 0 {
		return nil
	}
	l.buf.Reset()
	l.table.header(&l.buf)
	_, err := l.put()
	return err
}

// rename moves a file of the folder to the output. If the file is gone and the
// output exists, rename has nothing left to do.
func (p *Place) rename(from string) error {
	file, err := p.folder.open(from, 0, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if exists, err := p.outputExists(); err != nil || exists {
			return err
		}
		return fmt.Errorf("output: %s is gone, and %s was removed: use --force to begin again", p.folder.path(from), p.site.path)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	exists, err := p.outputExists()
	if err != nil {
		return err
	}
	if exists && !p.replace {
		return p.appearedError()
	}
	if exists {
		if err := p.keepMode(file); err != nil {
			return fmt.Errorf("output: %w", err)
		}
	}
	if err := p.takeName(from); err != nil {
		return err
	}
	return writeError("sync", p.site.dir.Name(), p.site.dir.Sync())
}

// takeName gives a file of the folder the name of the output. Unless the run replaces an
// output, it replaces nothing that has come since somebody looked, where the disk can
// promise that. If a link has that name, it replaces the link, and not the file it leads to.
func (p *Place) takeName(from string) error {
	folder, dir := int(p.folder.dir.Fd()), int(p.site.dir.Fd())
	err := error(unix.EINVAL)
	if !p.replace {
		err = unix.Renameat2(folder, from, dir, p.site.name, unix.RENAME_NOREPLACE)
	}
	switch {
	case errors.Is(err, unix.EEXIST):
		return p.appearedError()
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		err = unix.Renameat(folder, from, dir, p.site.name)
	}
	return writeError("rename to", p.site.path, err)
}

// keepMode gives a file the permissions of the output that it replaces: a user
// who could not read the old one cannot read the new one. If the old one
// belongs to somebody else, nobody gets more than this user's mask allows.
func (p *Place) keepMode(file *os.File) error {
	mode := p.mode
	if p.foreign {
		stat, err := file.Stat()
		if err != nil {
			return err
		}
		mode &= stat.Mode().Perm()
	}
	return file.Chmod(mode)
}

// tidyUp removes the folder, and the journal last: the journal says what the
// other files are.
func (l *Log) tidyUp() error {
	p := l.place
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
	err := p.folder.remove(logName, orderedName, spoolName, journalName)
	if err == nil {
		err = p.site.removeFolder()
	}
	if err != nil {
		return fmt.Errorf("output: the run is complete, but %w", err)
	}
	return nil
}

// window is the number of records that are ordered at a time. Their stretches are held in
// memory, 24 bytes each.
const window = 2 << 20

// order writes the outcomes in the order of the input.
func (l *Log) order(total int64) error {
	f, err := l.place.create(orderedName, os.O_TRUNC)
	if err != nil {
		return err
	}
	defer f.Close()
	buffered := bufio.NewWriterSize(f, 256<<10)
	out, err := newStream(l.place.shape.Packing, buffered)
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	if err := l.copyInOrder(out, total); err != nil {
		return err
	}
	if err := errors.Join(out.Close(), buffered.Flush(), f.Sync()); err != nil {
		return writeError("write", f.Name(), err)
	}
	return nil
}

func (l *Log) copyInOrder(out io.Writer, total int64) error {
	write := func(data []byte) error {
		_, err := out.Write(data)
		return writeError("write", orderedName, err)
	}
	if l.place.shape.Format == CSV {
		t := &table{}
		columns, err := l.settleColumns(total)
		if err != nil {
			return err
		}
		t.settle(columns)
		var row bytes.Buffer
		plain := write
		write = func(data []byte) error {
			row.Reset()
			for line := range bytes.Lines(data) {
				t.row(&row, bytes.TrimSuffix(line, []byte("\n")))
			}
			return plain(row.Bytes())
		}
		if t.header(&row); t.settled() {
			if err := plain(row.Bytes()); err != nil {
				return err
			}
		}
	}
	return l.inOrder(total, write)
}

// inOrder passes the bytes of each stretch to each, in the order of the input.
func (l *Log) inOrder(total int64, each func([]byte) error) error {
	type piece struct{ first, offset, bytes int64 }
	var pieces []piece
	var buf []byte
	for low := int64(0); low < total; low += window {
		pieces = pieces[:0]
		offset := int64(0)
		_, err := l.place.journal.replay(func(e entry) error {
			if e.Commit != nil {
				for s := range e.Commit.each {
					if s.first >= low && s.first < low+window {
						pieces = append(pieces, piece{s.first, offset, s.bytes})
					}
					offset += s.bytes
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("output: read the journal: %w", err)
		}
		slices.SortFunc(pieces, func(a, b piece) int { return cmp.Compare(a.first, b.first) })
		for _, p := range pieces {
			buf = slices.Grow(buf[:0], int(p.bytes))[:p.bytes]
			if _, err := l.file.ReadAt(buf, p.offset); err != nil {
				return fmt.Errorf("output: read %s: %w", l.file.Name(), err)
			}
			if err := each(buf); err != nil {
				return err
			}
		}
	}
	return nil
}

// settleColumns finds the columns of an ordered CSV, so that they do not depend
// on which outcome came first.
func (l *Log) settleColumns(total int64) ([]string, error) {
	if columns := l.place.shape.Columns; columns != nil {
		return columns, nil
	}
	var first, good []byte
	err := l.inOrder(total, func(data []byte) error {
		for line := range bytes.Lines(data) {
			line = bytes.TrimSuffix(line, []byte("\n"))
			if first == nil {
				first = bytes.Clone(line)
			}
			if !Success(0, line).Failed {
				good = bytes.Clone(line)
				return errStop
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStop) {
		return nil, err
	}
	if good == nil {
		good = first
	}
	if good == nil {
		return nil, nil
	}
	return columnsOf([]Outcome{{Data: good}}), nil
}
