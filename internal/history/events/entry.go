package events

import (
	"encoding/json"
	"sync/atomic"

	"github.com/berth-gpu/berth/gpu"
)

// recent is how many of the newest entries remember their encodings. Readers
// that follow are not further behind; for all entries it would take too much
// memory.
const recent = 1024

// Entry is an event that is kept. All readers share it.
type Entry struct {
	Event   gpu.Event // does not change
	encoded [Views]atomic.Pointer[[]byte]
	old     atomic.Bool
}

// View numbers the forms in which readers see one event, from 0 up to Views.
// The door that encodes them decides what each of them hides.
type View int

// Views is how many views there can be.
const Views = 3

// JSON returns the event as one line of JSON. It encodes each view of a recent
// event once, however many readers there are: show changes the event for that
// view, and must give the same for every reader of it; nil: the event as it is.
func (e *Entry) JSON(view View, show func(gpu.Event) gpu.Event) ([]byte, error) {
	if text := e.encoded[view].Load(); text != nil {
		return *text, nil
	}
	event := e.Event
	if show != nil {
		event = show(event)
	}
	text, err := json.Marshal(event)
	if err != nil {
		return nil, err
	}
	e.encoded[view].Store(&text)
	if e.old.Load() {
		e.encoded[view].Store(nil)
	}
	return text, nil
}

// forget frees the encodings, and keeps no new ones.
func (e *Entry) forget() {
	e.old.Store(true)
	for i := range e.encoded {
		if e.encoded[i].Load() != nil {
			e.encoded[i].Store(nil)
		}
	}
}
