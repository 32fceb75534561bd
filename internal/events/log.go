// Package events keeps what happened and hands it to whoever asks. The newest
// events are kept in a ring; readers come and pull from it at their own pace,
// so a slow one falls behind and is told that it missed something, and never
// holds up the one that publishes.
package events

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Log is the ring of the newest events. Its zero value is not usable.
type Log struct {
	mu    sync.Mutex
	ring  []gpu.Event
	first uint64        // id of the oldest event kept
	next  uint64        // id of the event to come
	more  chan struct{} // closed when an event comes; nil: nobody has asked
}

// New keeps the newest size events. Ids begin at the current time in
// microseconds, so that they grow across restarts without being stored: no
// daemon publishes a million events a second for its whole life.
func New(size int, now time.Time) *Log {
	start := uint64(max(now.UnixMicro(), 1))
	return &Log{ring: make([]gpu.Event, size), first: start, next: start}
}

// Publish gives e the next id and keeps it.
func (l *Log) Publish(e gpu.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.ID = l.next
	l.ring[e.ID%uint64(len(l.ring))] = e
	l.next++
	if l.next-l.first > uint64(len(l.ring)) {
		l.first++
	}
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
}

// Kept returns the events after the given id, oldest first, and a channel that
// is closed when there are more. When events after that id existed and are no
// longer kept, the first event returned is a gap that says so. An id of 0 asks
// for all that is kept and is never answered with a gap.
func (l *Log) Kept(after uint64) ([]gpu.Event, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []gpu.Event
	from := after + 1
	// An id from the future was given by a daemon whose clock was ahead:
	// nothing is known about what lies between.
	if missed := from < l.first || from > l.next; missed {
		from = l.first
		if after != 0 {
			found = append(found, l.gap())
		}
	}
	for id := from; id < l.next; id++ {
		found = append(found, l.ring[id%uint64(len(l.ring))])
	}
	if l.more == nil {
		l.more = make(chan struct{})
	}
	return found, l.more
}

// gap stands just before the oldest event kept, so a reader that resumes from
// it loses nothing.
func (l *Log) gap() gpu.Event {
	e := gpu.Event{
		ID: l.first - 1, Code: gpu.EventGap, Severity: gpu.Warning,
		Text: fmt.Sprintf("Some earlier events are not kept any more, or were before the daemon started; the oldest kept is %d.", l.first),
	}
	if l.first < l.next {
		e.Time = l.ring[l.first%uint64(len(l.ring))].Time
	}
	return e
}

// Each calls f for every event after the given id, in order, until ctx ends or
// f returns an error, which it returns.
func (l *Log) Each(ctx context.Context, after uint64, f func(gpu.Event) error) error {
	for {
		found, more := l.Kept(after)
		for _, e := range found {
			if err := f(e); err != nil {
				return err
			}
			after = e.ID
		}
		select {
		case <-ctx.Done():
			return nil
		case <-more:
		}
	}
}
