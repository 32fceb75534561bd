package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// How failing deliveries are tried again: after a second, then after twice as
// long each time up to the longest pause. An event that is older than patience
// is given up while that goes on, so a receiver that comes back after a weekend
// hears of the last hour and not of everything.
const (
	firstPause   = time.Second
	longestPause = 5 * time.Minute
	patience     = time.Hour
)

// passing is a failure that may pass.
type passing interface {
	error
	RetryAfter() time.Duration // how long the receiver asked to wait at least; 0: it did not say
}

// queue delivers the events of one hook, one after the other.
type queue struct {
	hook    Hook
	waiting *waiting
	send    Call
	event   func(gpu.Event)
	count   func(hook string, s Status)

	failures int       // in a row
	failure  error     // the last of them
	resting  time.Time // nothing is sent before
	told     bool      // that the hook does not work
}

func newQueue(h Hook, k *Keeper) *queue {
	return &queue{
		hook: h, send: k.Call(h), event: k.Event, count: k.Count,
		waiting: newWaiting(cmp.Or(k.Queue, 1024), func() { k.Dropped(h.Name) }, k.change),
	}
}

func (q *queue) offer(e gpu.Event) {
	if q.hook.wants(e) {
		q.waiting.add(e)
	}
}

// run delivers until ctx ends, and then what is left until sending ends.
func (q *queue) run(ctx, sending context.Context) {
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

// deliver sends an event until that succeeds or is of no use; false means that
// the daemon stops.
func (q *queue) deliver(ctx, sending context.Context, e gpu.Event) bool {
	body, err := json.Marshal(e)
	if err != nil {
		q.fail(e, err)
		return true
	}
	for {
		if q.failures > 0 && !e.Time.IsZero() && time.Since(e.Time) > patience {
			q.fail(e, q.failure)
			return true
		}
		if !q.rest(ctx) {
			return false
		}
		if q.hook.URL == "" {
			q.waiting.settle() // a command that was begun is not run again
		}
		limited, cancel := context.WithTimeout(sending, q.hook.Timeout)
		err = q.send(limited, e, body)
		cancel()
		var may passing
		switch {
		case err == nil:
			q.count(q.hook.Name, Delivered)
			q.failures, q.told = 0, false
			return true
		case sending.Err() != nil:
			return false
		case !errors.As(err, &may):
			q.failures = 0
			q.fail(e, err)
			return true
		}
		q.count(q.hook.Name, Retried)
		if q.failures == 0 {
			q.warn(err)
		}
		q.resting = time.Now().Add(max(pause(q.failures), min(may.RetryAfter(), patience)))
		q.failures, q.failure = q.failures+1, err
	}
}

// warn tells that a delivery failed and is tried again, once for failures in a
// row.
func (q *queue) warn(err error) {
	q.event(gpu.Event{
		Time: time.Now(), Code: gpu.EventHook, Severity: gpu.Warning,
		Text: fmt.Sprintf("The hook %s did not get an event, and is tried again for an hour: %v", q.hook.Name, err),
		Data: map[string]any{"hook": q.hook.Name},
	})
}

// pause returns how long to wait after so many earlier failures. It is partly
// random, so that the machines of a cluster that lost the same receiver do not
// all call it at once.
func pause(failures int) time.Duration {
	longest := longestPause
	if failures < 16 { // before it overflows
		longest = min(firstPause<<failures, longestPause)
	}
	return longest/2 + rand.N(longest/2)
}

// rest waits out the pause after a failure; false means that the daemon stops.
func (q *queue) rest(ctx context.Context) bool {
	if q.failures == 0 {
		return true
	}
	timer := time.NewTimer(time.Until(q.resting))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// fail gives up on an event, and tells that unless it was told already.
func (q *queue) fail(e gpu.Event, err error) {
	q.count(q.hook.Name, Failed)
	if q.told {
		return
	}
	q.told = true
	q.event(gpu.Event{
		Time: time.Now(), Code: gpu.EventHook, Severity: gpu.Warning,
		Text: fmt.Sprintf("The hook %s does not work: %s of %s could not be delivered: %v", q.hook.Name, e.Code, e.Time.Format(time.TimeOnly), err),
		Data: map[string]any{"hook": q.hook.Name, "event": e.ID, "event_code": string(e.Code)},
	})
}
