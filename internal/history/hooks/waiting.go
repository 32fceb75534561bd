package hooks

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/history/events"
	"github.com/berth-gpu/berth/internal/text/words"
)

const (
	// queueMemory is the most bytes of each of the three parts of a queue.
	queueMemory = 2 << 20
	// keptMemory is the most bytes of all queues, so that the file has room for them.
	keptMemory = 32 << 20
)

// waiting holds the events that a hook has not received yet.
type waiting struct {
	more    chan struct{} // has room for one value, sent after an event was added
	dropped func()        // called for every dropped event
	changed func()        // called after every change; must return at once

	mu      sync.Mutex // guards what follows
	events  *events.Backlog[gpu.Event]
	current *gpu.Event // taken but not settled, now or before a restart; may be nil
	again   bool       // current is to be taken once more
	lost    loss
}

// loss counts the events dropped since the last gap event to the hook.
type loss struct {
	Events   int    `json:"events"`
	Warnings int    `json:"warnings"`
	First    uint64 `json:"first"` // id of the first
}

// newWaiting returns an empty queue, one of several.
func newWaiting(size, queues int, dropped, changed func()) *waiting {
	w := &waiting{more: make(chan struct{}, 1), dropped: dropped, changed: changed}
	limits := events.Limits{Notes: size, Warnings: size, Share: min(256, size), Bytes: min(queueMemory, keptMemory/3/queues)}
	w.events = events.NewBacklog(limits, w.drop)
	return w
}

// add puts an event into the queue, and drops others if there is no room.
func (w *waiting) add(e gpu.Event) {
	w.mu.Lock()
	w.events.Add(&e, e)
	w.mu.Unlock()
	w.changed()
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// drop counts an event that there is no room for. The caller of Add holds mu.
func (w *waiting) drop(e gpu.Event) {
	if w.lost.Events == 0 || e.ID < w.lost.First {
		w.lost.First = e.ID
	}
	w.lost.Events++
	if e.Severity.AtLeast(gpu.Warning) {
		w.lost.Warnings++
	}
	w.dropped()
}

// take returns the next event to deliver, or false. If events were dropped, it returns a
// gap event with the id of the first of them. The event stays in left until settle is
// called.
func (w *waiting) take() (gpu.Event, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.again {
		w.again = false
		return *w.current, true
	}
	next, found := w.events.Oldest()
	if w.lost.Events > 0 && (!found || next.ID > w.lost.First) {
		next, found = w.lost.event(time.Now()), true
		w.lost = loss{}
	} else {
		next, found = w.events.Take()
	}
	if found {
		w.current = &next
	}
	return next, found
}

// settle records that the event of take must not be delivered again.
func (w *waiting) settle() {
	w.mu.Lock()
	w.current, w.again = nil, false
	w.mu.Unlock()
	w.changed()
}

// unsettle takes settle back, for an event that is to be delivered after all.
func (w *waiting) unsettle(e gpu.Event) {
	w.mu.Lock()
	w.current = &e
	w.mu.Unlock()
	w.changed()
}

// left returns the events that the hook has not received yet, oldest first.
func (w *waiting) left() left {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := left{Current: w.current}
	l.Events, _ = w.events.After(0, math.MaxInt)
	if w.lost.Events > 0 {
		lost := w.lost
		l.Lost = &lost
	}
	return l
}

// recall restores what left returned before a restart.
func (w *waiting) recall(l left) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current, w.again = l.Current, l.Current != nil
	last := uint64(0)
	for _, e := range l.Events {
		if e.ID > last { // ids grow as left returned them, but a file written by hand may say anything
			last = e.ID
			w.events.Add(&e, e)
		}
	}
	if l.Lost != nil && l.Lost.Events > 0 {
		w.lost.Events += l.Lost.Events
		w.lost.Warnings += l.Lost.Warnings
		w.lost.First = l.Lost.First
	}
}

func (l loss) event(now time.Time) gpu.Event {
	return gpu.Event{
		ID: l.First, Time: now, Code: gpu.EventGap, Severity: gpu.Warning,
		Text: fmt.Sprintf("%d %s not sent to this hook, %d of them warnings or worse: it is too slow, and its queue was full.", l.Events, words.Form(l.Events, "event was", "events were"), l.Warnings),
		Data: map[string]any{"dropped": l.Events, "dropped_warnings": l.Warnings},
	}
}
