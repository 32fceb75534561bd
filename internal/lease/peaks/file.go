package peaks

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/when"
)

// document is the content of the file.
type document struct {
	Entries []*Entry  `json:"entries"`
	Running []running `json:"running,omitempty"`
}

// running is what was measured of a lease that has not ended.
type running struct {
	Fence   uint64  `json:"fence"`
	Peak    gpu.MiB `json:"peak_mb"`
	Samples int     `json:"samples"`
	Partial bool    `json:"partial,omitempty"`
}

// New returns Peaks that know nothing and are kept in no file.
func New() *Peaks { return newPeaks("") }

func newPeaks(path string) *Peaks {
	return &Peaks{entries: map[Key]*Entry{}, running: map[uint64]use{}, file: file.NewState[document](path, file.StateOptions{
		What: "what was learned", Version: 1, Lost: "What was learned about earlier runs is lost, and berth learns it again.",
	})}
}

// Open reads the file at path, or begins one there. It sets a damaged file aside and
// begins anew: a guess is not worth refusing to start.
func Open(path string) (*Peaks, *file.Damage) {
	p := newPeaks(path)
	p.began = when.Now()
	return p, p.file.Load(p.take)
}

// take takes over the content of a file.
func (p *Peaks) take(d document) error {
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
	for _, r := range d.Running {
		if r.Peak >= 0 && r.Peak <= mostMemory && r.Samples > 0 && len(p.running) < keptRunning {
			p.running[r.Fence] = use{peak: r.Peak, samples: r.Samples, partial: r.Partial, written: r.Peak, last: map[string]time.Time{}, latest: p.began}
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

// write replaces the file. It waits for the disk: some file systems rename a file before
// they have its text, and a power loss would then take everything that was learned.
func (p *Peaks) write() error {
	all := p.All()
	d := document{Entries: make([]*Entry, len(all))}
	for i := range all {
		d.Entries[i] = &all[i]
	}
	p.mu.Lock()
	for fence, u := range p.running {
		d.Running = append(d.Running, running{fence, u.peak, u.samples, u.partial})
	}
	p.mu.Unlock()
	slices.SortFunc(d.Running, func(a, b running) int { return cmp.Compare(a.Fence, b.Fence) })
	return p.file.Save(d)
}
