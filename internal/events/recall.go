package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/appendfile"
	"github.com/berth-gpu/berth/internal/words"
)

// A folder has one file, whose name ends with a number: each line is an event as
// JSON, with its public sentence. A new file begins with all that is kept, gets
// its name when it is whole, and replaces the one before.
const (
	prefix  = "events-"
	suffix  = ".jsonl"
	partial = ".new" // of a file that is not whole
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

// skipped is how far ids jump over events that a daemon that was killed may
// have published and not written.
const skipped = 1 << 20

// Recall restores the events that an earlier daemon kept in a folder. They go to
// readers and to no hook. Call it before the first Publish. The note says what
// could not be read; it is empty if all is well.
//
// Ids go on where they ended if the daemon before stopped in an orderly way, so a
// reader resumes without a gap. After a kill the newest events may be missing,
// so ids jump, and a reader that resumes is told so by a gap.
func (l *Log) Recall(folder appendfile.Folder) (note string) {
	number, name, err := newest(folder)
	if err != nil {
		return fmt.Sprintf("Events before the restart are not shown: %v", err)
	}
	if number == 0 {
		return ""
	}
	text, err := folder.Read(name)
	if err == nil && len(text) > largest {
		err = fmt.Errorf("it is larger than %d MiB", largest>>20)
	}
	if err != nil {
		return fmt.Sprintf("Events before the restart are not shown: cannot read %s: %v", name, err)
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
	if damaged > 0 {
		return fmt.Sprintf("%s of %s could not be read and %s left out: the daemon was killed while it wrote, or the file was damaged.",
			words.Count(damaged, "line"), name, words.Form(damaged, "is", "are"))
	}
	return ""
}

// restore keeps an event of an earlier daemon. The caller holds mu.
func (l *Log) restore(e gpu.Event) {
	entry := &Entry{Event: e}
	l.newest = e.Time
	l.age(entry)
	l.kept.Add(&entry.Event, entry)
}

// newest returns the newest file of a folder, by its number; 0: there is none.
func newest(folder appendfile.Folder) (number uint64, name string, err error) {
	names, err := folder.Names()
	for _, each := range names {
		if n, is := numberOf(each); is && n > number {
			number, name = n, each
		}
	}
	return number, name, err
}

// numberOf returns the number in the name of a file.
func numberOf(name string) (uint64, bool) {
	text, is := strings.CutSuffix(name, suffix)
	if !is {
		return 0, false
	}
	if text, is = strings.CutPrefix(text, prefix); !is {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && n > 0
}

// parseLines reads the content of a file. It counts the lines that are damaged
// and reports whether the last one says that no event is missing. Numbers in the
// data of events stay as they were written.
func parseLines(text []byte) (kept []gpu.Event, closed bool, damaged int) {
	last := uint64(0)
	for i, each := range bytes.SplitAfter(text, []byte("\n")) {
		if len(each) == 0 {
			continue
		}
		l, err := parseLine(each)
		switch {
		case err != nil:
			damaged++
			closed = false
			continue
		case l.Version != 0 && i == 0:
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

var errCut = errors.New("the line does not end")

func parseLine(text []byte) (l line, err error) {
	if text[len(text)-1] != '\n' {
		return l, errCut
	}
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

// appendLine appends an event as a line.
func appendLine(b []byte, e *gpu.Event) ([]byte, error) {
	text, err := json.Marshal(line{Event: *e, Public: e.Public})
	if err != nil {
		return b, err
	}
	return append(append(b, text...), '\n'), nil
}

// fileName returns the name of the file with a number.
func fileName(number uint64) string { return fmt.Sprintf("%s%06d%s", prefix, number, suffix) }
