package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/text/words"
)

// A folder has one file, whose name ends with a number. Each line is an event as JSON,
// with its public sentence and a checksum. A new file begins with all kept events, gets
// its name when it is whole, and replaces the one before.
var names = file.Numbered{Prefix: "events-", Digits: 6, Suffix: ".jsonl"}

const (
	partial = ".new" // suffix of a file that is not whole
	largest = 64 << 20
)

// line is a line of a file: an event, or one of the marks.
type line struct {
	gpu.Event
	Public  string `json:"public,omitempty"`
	Version int    `json:"version,omitempty"` // of the format, in the first line
	Closed  bool   `json:"closed,omitempty"`  // the daemon stopped in an orderly way, and no event is missing
}

const version = 1

// The marks: the first line of every file, and the last one of a daemon that
// stopped in an orderly way.
const (
	opening = `{"version":1}` + "\n"
	closing = `{"closed":true}` + "\n"
)

// skipped is how far ids jump, to pass events that a killed daemon may have published but
// not written.
const skipped = 1 << 20

// Recall restores the events that an earlier daemon kept in a folder. Readers get them,
// hooks do not. Call it before the first Publish. It restores what it can read of a
// damaged file, sets the file aside and returns the damage, or nil if all is well. What
// could not be read at all stays where it is.
//
// If the daemon before stopped in an orderly way, ids continue, so a reader resumes
// without a gap. After a kill the newest events may be missing, so ids jump, and a reader
// that resumes gets a gap.
func (l *Log) Recall(folder file.Folder) *file.Damage {
	number, name, err := newest(folder)
	if err != nil {
		return &file.Damage{Path: "events", Lost: lost, Err: err, Unread: file.Unread(err)}
	}
	if number == 0 {
		return nil
	}
	text, err := folder.ReadFile(name)
	if err == nil && len(text) > largest {
		text, err = nil, fmt.Errorf("it is larger than %d MiB", largest>>20)
	}
	kept, closed, damaged := parseLines(text)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range kept {
		l.restore(kept[i])
	}
	if n := len(kept); n > 0 {
		last := kept[n-1].ID
		if closed && damaged == 0 {
			l.next = last + 1
		} else {
			l.next = max(l.next, last+skipped)
		}
	}
	if err == nil && damaged > 0 {
		err = fmt.Errorf("%s cannot be read: the machine or the daemon died while it was written, or the disk has changed it", words.Count(damaged, "line"))
	}
	if err != nil {
		return file.SetAsideIn(folder, name, lost, err)
	}
	return nil
}

// lost says what a damaged file leads to.
const lost = "Events of before the restart are missing from the list of events."

// restore keeps an event of an earlier daemon. The caller holds mu.
func (l *Log) restore(e gpu.Event) {
	entry := &Entry{event: e}
	l.newest = e.Time
	l.age(entry)
	l.kept.Add(&entry.event, entry)
}

// newest returns the newest file of a folder, by its number, or 0 if there is none.
func newest(folder file.Folder) (number uint64, name string, err error) {
	all, err := file.Names(folder)
	for _, each := range all {
		if n, is := names.Of(each); is && n > number {
			number, name = n, each
		}
	}
	return number, name, err
}

// parseLines reads the content of a file. It counts the damaged lines and reports whether
// the last one says that no event is missing. It keeps numbers in the data of events as
// they were written.
func parseLines(text []byte) (kept []gpu.Event, closed bool, damaged int) {
	if len(text) == 0 { // a file gets its name after its first line is written
		return nil, false, 1
	}
	last, number := uint64(0), 0
	for object, whole := range file.UnsealLines(text) {
		number++
		l, err := parseLine(object)
		switch {
		case !whole || err != nil:
			damaged++
			closed = false
			continue
		case l.Version != 0 && number == 1:
			if l.Version != version {
				return nil, false, 1
			}
			continue
		case l.Closed:
			closed = true
			continue
		}
		closed = false
		if l.ID <= last || l.ID > 1<<62 {
			damaged++
			continue
		}
		last = l.ID
		e := l.Event
		e.Public = l.Public
		kept = append(kept, e)
	}
	return slices.Clip(kept), closed, damaged
}

func parseLine(text []byte) (l line, err error) {
	from := json.NewDecoder(bytes.NewReader(text))
	from.UseNumber()
	if err := from.Decode(&l); err != nil {
		return l, err
	}
	if _, err := from.Token(); err != io.EOF {
		return l, errors.New("there is more than one value on the line")
	}
	return l, nil
}

// appendLine appends an event as a line. The event must be trimmed.
func appendLine(b []byte, e *gpu.Event) []byte {
	text := lineCodec.Append(nil, &line{Event: *e, Public: e.Public})
	return append(append(b, file.SealLine(text)...), '\n')
}
