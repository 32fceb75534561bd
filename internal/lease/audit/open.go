package audit

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/file"
)

// open opens the log after the newest line that is there. It completes a line
// that was cut off, and writes down which entries are missing. The caller holds
// mu, and the log is not open.
func (l *Log) open(now time.Time) error {
	names, err := file.Names(l.folder)
	if err != nil {
		return err
	}
	if l.file, err = file.OpenLines(l.folder, CurrentName); err != nil {
		return err
	}
	if l.end == nil || l.end.size != l.file.Size() { // nobody reads the file again and again while the disk is full
		l.end, err = l.findEnd(Order(names))
	}
	if err == nil {
		l.end.size = l.file.Size()
		l.first, l.newest, l.oldest = l.end.first, Mark{Seq: l.end.seq, Hash: l.end.hash}, max(l.end.oldest, 1)
		err = l.mend(l.end, now)
	}
	if err != nil {
		l.close()
		return err
	}
	l.expect, l.checked = Mark{}, true
	return nil
}

// ending describes how the log ends, as its files say.
type ending struct {
	first uint64 // number of the first entry of the file that is written to; 0 if it has none
	seq   uint64 // of the newest entry; 0 if there is none
	hash  string // of the last line

	open    bool   // the last line has no newline
	garbage bool   // the last line is no entry
	bytes   int    // of that line
	whole   string // hash of the newest entry; empty if there is none

	size   int64  // of the file that is written to
	oldest uint64 // the oldest entry that is kept, as the newest Rotate says; 0 if there is no Rotate
	found  bool   // the expected entry is there
	broken string // what is wrong with earlier lines of the file that is written to and was not reported yet
}

// findEnd reads the files from the newest one back, until it has found an entry, the one
// that is expected, and what is kept. The caller holds mu.
func (l *Log) findEnd(names []string) (*ending, error) {
	e := &ending{found: l.expect.Seq == 0}
	for i := len(names) - 1; i >= 0 && (e.seq == 0 || !e.found || e.oldest == 0); i-- {
		text, err := l.folder.ReadFile(names[i])
		if err != nil {
			return nil, err
		}
		l.scan(e, text, names[i] == CurrentName)
	}
	return e, nil
}

// scan reads one file from its end back, as far as it has to. The caller has scanned
// newer files before.
func (l *Log) scan(e *ending, text []byte, current bool) {
	for rest := text; len(rest) > 0 && (e.seq == 0 || !e.found); {
		from := bytes.LastIndexByte(rest[:len(rest)-1], '\n') + 1
		line := rest[from:]
		rest = rest[:from]
		hash := Hash(line)
		entry, is := Parse(line)
		if e.hash == "" {
			e.hash, e.garbage, e.bytes = hash, !is, len(line)
			e.open = current && !bytes.HasSuffix(line, []byte("\n"))
		}
		if e.seq == 0 && is {
			e.seq, e.whole = entry.Seq, hash
		}
		e.found = e.found || hash == l.expect.Hash
	}
	first := firstOf(text)
	if current {
		if e.first = first.Seq; !l.checked {
			e.broken = broken(text, l.expect.Hash)
		}
	}
	if e.oldest == 0 {
		e.oldest = OldestOf(&first)
	}
}

// broken says what is wrong with the lines from the newest Lost entry to the line with a
// hash, which the disk had; it returns "" if nothing is. Damage before a Lost entry was
// reported when that was written, and a power cut may leave anything of later lines.
func broken(text []byte, hash string) string {
	from, at, end := 0, 0, 0
	for line := range bytes.Lines(text) {
		at += len(line)
		if e, _ := Parse(line); e.What == Lost {
			from = at
		}
		if Hash(line) == hash {
			end = at
			break
		}
	}
	if end <= from {
		return ""
	}
	var c Checker
	c.Read(File{Name: CurrentName, Text: text[from:end]})
	for _, p := range c.Verdict().Problems {
		if p.Line > 0 { // files before this one are not looked at
			return p.Text
		}
	}
	return ""
}

// firstOf returns the first entry of a file; the zero value if there is none.
func firstOf(text []byte) api.AuditEntry {
	for line := range bytes.Lines(text) {
		if entry, is := Parse(line); is {
			return entry
		}
	}
	return api.AuditEntry{}
}

// mend makes the log ready for the next entry. The caller holds mu.
func (l *Log) mend(e *ending, now time.Time) error {
	if e.open {
		if err := l.file.Append([]byte("\n")); err != nil {
			return err
		}
	}
	if e.hash == "" {
		l.newest.Hash = l.expect.Hash // of the line before, wherever that is
	}
	missing := uint64(0)
	if !e.found && l.expect.Seq > e.seq {
		missing = l.expect.Seq - e.seq
		l.newest.Seq = l.expect.Seq // the numbers go on, so that the gap stays visible
	}
	if l.file.Size() == 0 && l.newest.Seq > 0 && e.seq > 0 {
		if err := l.begin(now); err != nil {
			return err
		}
	}
	if e.garbage {
		why := fmt.Sprintf("a crash cut off the line before, of %d bytes; nobody had the answer to it", e.bytes)
		if err := l.note(Torn, why, map[string]string{Whole: e.whole}, now); err != nil {
			return err
		}
		l.tell(gpu.Warning, "The audit log ended in the middle of a line, which a crash cut off; nobody had the answer to it.")
	}
	why := fmt.Sprintf("entry %d is not the one that the daemon wrote: the log was changed", l.expect.Seq)
	switch {
	case e.found && e.broken == "":
		return nil
	case e.found:
		why = e.broken
	case missing > 0:
		why = fmt.Sprintf("the log ended with entry %d, and the daemon had written entry %d: %d at its end are missing", e.seq, l.expect.Seq, missing)
	}
	if err := l.note(Lost, why, nil, now); err != nil {
		return err
	}
	l.lost.Store(true)
	l.tell(gpu.Serious, "The audit log lost entries: %s. Run berth audit verify, and find out who changed it.", strings.TrimSuffix(why, "."))
	return nil
}

// note writes an entry about the log itself. The caller holds mu.
func (l *Log) note(what, why string, after map[string]string, now time.Time) error {
	return l.append(l.line(api.AuditEntry{
		Who: Who(access.Daemon()), What: what, Object: api.AuditObject{Kind: "log"}, After: after, Why: why, Outcome: Done,
	}, now))
}
