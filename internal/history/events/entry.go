package events

import (
	"encoding/json"
	"sync/atomic"

	"github.com/berth-gpu/berth/gpu"
)

// recent is the number of newest entries that keep their encodings. Readers that follow
// the log are not further behind, and keeping all encodings would take too much memory.
const recent = 1024

// Entry is a kept event. All readers share it.
type Entry struct {
	Event   gpu.Event // does not change
	encoded [Views]atomic.Pointer[[]byte]
	old     atomic.Bool
}

// View numbers the forms in which readers see one event, from 0 up to Views. The encoder
// decides what each form hides.
type View int

// Views is the number of views.
const Views = 3

// JSON returns the event as one line of JSON. It encodes each view of a recent event only
// once for all readers. Show changes the event for that view, and must return the same
// for every reader of it. If show is nil, JSON encodes the event unchanged.
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

// forget frees the encodings, and makes JSON keep no new ones.
func (e *Entry) forget() {
	e.old.Store(true)
	for i := range e.encoded {
		if e.encoded[i].Load() != nil {
			e.encoded[i].Store(nil)
		}
	}
}
