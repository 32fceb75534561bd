package hooks

import (
	"reflect"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
)

// writeAfter is the time from a change to the disk.
const writeAfter = time.Second

// document is the content of the file.
type document struct {
	Hooks map[string]left `json:"hooks"` // by name, without hooks that have received everything
}

func newState(path string) *file.State[document] {
	return file.NewState[document](path, file.StateOptions{
		What: "which events were not delivered to hooks", Version: 1, Lost: "Events that were not delivered to hooks before the restart are lost.",
	})
}

// left holds the events that a hook has not received yet.
type left struct {
	Current *gpu.Event  `json:"current,omitempty"` // the event that is being tried
	Events  []gpu.Event `json:"events,omitempty"`  // the events after it, oldest first
	Lost    *loss       `json:"lost,omitempty"`
}

// empty reports whether a hook has received everything.
func (l left) empty() bool { return l.Current == nil && len(l.Events) == 0 && l.Lost == nil }

// Recall restores from the file the events that were not delivered before a restart. Call
// it before the first Offer. It sets a damaged file aside, and continues without it.
func (hs *Hooks) Recall() *file.Damage {
	return hs.file.Load(func(d document) error {
		hs.written = d
		for _, q := range hs.list() {
			q.waiting.recall(d.Hooks[q.name])
		}
		return nil
	})
}

// write replaces the file, unless its content is the same.
func (hs *Hooks) write() error {
	var d document
	for _, q := range hs.list() {
		if l := q.waiting.left(); !l.empty() {
			if d.Hooks == nil {
				d.Hooks = map[string]left{}
			}
			d.Hooks[q.name] = l
		}
	}
	if reflect.DeepEqual(d, hs.written) {
		return nil
	}
	if err := hs.file.Save(d); err != nil {
		return err
	}
	hs.written = d
	return nil
}
