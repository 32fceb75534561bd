package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
)

const (
	writeAfter = time.Second // from a change to the disk
	writeRate  = 256 << 10   // most bytes to write in a second, on average
	retryWrite = 10 * time.Second
)

// document is the content of the file. The same version may get a new field if a reader
// that does not know the field still understands the rest.
type document struct {
	Version int             `json:"version"`
	Hooks   map[string]left `json:"hooks"` // by name, without hooks that have received everything
}

const version = 1

// nothing is the content of the file when everything is delivered.
var nothing, _ = json.Marshal(document{Version: version})

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
	if hs.File == "" {
		return nil
	}
	return file.Load(hs.File, "Events that were not delivered to hooks before the restart are lost.", func(text []byte) error {
		d, err := parse(text)
		if err != nil {
			return err
		}
		hs.written = text
		for _, q := range hs.list() {
			q.waiting.recall(d.Hooks[q.name])
		}
		return nil
	})
}

// parse reads the content of the file. It keeps numbers in the data of events as they
// were written.
func parse(text []byte) (d document, err error) {
	from := json.NewDecoder(bytes.NewReader(text))
	from.UseNumber()
	if err := from.Decode(&d); err != nil {
		return d, err
	}
	if d.Version != version {
		return d, fmt.Errorf("it has version %d, and this berth knows version %d", d.Version, version)
	}
	return d, nil
}

// change makes keep write the file soon.
func (hs *Hooks) change() {
	select {
	case hs.dirty <- struct{}{}:
	default: // keep is about to write it anyway
	}
}

// keep writes undelivered events to the file until ctx ends, and then once more. Nobody
// waits for it: a disk that hangs or is full costs only the file.
func (hs *Hooks) keep(ctx context.Context) {
	if hs.File == "" {
		return
	}
	failed := false
	write := func() {
		err := hs.write()
		if err != nil && !failed {
			hs.Complain(fmt.Errorf("cannot write which events were not delivered to hooks: %w; berth tries again every %v", err, retryWrite))
		}
		if failed = err != nil; failed {
			hs.change()
		}
	}
	for {
		select {
		case <-ctx.Done():
			write()
			return
		case <-hs.dirty:
		}
		pause := writeAfter + time.Duration(len(hs.written))*time.Second/writeRate
		if failed {
			pause = retryWrite
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			write()
		}
	}
}

// write replaces the file, unless its content is the same.
func (hs *Hooks) write() error {
	d := document{Version: version}
	for _, q := range hs.list() {
		if l := q.waiting.left(); !l.empty() {
			if d.Hooks == nil {
				d.Hooks = map[string]left{}
			}
			d.Hooks[q.name] = l
		}
	}
	text, err := json.Marshal(d)
	if err != nil || bytes.Equal(text, hs.written) {
		return err
	}
	if err := file.Replace(hs.File, text); err != nil {
		return err
	}
	hs.written = text
	return nil
}
