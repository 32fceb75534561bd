package peaks

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/berth-gpu/berth/internal/wholefile"
)

// document is the file. A field may be added under the same version if a reader
// that does not know it still makes sense of the rest.
type document struct {
	Version int      `json:"version"`
	Entries []*Entry `json:"entries"`
}

const version = 1

// New is an empty history that is not kept.
func New() *History {
	return &History{
		dirty: make(chan struct{}, 1), entries: map[Key]*Entry{}, running: map[grant]use{},
	}
}

// Open reads the history in a file, or begins one there. What cannot be
// understood is put aside and nothing is known then: a guess is not worth
// refusing to start. The note says so; empty: all is well.
func Open(path string) (h *History, note string, err error) {
	h = New()
	h.path = path
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read what was learned: %w", err)
	}
	var d document
	err = json.Unmarshal(text, &d)
	if err == nil && d.Version != version {
		err = fmt.Errorf("it has version %d, and this berth knows version %d", d.Version, version)
	}
	if err != nil {
		aside := path + ".unreadable"
		return h, fmt.Sprintf("What was learned about earlier runs could not be read and is now in %s: %v", aside, err), os.Rename(path, aside)
	}
	for _, e := range d.Entries {
		if e != nil && len(h.entries) < keptEntries {
			e.Runs = e.Runs[max(len(e.Runs)-keptRuns, 0):]
			for _, r := range e.Runs { // a file of before there were ceilings
				e.raise(r)
			}
			h.entries[e.Key] = e
		}
	}
	return h, "", nil
}

// write replaces the file. It is not synced: that would cost the disk more than
// it is worth.
func (h *History) write() error {
	if h.path == "" {
		return nil
	}
	all := h.All()
	d := document{Version: version, Entries: make([]*Entry, len(all))}
	for i := range all {
		d.Entries[i] = &all[i]
	}
	text, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("write what was learned: %w", err)
	}
	if err := wholefile.WriteUnsynced(h.path, text); err != nil {
		return fmt.Errorf("write what was learned: %w", err)
	}
	return nil
}
