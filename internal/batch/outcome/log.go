package outcome

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
)

// Log writes the outcomes of one run. Only one goroutine may use it, except for
// Done.
type Log struct {
	place *Place
	file  *os.File
	bytes int64        // bytes that are committed
	mu    sync.RWMutex // guards done
	done  *set
	fails int64
	last  int64 // the record after the last one in the file
	top   int64 // the record after the highest one in the file
	tidy  bool  // whether the outcomes are in the order of the input
	total int64 // records of the input, if the journal says it; otherwise -1
	over  bool  // whether the journal says that the run is complete

	// An ordered output is written twice: first as it comes, as JSON lines,
	// then in order, in its final shape.
	table *table // for CSV that is written as it comes
	pack  packer
	buf   bytes.Buffer
}

// stretchBytes is the length at which a stretch is full and the next record
// begins a new one. Ordering holds one stretch in memory.
const stretchBytes = 1 << 20

func (p *Place) beginNew(command []string, input json.RawMessage) (*Log, error) {
	h := &header{Version: journalVersion, Input: input, Shape: p.shape, Command: command, Replace: p.replace}
	l, err := p.open()
	if err != nil {
		return nil, err
	}
	if err := p.journal.append(entry{Header: h}); err != nil {
		return nil, errors.Join(err, l.file.Close())
	}
	p.begun = h
	if err := errors.Join(p.folder.dir.Sync(), p.site.dir.Sync()); err != nil {
		return nil, errors.Join(writeError("sync", p.folder.dir.Name(), err), l.file.Close())
	}
	return l, nil
}

func (p *Place) open() (*Log, error) {
	l := &Log{place: p, done: newSet(), tidy: true, total: -1}
	if !p.shape.Ordered {
		l.pack = newPacker(p.shape.Packing)
		if p.shape.Format == CSV {
			l.table = &table{}
			l.table.settle(p.shape.Columns)
		}
	}
	var err error
	if l.file, err = p.create(logName, 0); err != nil {
		return nil, err
	}
	return l, nil
}

// resume reads the journal and cuts the files back to what it says. It forgets
// commits whose bytes are missing, because a disk may lose what it promised.
func (p *Place) resume() (*Log, error) {
	complete := false
	_, err := p.journal.replay(func(e entry) error {
		complete = complete || e.Complete
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("output: read %s: %w", p.journal.file.Name(), err)
	}
	if complete { // killed while it renamed the output, which may have its final name already: do not open it
		l := &Log{place: p, done: newSet(), tidy: true, over: true}
		_, err := p.journal.replay(func(e entry) error { return l.learn(e.Commit) })
		return l, err
	}
	if exists, err := p.outputExists(); err != nil || exists && !p.replace {
		return nil, cmp.Or(err, p.appearedError())
	}
	l, err := p.open()
	if err != nil {
		return nil, err
	}
	if err := l.recover(); err != nil {
		return nil, errors.Join(err, l.file.Close())
	}
	return l, nil
}

func (l *Log) recover() error {
	stat, err := l.file.Stat()
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	end, err := l.place.journal.replay(func(e entry) error {
		if e.Commit != nil && (e.Commit.Bytes > stat.Size() || !l.follows(e.Commit)) {
			return errStop
		}
		if e.Total != nil {
			l.total = *e.Total
		}
		return l.learn(e.Commit)
	})
	if err != nil {
		return err
	}
	if err := l.place.journal.cut(end); err != nil {
		return err
	}
	return writeError("shorten", l.file.Name(), l.file.Truncate(l.bytes))
}

// follows reports whether the bytes of a commit are those of its outcomes, after those
// that are known. The compressed length of outcomes cannot be checked; the first commit
// of a CSV has its header too.
func (l *Log) follows(c *commit) bool {
	more := c.Bytes - l.bytes
	switch {
	case l.pack != nil:
		return more >= 0
	case l.table != nil && l.bytes == 0:
		return more >= c.size()
	}
	return more == c.size()
}

// learn takes over the contents of a commit.
func (l *Log) learn(c *commit) error {
	if c == nil {
		return nil
	}
	l.bytes = c.Bytes
	l.fails += c.Failed
	if c.Columns != nil && l.table != nil {
		l.table.settle(c.Columns)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for f := range c.each {
		l.tidy = l.tidy && f.first == l.last
		l.last = f.first + f.count
		l.top = max(l.top, l.last)
		for i := range f.count {
			if !l.done.add(f.first + i) {
				return fmt.Errorf("output: the journal %s has record %d twice: use --force to begin again", l.place.journal.file.Name(), f.first+i)
			}
		}
	}
	return nil
}

// Done reports whether the outcome of a record is committed.
func (l *Log) Done(index int64) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.done.has(index)
}

// Counts returns how many outcomes are committed, and how many of them failed.
func (l *Log) Counts() (done, failed int64) { return l.done.count, l.fails }

// Complete reports whether the run had every outcome when it was resumed: then only
// Finish is left.
func (l *Log) Complete() bool { return l.over || l.total == l.done.count }

// Commit writes a group of outcomes and waits until the disk has them. After an
// error the group is not committed, and the caller can only close the log.
func (l *Log) Commit(group []Outcome) error {
	if len(group) == 0 {
		return nil
	}
	slices.SortFunc(group, func(a, b Outcome) int { return cmp.Compare(a.Index, b.Index) })
	c := &commit{}
	l.buf.Reset()
	if l.table != nil && l.bytes == 0 {
		if !l.table.settled() {
			c.Columns = columnsOf(group)
			l.table.settle(c.Columns)
		}
		l.table.header(&l.buf)
	}
	for i := range group {
		if l.done.has(group[i].Index) || i > 0 && group[i-1].Index == group[i].Index {
			return fmt.Errorf("output: record %d has two outcomes: this is a mistake in berth", group[i].Index)
		}
		if group[i].Failed {
			c.Failed++
		}
		before := l.buf.Len()
		if l.table != nil {
			l.table.row(&l.buf, group[i].Data)
		} else {
			l.buf.Write(group[i].Data)
			l.buf.WriteByte('\n')
		}
		c.extend(group[i].Index, int64(l.buf.Len()-before))
	}
	var err error
	if c.Bytes, err = l.put(); err != nil {
		return err
	}
	if err := l.place.journal.append(entry{Commit: c}); err != nil {
		return err
	}
	return l.learn(c)
}

// put appends buf to the file, compressed if the shape says so, and waits until the disk
// has it. It returns the length of the file then.
func (l *Log) put() (end int64, err error) {
	data := l.buf.Bytes()
	if l.pack != nil {
		if data, err = l.pack.member(data); err != nil {
			return 0, fmt.Errorf("output: %w", err)
		}
	}
	if _, err := l.file.WriteAt(data, l.bytes); err != nil {
		return 0, writeError("write", l.file.Name(), err)
	}
	return l.bytes + int64(len(data)), writeError("sync", l.file.Name(), l.file.Sync())
}

// extend adds a record to the last stretch, or begins a new one if the record
// does not follow or the stretch is full.
func (c *commit) extend(index, bytes int64) {
	if n := len(c.Stretches); n > 0 {
		first, count, size := &c.Stretches[n-3], &c.Stretches[n-2], &c.Stretches[n-1]
		if *first+*count == index && *size+bytes <= stretchBytes {
			*count++
			*size += bytes
			return
		}
	}
	c.Stretches = append(c.Stretches, index, 1, bytes)
}

// worthless reports whether the run has nothing to continue from: a user who mistyped the
// command need not decide about the run that it began. A run that replaces an output is
// kept, because continuing it needs no --force.
func (l *Log) worthless() bool {
	_, err := l.place.folder.state(spoolName)
	return l.done.count == 0 && !l.place.replace && errors.Is(err, fs.ErrNotExist)
}

// Close keeps what is committed, so that another run can continue. A run
// without any outcome leaves nothing behind, unless it has kept a stream.
func (l *Log) Close() error {
	var err error
	if l.file != nil {
		err = l.file.Close()
		l.file = nil
		if l.worthless() {
			l.place.begun = nil
			err = errors.Join(err, l.place.wipe())
		}
	}
	return errors.Join(err, l.place.Close())
}
