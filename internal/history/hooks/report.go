package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Attempt is one attempt to deliver an event.
type Attempt struct {
	Event  uint64 // id of the event
	Code   gpu.EventCode
	Time   time.Time // when it began
	Took   time.Duration
	Status Status
	Err    error // why it failed; nil if it did not
}

// Report is a hook and the results of its deliveries.
type Report struct {
	Hook    Hook
	Waiting int     // events that it has not received yet
	Last    Attempt // last attempt since the daemon started; zero if there was none
}

// Reports returns the report of every hook, in the order of the configuration.
func (hs *Hooks) Reports() []Report {
	list := []Report{}
	for _, q := range hs.list() {
		hook, _ := q.current()
		list = append(list, Report{Hook: hook, Waiting: q.waiting.count(), Last: q.lastAttempt()})
	}
	return list
}

// ErrNoHook means that no hook has the name.
var ErrNoHook = errors.New("there is no such hook")

// Test makes one attempt to deliver a test event to a hook, bypassing its queue, and
// returns the result. The event has the code hook, which a hook never gets otherwise,
// whatever codes it wants. A test is not counted: if it fails while somebody sets up a
// hook, that must raise no alert.
func (hs *Hooks) Test(ctx context.Context, name string, by gpu.By) (Attempt, error) {
	for _, q := range hs.list() {
		if q.name == name {
			return q.test(ctx, by)
		}
	}
	return Attempt{}, ErrNoHook
}

func (q *queue) test(ctx context.Context, by gpu.By) (Attempt, error) {
	now := time.Now()
	e := gpu.Event{
		ID: uint64(max(now.UnixMicro(), 1)), Time: now, Code: gpu.EventHook, Severity: gpu.Note, By: by,
		Text: "This is a test of the hook " + q.name + ". Nothing happened.", Data: map[string]any{"hook": q.name, "test": true},
	}
	body, err := json.Marshal(e)
	if err != nil {
		return Attempt{}, err
	}
	hook, send := q.current()
	limited, cancel := context.WithTimeout(ctx, hook.Timeout)
	defer cancel()
	err = send(limited, e, body)
	status := Delivered
	if err != nil {
		status = Failed
	}
	return q.note(e, now, status, err), nil
}

// note records an attempt.
func (q *queue) note(e gpu.Event, began time.Time, s Status, err error) Attempt {
	a := Attempt{Event: e.ID, Code: e.Code, Time: began, Took: time.Since(began), Status: s, Err: err}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last = a
	return a
}

func (q *queue) lastAttempt() Attempt {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.last
}

// count returns how many events wait.
func (w *waiting) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, all := w.events.After(0, math.MaxInt)
	if w.current != nil {
		all++
	}
	return all
}
