package hooks

import (
	"fmt"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/backlog"
	"github.com/berth-gpu/berth/internal/words"
)

// queueMemory is how many bytes each part of a queue may take.
const queueMemory = 2 << 20

// waiting holds the events that a hook has not been sent yet.
type waiting struct {
	more    chan struct{} // has one after an event was added
	dropped func()        // is called for every event that is dropped

	mu     sync.Mutex
	events *backlog.Backlog[gpu.Event]
	lost   loss
}

// loss is what was dropped since the hook was last told.
type loss struct {
	events, warnings int
	first            uint64 // id of the first
}

func newWaiting(size int, dropped func()) *waiting {
	w := &waiting{more: make(chan struct{}, 1), dropped: dropped}
	limits := backlog.Limits{Notes: size, Warnings: size, Share: min(256, size), Bytes: queueMemory}
	w.events = backlog.New(limits, w.drop)
	return w
}

// add puts an event into the queue, and drops others if there is no room.
func (w *waiting) add(e gpu.Event) {
	w.mu.Lock()
	w.events.Add(&e, e)
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// drop counts an event that there is no room for. The caller of Add holds mu.
func (w *waiting) drop(e gpu.Event) {
	if w.lost.events == 0 || e.ID < w.lost.first {
		w.lost.first = e.ID
	}
	w.lost.events++
	if e.Severity.AtLeast(gpu.Warning) {
		w.lost.warnings++
	}
	w.dropped()
}

// take returns the next event to deliver; false: there is none. Where events
// were dropped, it is one that says so, and has the id of the first of them.
func (w *waiting) take() (gpu.Event, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next, found := w.events.Oldest()
	if w.lost.events > 0 && (!found || next.ID > w.lost.first) {
		gap := w.lost.event(time.Now())
		w.lost = loss{}
		return gap, true
	}
	return w.events.Take()
}

func (l loss) event(now time.Time) gpu.Event {
	return gpu.Event{
		ID: l.first, Time: now, Code: gpu.EventGap, Severity: gpu.Warning,
		Text: fmt.Sprintf("%d %s not sent to this hook, %d of them warnings or worse: it is too slow, and its queue was full.", l.events, words.Form(l.events, "event was", "events were"), l.warnings),
		Data: map[string]any{"dropped": l.events, "dropped_warnings": l.warnings},
	}
}
