package run

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/when"
)

// lookEvery is how often a Loop looks at its timers: the clock may be set meanwhile, or the
// machine be suspended.
const lookEvery = time.Minute

// Loop hands messages to a function, one at a time: those that were sent, in their order,
// and those whose time has come. It has no limit, so that nobody waits who sends one.
type Loop struct {
	take func(any)
	wake chan struct{} // has room for one

	mu    sync.Mutex
	sent  []any
	soon  timers // in some time, which a clock that is set does not change
	dates timers // at a time of the clock
}

// Timer is a message that is due at a time.
type Timer struct {
	at      time.Time
	message any
	among   *timers // nil if it is not to come any more
	place   int
}

func newLoop(take func(any)) *Loop { return &Loop{take: take, wake: make(chan struct{}, 1)} }

// Send sends a message. It does not wait.
func (l *Loop) Send(message any) {
	l.mu.Lock()
	l.sent = append(l.sent, message)
	l.mu.Unlock()
	l.ring()
}

func (l *Loop) ring() {
	select {
	case l.wake <- struct{}{}:
	default: // it is about to look anyway
	}
}

// After sends a message after some time.
func (l *Loop) After(d time.Duration, message any) *Timer {
	var t *Timer
	l.Set(&t, time.Now().Add(d), message)
	return t
}

// Set makes a timer of a message at a time, instead of the timer that *t is, which has the
// same message. A time without a monotonic reading is one of the clock. A zero time means
// never.
func (l *Loop) Set(t **Timer, at time.Time, message any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := *t; old != nil && old.among != nil {
		if old.at.Equal(at) {
			return
		}
		heap.Remove(old.among, old.place)
		old.among = nil
	}
	if *t = nil; at.IsZero() {
		return
	}
	among := &l.soon
	if at == when.Stored(at) {
		among = &l.dates
	}
	*t = &Timer{at: at, message: message, among: among}
	heap.Push(among, *t)
	l.ring()
}

// Stop takes a timer back. It may be nil.
func (l *Loop) Stop(t *Timer) { l.Set(&t, time.Time{}, nil) }

// Timers returns how many timers are to come.
func (l *Loop) Timers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.soon) + len(l.dates)
}

// next returns the message whose turn it is, or how long to wait for one; zero: until one is
// sent.
func (l *Loop) next(now time.Time) (message any, some bool, left time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, all := range []*timers{&l.soon, &l.dates} {
		for len(*all) > 0 && !(*all)[0].at.After(now) {
			due := heap.Pop(all).(*Timer)
			due.among = nil
			l.sent = append(l.sent, due.message)
		}
		if len(*all) > 0 {
			until := min((*all)[0].at.Sub(now), lookEvery)
			if left == 0 || until < left {
				left = until
			}
		}
	}
	if len(l.sent) == 0 {
		return nil, false, left
	}
	message = l.sent[0]
	l.sent[0] = nil
	if l.sent = l.sent[1:]; len(l.sent) == 0 {
		l.sent = nil
	}
	return message, true, 0
}

// run hands out messages until ctx ends.
func (l *Loop) run(ctx context.Context) {
	for ctx.Err() == nil {
		message, some, left := l.next(time.Now())
		if some {
			l.take(message)
			continue
		}
		var due <-chan time.Time
		if left > 0 {
			due = time.After(left)
		}
		select {
		case <-ctx.Done():
		case <-due:
		case <-l.wake:
		}
	}
}

// timers is a heap.
type timers []*Timer

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].at.Before(t[j].at) }
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].place, t[j].place = i, j
}
func (t *timers) Push(x any) {
	x.(*Timer).place = len(*t)
	*t = append(*t, x.(*Timer))
}
func (t *timers) Pop() any {
	last := len(*t) - 1
	x := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	return x
}
