// Package events keeps events and hands them to readers.
//
// A Log keeps the newest in memory. Readers pull from there at their own pace, so a slow
// reader falls behind, gets a gap event, and never delays a publisher. Keep is one of
// these readers: it writes the events to a folder, from which the next daemon recalls
// them. A Backlog decides which events have room. A Ration limits how many warnings about
// one user are published at all.
package events

import (
	"fmt"
	"math"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/quickjson"
)

const (
	// share is the most warnings about one user that are kept.
	share = 256
	// memory is the most bytes of each of the three parts of a backlog: notes, warnings
	// about devices and the daemon, and warnings about users.
	memory = 4 << 20
	// early is the age below which a displaced event counts. A reader that was away for
	// longer cannot expect it.
	early = 10 * time.Minute
)

// Log holds the newest events. Its zero value is not usable.
type Log struct {
	mu      sync.Mutex
	offer   func(*Entry) // see Attach; nil if nobody is attached
	lost    func(*Entry)
	kept    *Backlog[*Entry]
	next    uint64        // id of the next event
	newest  time.Time     // time of the newest event
	waiting chan struct{} // closed when an event comes; nil if nobody waits
	recent  [recent]*Entry
	urgent  chan struct{} // has room for one value, sent after a warning or worse
}

// New returns a log that keeps the newest size notes, as many warnings about devices and
// the daemon, and as many about all users together. Ids begin at the current time in
// microseconds, so that they grow across restarts even if nothing was kept: no daemon
// publishes a million events a second for its whole life.
func New(size int, now time.Time) *Log {
	return newLog(Limits{Notes: size, Warnings: size, Share: min(share, size), Bytes: memory}, now)
}

func newLog(limits Limits, now time.Time) *Log {
	l := &Log{next: uint64(max(now.UnixMicro(), 1)), urgent: make(chan struct{}, 1)}
	l.kept = NewBacklog(limits, l.displaced)
	return l
}

// Attach makes a Log call offer with every event, in the order of the ids, and lost with an
// event that newer ones displaced within 10 minutes. Both must return at once, and must not
// publish; either may be nil. Call it before the first Publish.
func (l *Log) Attach(offer, lost func(*Entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.offer, l.lost = offer, lost
}

// Publish gives e the next id and keeps it. The event must be trimmed.
func (l *Log) Publish(e gpu.Event) { l.publish(&Entry{event: e}, memoryOf(&e)) }

// PublishLate is like Publish, for a note without its sentence and its data. Rest adds
// them when somebody first reads the event, if anybody does. What rest holds on to counts
// as lateSize bytes.
func (l *Log) PublishLate(e gpu.Event, rest func(*gpu.Event)) {
	e = e.Trimmed()
	l.publish(&Entry{event: e, rest: rest}, memoryOf(&e)+lateSize)
}

// publish keeps an event that takes so many bytes of memory.
func (l *Log) publish(entry *Entry, size int) {
	e := &entry.event
	l.mu.Lock()
	defer l.mu.Unlock()
	e.ID = l.next
	l.next++
	l.newest = e.Time
	l.age(entry)
	l.kept.add(e, entry, size)
	if l.offer != nil {
		l.offer(entry)
	}
	if e.Severity.AtLeast(gpu.Warning) {
		select {
		case l.urgent <- struct{}{}:
		default:
		}
	}
	if l.waiting != nil {
		close(l.waiting)
		l.waiting = nil
	}
}

// age makes the oldest of the recent entries drop its encodings.
func (l *Log) age(entry *Entry) {
	oldest := &l.recent[entry.event.ID%recent]
	if *oldest != nil {
		(*oldest).forget()
	}
	*oldest = entry
}

func (l *Log) displaced(entry *Entry) {
	if l.lost != nil && l.newest.Sub(entry.event.Time) < early {
		l.lost(entry)
	}
}

// Entries returns at most most events after an id, oldest first, and a channel that is
// closed when there are more. If an event after that id existed and is no longer kept,
// the first entry is a gap that says so. An id of 0 asks for all kept events and never
// returns a gap.
func (l *Log) Entries(after uint64, most int) ([]*Entry, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		l.waiting = make(chan struct{})
	}
	// A daemon whose clock was ahead assigned this id, so nothing is known about the
	// events between.
	future := after >= l.next
	from := after
	if future {
		from = 0
	}
	found, all := l.kept.After(from, most)
	missed := future || uint64(all) < l.next-1-after
	if missed && after != 0 {
		found = append([]*Entry{{event: l.gap(found)}}, found...)
	}
	return found, l.waiting
}

// gap returns an event with an id just before the oldest one found, so that a reader that
// resumes from it misses no kept event.
func (l *Log) gap(found []*Entry) gpu.Event {
	e := gpu.Event{
		ID: l.next - 1, Time: l.newest, Code: gpu.EventGap, Severity: gpu.Warning,
		Text: "Some events after the last one you have are not kept any more, or were before the daemon started.",
	}
	if len(found) > 0 {
		e.ID, e.Time = found[0].event.ID-1, found[0].event.Time
		e.Text = fmt.Sprintf("%s The oldest kept is %d.", e.Text, found[0].event.ID)
	}
	return e
}

// Kept is like Entries, for readers that need no encoding.
func (l *Log) Kept(after uint64) ([]gpu.Event, <-chan struct{}) {
	entries, more := l.Entries(after, math.MaxInt)
	if len(entries) == 0 {
		return nil, more
	}
	found := make([]gpu.Event, len(entries))
	for i, entry := range entries {
		found[i] = *entry.Event()
	}
	return found, more
}

// recent is the number of newest entries that keep their encodings. Readers that follow
// the log are not further behind, and keeping all encodings would take too much memory.
const recent = 1024

// Entry is a kept event. All readers share it.
type Entry struct {
	event   gpu.Event // does not change, except that whole adds its sentence and its data
	rest    func(*gpu.Event)
	whole   sync.Once
	encoded [Views]atomic.Pointer[[]byte]
	old     atomic.Bool
}

// ID returns the id of the event.
func (e *Entry) ID() uint64 { return e.event.ID }

// Head returns the event, perhaps without its sentence and its data.
func (e *Entry) Head() *gpu.Event { return &e.event }

// Event returns the event. Nobody may change it.
func (e *Entry) Event() *gpu.Event {
	e.whole.Do(func() {
		if e.rest == nil {
			return
		}
		event := e.event
		e.rest(&event)
		event = event.Trimmed()
		e.event.Text, e.event.Public, e.event.Data = event.Text, event.Public, event.Data
		e.rest = nil
	})
	return &e.event
}

// View numbers the forms in which readers see one event, from 0 up to Views. The encoder
// decides what each form hides.
type View int

// Views is the number of views.
const Views = 3

// JSON returns the event as one line of JSON. It encodes each view of a recent event only
// once for all readers. Show changes the event for that view, and must return the same
// for every reader of it. If show is nil, JSON encodes the event unchanged.
func (e *Entry) JSON(view View, show func(gpu.Event) gpu.Event) []byte {
	if text := e.encoded[view].Load(); text != nil {
		return *text
	}
	event := *e.Event()
	if show != nil {
		event = show(event)
	}
	text := eventCodec.Append(nil, &event)
	e.encoded[view].Store(&text)
	if e.old.Load() {
		e.encoded[view].Store(nil)
	}
	return text
}

// The codecs of an event for readers, and for the file.
var (
	eventCodec = quickjson.Codec[gpu.Event]{Inline: []any{gpu.By{}}}
	lineCodec  = quickjson.Codec[line]{Inline: []any{gpu.By{}}}
)

// forget frees the encodings, and makes JSON keep no new ones.
func (e *Entry) forget() {
	e.old.Store(true)
	for i := range e.encoded {
		if e.encoded[i].Load() != nil {
			e.encoded[i].Store(nil)
		}
	}
}

// Estimates of the memory that an event takes besides its texts.
const (
	eventSize = 320 // the event itself and the pointers to it
	dataSize  = 320 // a map of up to eight keys
	valueSize = 16  // a value that is not a text
	lateSize  = 600 // a sentence and data, or what they will be made of
)

// memoryOf estimates how many bytes of memory an event takes.
func memoryOf(e *gpu.Event) int {
	size := eventSize + len(e.GPU) + len(e.Lease) + len(e.User) + len(e.Text) + len(e.Public) + valueSize*len(e.Also)
	if e.Data != nil {
		size += sizeOf(e.Data)
	}
	return size
}

func sizeOf(v any) int {
	switch v := v.(type) {
	case int, int64, uint64, bool, float64, nil:
		return valueSize
	case string:
		return valueSize + len(v)
	case map[string]any:
		size := dataSize * (1 + len(v)/8)
		for key, value := range v {
			size += len(key) + sizeOf(value)
		}
		return size
	case []string:
		size := valueSize
		for _, element := range v {
			size += valueSize + len(element)
		}
		return size
	case []any:
		size := valueSize
		for _, element := range v {
			size += valueSize + sizeOf(element)
		}
		return size
	}
	if value := reflect.ValueOf(v); value.Kind() == reflect.String {
		return valueSize + value.Len()
	}
	return 2 * valueSize // a trimmed event holds nothing larger
}
