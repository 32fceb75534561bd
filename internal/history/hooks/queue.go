package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/history/events"
)

// How failed deliveries are repeated: after a second, then after twice as long each time,
// up to the longest pause. Meanwhile an event older than patience is given up, so a
// receiver that comes back after a weekend gets the last hour and not everything.
const (
	firstPause   = time.Second
	longestPause = 5 * time.Minute
	patience     = time.Hour
)

// queue delivers the events of one hook, one after the other.
type queue struct {
	name    string
	waiting *waiting
	hooks   *Hooks
	changed chan struct{} // has room for one value, sent after the hook was changed
	removed chan struct{} // closed when the hook no longer exists

	mu   sync.Mutex // guards what follows
	hook Hook
	send Call
	last Attempt

	// Owned by run.
	failures int       // in a row
	failure  error     // the last of them
	resting  time.Time // nothing is sent before this time
	told     bool      // an event has said that the hook does not work
}

// newQueue returns the queue of a hook, one of several.
func newQueue(h Hook, hs *Hooks, queues int) *queue {
	return &queue{
		name: h.Name, hook: h, send: hs.Call(h), hooks: hs,
		changed: make(chan struct{}, 1), removed: make(chan struct{}),
		waiting: newWaiting(cmp.Or(hs.Queue, 1024), queues, func() { hs.Dropped(h.Name) }, func() { hs.file.Change(writeAfter) }),
	}
}

// configure changes the events of a hook and how it is called. It does not interrupt an
// attempt under way; the next attempt follows at once.
func (q *queue) configure(h Hook, send Call) {
	q.mu.Lock()
	same := reflect.DeepEqual(h, q.hook)
	q.hook, q.send = h, send
	q.mu.Unlock()
	if same {
		return
	}
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// remove ends the queue. It does not wait.
func (q *queue) remove() { close(q.removed) }

// current returns the hook as it is configured now.
func (q *queue) current() (Hook, Call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.hook, q.send
}

func (q *queue) offer(e *events.Entry) {
	q.mu.Lock()
	wanted := q.hook.wants(e.Head())
	q.mu.Unlock()
	if wanted {
		q.waiting.add(*e.Event())
	}
}

// run delivers until ctx ends, and then what is left until sending ends. It
// also ends when the hook is removed.
func (q *queue) run(ctx, sending context.Context) {
	ctx, stop := context.WithCancel(ctx)
	sending, cancel := context.WithCancel(sending)
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-q.removed:
		case <-over:
		}
		stop()
		cancel()
	}()
	for {
		e, found := q.waiting.take()
		switch {
		case found:
			if !q.deliver(ctx, sending, e) {
				return
			}
			q.waiting.settle()
		case ctx.Err() != nil:
			return
		default:
			select {
			case <-ctx.Done():
			case <-q.waiting.more:
			}
		}
	}
}

// deliver sends an event until that succeeds or is pointless. It returns false when the
// daemon stops.
func (q *queue) deliver(ctx, sending context.Context, e gpu.Event) bool {
	body, err := json.Marshal(e)
	if err != nil {
		q.fail(e, err)
		return true
	}
	for {
		hook, send := q.current()
		if !hook.wants(&e) {
			return true // the hook wanted it when it came
		}
		if q.failures > 0 && !e.Time.IsZero() && time.Since(e.Time) > patience {
			q.fail(e, q.failure)
			return true
		}
		switch rested, again := q.rest(ctx); {
		case !rested:
			return false
		case again:
			continue
		}
		if hook.URL == "" {
			q.waiting.settle() // a command that has begun is not run again
		}
		limited, cancel := context.WithTimeout(sending, hook.Timeout)
		began := time.Now()
		err = send(limited, e, body)
		cancel()
		var may *passing
		switch {
		case err == nil:
			q.hooks.Count(q.name, Delivered)
			q.note(e, began, Delivered, nil)
			q.failures, q.told = 0, false
			return true
		case sending.Err() != nil:
			return false
		case !errors.As(err, &may):
			q.failures = 0
			q.note(e, began, Failed, err)
			q.fail(e, err)
			return true
		}
		q.waiting.unsettle(e)
		q.hooks.Count(q.name, Retried)
		q.note(e, began, Retried, err)
		if q.failures == 0 {
			q.warn(err)
		}
		q.resting = time.Now().Add(max(pause(q.failures), min(may.after, patience)))
		q.failures, q.failure = q.failures+1, err
	}
}

// warn publishes that a delivery failed and is tried again, once for failures in a row.
func (q *queue) warn(err error) {
	q.hooks.Event(gpu.Event{
		Time: time.Now(), Code: gpu.EventHook, Severity: gpu.Warning,
		Text:   fmt.Sprintf("The hook %s did not receive an event; berth tries again for an hour: %v", q.name, err),
		Public: "A hook did not receive an event; berth tries again for an hour",
		Data:   map[string]any{"hook": q.name},
	})
}

// pause returns how long to wait after this many earlier failures. It is partly random,
// so that the machines of a cluster that lost the same receiver do not all call it at
// once.
func pause(failures int) time.Duration {
	longest := longestPause
	if failures < 16 { // avoid an overflow
		longest = min(firstPause<<failures, longestPause)
	}
	return longest/2 + rand.N(longest/2)
}

// rest waits out the pause after a failure. If the hook was changed meanwhile,
// rest forgets the failure and reports that too. It returns false if the daemon
// stops.
func (q *queue) rest(ctx context.Context) (rested, changed bool) {
	if q.failures == 0 {
		select {
		case <-q.changed: // current has returned it
		default:
		}
		return true, false
	}
	select {
	case <-ctx.Done():
		return false, false
	case <-q.changed:
		q.failures, q.told = 0, false
		return true, true
	case <-time.After(time.Until(q.resting)):
		return true, false
	}
}

// fail gives up on an event, and publishes that unless it has already done so.
func (q *queue) fail(e gpu.Event, err error) {
	q.hooks.Count(q.name, Failed)
	if q.told {
		return
	}
	q.told = true
	q.hooks.Event(gpu.Event{
		Time: time.Now(), Code: gpu.EventHook, Severity: gpu.Warning,
		Text:   fmt.Sprintf("The hook %s does not work: %s of %s could not be delivered: %v", q.name, e.Code, e.Time.Format(time.TimeOnly), err),
		Public: "A hook does not work: an event could not be delivered",
		Data:   map[string]any{"hook": q.name, "event": e.ID, "event_code": string(e.Code)},
	})
}
