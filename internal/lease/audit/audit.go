// Package audit keeps the log of acts of authority and of refusals: who did
// what to whose thing, when, through which door, and what it was before and
// after.
//
// Record writes an entry before the act is done and before the answer is sent; Run waits
// for the disk afterwards. The log has lines of JSON. Each carries the hash of the line
// before, and the journal names the newest line, so that Check notices a line that is
// missing, changed or out of order.
//
// The log never stops the daemon. If it cannot be written, Record returns an
// error and the act must not be done; a second later Record tries again.
package audit

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/file"
)

// ErrUnavailable is wrapped by the error of an entry that could not be written.
var ErrUnavailable = errors.New("the audit log cannot be written")

// Settings says how much of the log is kept.
type Settings struct {
	MaxSize int64 // bytes of one file
	Files   int   // how many files, with the one that is written to
}

// Log is the audit log. It is safe for concurrent use.
type Log struct {
	folder file.Folder
	marked *Marked         // the journal, which names the newest entry that the disk has; nil if there is none
	event  func(gpu.Event) // publishes that the log cannot be written, can be written again, or has lost entries; nil if nobody wants to know

	entries, failures atomic.Uint64
	trouble           atomic.Pointer[error] // nil if there is none
	lost              atomic.Bool           // entries were missing or changed when it was opened
	dirty             chan struct{}         // something was written that the disk may not have; has room for one

	mu       sync.Mutex // guards what follows
	settings Settings
	file     *file.Lines // nil if it is not open
	first    uint64      // number of its first entry; 0 if it has none
	oldest   uint64      // number of the oldest entry that is kept
	newest   Mark        // the newest entry, in this file or before
	expect   Mark        // an entry that must be there when the log is opened
	checked  bool        // earlier lines of the file were held against each other, and nobody else has changed it since
	end      *ending     // how the file ended when it was opened; nil if something was written since
	again    time.Time   // when to try again, after a failure
	doubtful bool        // the disk refused to sync the file, so the next entry goes to another one
	ration   ration
}

// Open returns the log in a folder. It completes a line that a crash cut off, and says
// which entries are missing: the journal, which may be nil, names the newest one. A folder
// that cannot be read or written is no error: Record tries again. Event must not block.
func Open(folder file.Folder, s Settings, marked *Marked, event func(gpu.Event)) *Log {
	l := &Log{folder: folder, marked: marked, event: event, settings: s, dirty: make(chan struct{}, 1), ration: newRation()}
	if marked != nil {
		l.expect, marked.log = marked.Newest(), l
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if names, err := file.Names(l.folder); err == nil && len(Order(names)) == 0 && l.expect.Seq == 0 {
		return l // nothing was ever written: the first entry makes the file
	}
	if err := l.open(time.Now()); err != nil {
		l.failed(err)
	}
	return l
}

// Configure changes how much is kept, from the next entry on.
func (l *Log) Configure(s Settings) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settings = s
}

// Record writes an entry. The caller leaves out the number, the time and the
// hash. If Record returns an error, which wraps ErrUnavailable, the caller does
// not do what the entry says. A nil Log writes nothing.
func (l *Log) Record(e api.AuditEntry) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record(e)
}

// retry is how long Record refuses after a failure before it tries again.
const retry = time.Second

// record writes an entry. The caller holds mu.
func (l *Log) record(e api.AuditEntry) error {
	now := time.Now()
	err := l.Trouble()
	if err == nil || !now.Before(l.again) { // whoever is refused must not keep the disk, and those behind mu, busy
		if err = l.ready(now); err == nil {
			err = l.write(e, now)
		}
		l.again = now.Add(retry)
	}
	if err != nil {
		l.failed(err)
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	l.recovered()
	select {
	case l.dirty <- struct{}{}:
	default: // Run is about to sync anyway
	}
	return nil
}

// ready opens the log if it is not open, or if somebody removed or changed the file
// meanwhile. The caller holds mu.
func (l *Log) ready(now time.Time) error {
	switch {
	case l.file.Stands():
		return nil
	case l.file != nil:
		l.expect, l.checked, l.end = l.newest, false, nil
		l.close()
	}
	return l.open(now)
}

// write appends an entry to the file, and begins another file if this one is
// full. The caller holds mu.
func (l *Log) write(e api.AuditEntry, now time.Time) error {
	line := l.line(e, now)
	if l.first != 0 && (l.doubtful || l.file.Size()+int64(len(line)) > l.settings.MaxSize) {
		if err := l.rotate(now); err != nil {
			return err
		}
		line = l.line(e, now) // the number has changed
	}
	return l.append(line)
}

// line returns the next line of the log. The caller holds mu.
func (l *Log) line(e api.AuditEntry, now time.Time) []byte {
	e.Seq, e.Time, e.Prev = l.newest.Seq+1, now.UTC(), l.newest.Hash
	return Line(e)
}

// append appends the next line. If it writes only a part of the line, the log opens the
// file again before the next line, which completes that part. The caller holds mu.
func (l *Log) append(line []byte) error {
	if err := l.file.Append(line); err != nil {
		if l.expect == (Mark{}) {
			l.expect = l.newest
		}
		l.close()
		return err
	}
	l.newest, l.end = Mark{Seq: l.newest.Seq + 1, Hash: Hash(line)}, nil
	if l.first == 0 {
		l.first = l.newest.Seq
	}
	l.entries.Add(1)
	return nil
}

// close closes the file. The caller holds mu.
func (l *Log) close() {
	l.file.Close()
	l.file = nil
}

// failed notes that the log cannot be written, and says so once.
func (l *Log) failed(err error) {
	l.failures.Add(1)
	if l.trouble.Swap(&err) == nil {
		l.tell(gpu.Serious, "The daemon cannot write the audit log, so it refuses acts of authority; leases are not affected: %v", err)
	}
}

// recovered notes that the log can be written.
func (l *Log) recovered() {
	if l.trouble.Load() != nil && l.trouble.Swap(nil) != nil {
		l.tell(gpu.Note, "The daemon can write the audit log again.")
	}
}

func (l *Log) tell(severity gpu.Severity, format string, args ...any) {
	if l.event != nil {
		l.event(gpu.Event{Time: time.Now(), Code: gpu.EventAudit, Severity: severity, Text: fmt.Sprintf(format, args...)})
	}
}

// Trouble returns why the log cannot be written; nil if it can.
func (l *Log) Trouble() error {
	if err := l.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// Lost reports whether entries were missing or changed when the log was opened.
func (l *Log) Lost() bool { return l.lost.Load() }

// Counts returns how many entries were written since the start, and how often
// that failed. A nil log has none.
func (l *Log) Counts() (entries, failures uint64) {
	if l == nil {
		return 0, 0
	}
	return l.entries.Load(), l.failures.Load()
}

// Who returns an actor as entries name it.
func Who(a access.Actor) api.AuditActor {
	who := api.AuditActor{User: a.User, Role: a.Role.String(), Door: string(a.Door), Token: a.Token, Address: a.Address, Agent: a.Agent}
	if a.Door == access.Itself {
		return api.AuditActor{Door: string(a.Door)}
	}
	if a.UID != access.NoUID {
		who.UID = gpu.Some(a.UID)
	}
	return who
}
