package peaks

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
)

// document is the content of the file. A field may be added under the same version if a
// reader that does not know it still makes sense of the rest.
type document struct {
	Version int      `json:"version"`
	Entries []*Entry `json:"entries"`
}

const version = 1

// New returns Peaks that know nothing and are kept in no file.
func New() *Peaks {
	return &Peaks{
		dirty: make(chan struct{}, 1), entries: map[Key]*Entry{}, running: map[uint64]use{},
	}
}

// Open reads the file at path, or begins one there. It sets a damaged file aside and
// begins anew: a guess is not worth refusing to start.
func Open(path string) (*Peaks, *file.Damage) {
	p := New()
	p.path = path
	return p, file.Load(path, "What was learned about earlier runs is lost, and berth learns it again.", p.take)
}

// take reads the text of a file into p.
func (p *Peaks) take(text []byte) error {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	if d.Version != version {
		return fmt.Errorf("it has version %d, and this berth knows version %d", d.Version, version)
	}
	for _, e := range d.Entries {
		if e != nil && len(p.entries) < keptEntries {
			e.bound()
			e.Runs = e.Runs[max(len(e.Runs)-keptRuns, 0):]
			for _, r := range e.Runs { // the file is from before there were ceilings
				e.raise(r)
			}
			p.entries[e.Key] = e
		}
	}
	return nil
}

// mostMemory is more than any device has: a PiB.
const mostMemory = gpu.MiB(1) << 30

// mostWatts is more than any device draws.
const mostWatts = gpu.Watts(5000)

// bound drops from an entry what cannot have been measured. A file that somebody wrote by
// hand may have it, and the next offer depends on it.
func (e *Entry) bound() {
	possible := func(m gpu.MiB) bool { return m >= 0 && m <= mostMemory }
	for i, r := range e.Runs {
		if w := r.Drew.Or(0); !(w >= 0 && w <= mostWatts) {
			e.Runs[i].Drew = gpu.Opt[gpu.Watts]{}
		}
	}
	e.Runs = slices.DeleteFunc(e.Runs, func(r Run) bool {
		return !possible(r.Peak) || !possible(r.Asked) || !(r.Seconds >= 0 && r.Seconds <= mostSeconds)
	})
	if !possible(e.Offered) {
		e.Offered = 0
	}
	if !possible(e.Ceiling) {
		e.Ceiling = 0
	}
	e.Count = max(e.Count, len(e.Runs))
}

// mostSeconds is longer than any run: thirty years.
const mostSeconds = 1e9

// write replaces the file, unsynced: a sync would cost the disk more than it is worth.
func (p *Peaks) write() error {
	if p.path == "" {
		return nil
	}
	all := p.All()
	d := document{Version: version, Entries: make([]*Entry, len(all))}
	for i := range all {
		d.Entries[i] = &all[i]
	}
	text, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("write what was learned: %w", err)
	}
	if err := file.ReplaceUnsynced(p.path, text); err != nil {
		return fmt.Errorf("write what was learned: %w", err)
	}
	return nil
}
