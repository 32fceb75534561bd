// Package drains records which devices are closed to new leases although they are well:
// because somebody drains them, which a file remembers across restarts, or because berth
// works on them itself for a moment.
package drains

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/health"
)

// Hooks are the functions that Drains calls. Each may be nil. Drains calls none of them
// under a lock.
type Hooks struct {
	Changed func(uuid string)                   // called when a device was closed or opened; the book must know before it returns
	Ended   func(uuid string, was health.Drain) // called when a drain has ended by itself
}

// Drains records why devices are closed. Several goroutines may use it.
type Drains struct {
	file  *file.State[document]
	hooks Hooks
	wake  chan struct{} // receives when the drains have changed

	writing sync.Mutex // held while drains change, so that writes to the file keep their order

	mu   sync.RWMutex // guards the fields below; nothing is called under it
	kept document
	busy map[string]*hold // berth's own work on devices, by UUID
}

// hold is berth's own work on a device.
type hold struct {
	why  string
	over chan struct{} // closed at its end
}

// document is the content of the file. It does not change.
type document struct {
	Drains map[string]health.Drain `json:"drains"`

	// Unknown is the drain of every device that nobody has drained or undrained since the
	// file was damaged; nil if it never was.
	Unknown *health.Drain   `json:"unknown,omitempty"`
	Known   map[string]bool `json:"known,omitempty"` // devices that somebody has drained or undrained since
}

// copy returns a document that can be changed.
func (d document) copy() document {
	d.Drains, d.Known = maps.Clone(d.Drains), maps.Clone(d.Known)
	return d
}

// set drains a device, or ends its drain. The device is then known.
func (d *document) set(uuid string, next *health.Drain) {
	if delete(d.Drains, uuid); next != nil {
		d.Drains[uuid] = *next
	}
	if d.Unknown != nil {
		d.Known[uuid] = true
	}
}

// of returns the drain of a device, or of its parent, which may be empty.
func (d *document) of(uuid, parent string) (health.Drain, bool) {
	drain, drained := d.Drains[uuid]
	if !drained && parent != "" {
		drain, drained = d.Drains[parent]
	}
	if drained || d.Unknown == nil || d.Known[uuid] || d.Known[parent] {
		return drain, drained
	}
	return *d.Unknown, true
}

// Open reads the file at path; with an empty path, Drains saves nothing. If the file is
// damaged, Open sets it aside and drains every device until somebody drains or undrains
// it: otherwise berth would grant leases on devices that somebody is about to take out.
func Open(path string) (*Drains, *file.Damage) {
	d := &Drains{wake: make(chan struct{}, 1), kept: document{Drains: map[string]health.Drain{}}, busy: map[string]*hold{}}
	d.file = file.NewState[document](path, file.StateOptions{
		What: "which devices are drained", Version: 1,
		Lost: "berth does not know which GPUs are drained, so every GPU is: look at the file, and run berth undrain for each GPU that is to be used.",
	})
	err := d.file.Read(d.take)
	if err == nil {
		return d, nil
	}
	d.kept.Unknown = &health.Drain{
		Since: time.Now().UTC().Truncate(time.Second),
		Why:   "the file of the drains was damaged, so berth does not know which GPUs are drained; berth undrain opens one",
	}
	d.kept.Known = map[string]bool{}
	return d, d.file.Begin(d.kept, err)
}

// take takes over the content of a file.
func (d *Drains) take(read document) error {
	if read.Drains == nil {
		return errors.New("it has no drains")
	}
	if read.Unknown != nil && read.Known == nil {
		read.Known = map[string]bool{}
	}
	d.kept = read
	return nil
}

// Tell sets the functions to call. Call it before any other method.
func (d *Drains) Tell(h Hooks) { d.hooks = h }

// Drain closes a device until Undrain, or until the drain is over. A new drain replaces
// an earlier one. When Drain returns, the file has the drain and berth grants nothing
// more on the device.
func (d *Drains) Drain(uuid string, next health.Drain) error {
	return d.change(uuid, func(all *document) { all.set(uuid, &next) }, nil)
}

// Undrain opens a device again. It returns the drain that it ended, and false if there
// was none.
func (d *Drains) Undrain(uuid string) (was health.Drain, drained bool, err error) {
	err = d.change(uuid, func(all *document) {
		was, drained = all.of(uuid, "")
		all.set(uuid, nil)
	}, nil)
	return was, drained, err
}

// change changes the drains and writes the file. If the write fails, nothing changes. It
// calls tell, which may be nil, when the file has the change and before anybody sees it:
// the end of a drain is reported before the first grant.
func (d *Drains) change(uuid string, apply func(*document), tell func()) error {
	if err := d.write(apply, tell); err != nil {
		return err
	}
	select {
	case d.wake <- struct{}{}:
	default: // Run is about to look anyway
	}
	d.changed(uuid)
	return nil
}

func (d *Drains) write(apply func(*document), tell func()) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	d.mu.RLock()
	next := d.kept.copy()
	d.mu.RUnlock()
	apply(&next)
	if err := d.file.Save(next); err != nil {
		return err
	}
	if tell != nil {
		tell()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept = next
	return nil
}

func (d *Drains) changed(uuid string) {
	if d.hooks.Changed != nil {
		d.hooks.Changed(uuid)
	}
}

// Drained returns the drain of a device, or of the device that it is part of, and false
// if there is none.
func (d *Drains) Drained(on gpu.Device) (health.Drain, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.kept.of(on.UUID, on.Parent)
}

// Why returns why berth grants nothing on a device, or "" if the device is open.
func (d *Drains) Why(on gpu.Device) string {
	if drain, drained := d.Drained(on); drained {
		return drain.Reason()
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	if h := d.busy[on.UUID]; h != nil {
		return h.why
	}
	return ""
}

// Held reports whether berth itself works on a device.
func (d *Drains) Held(uuid string) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.busy[uuid] != nil
}

// BusyError means that berth is already working on a device.
type BusyError struct {
	Why  string
	Over <-chan struct{} // closed when that work is done; nil if not known
}

func (e *BusyError) Error() string { return e.Why }

// Hold closes a device while berth itself works on it; why describes the work. A device
// has at most one holder: a second caller gets a *BusyError. When Hold returns, berth
// grants nothing more on the device; release opens it again. A hold does not survive a
// restart.
func (d *Drains) Hold(uuid, why string) (release func(), err error) {
	d.mu.Lock()
	if before := d.busy[uuid]; before != nil {
		d.mu.Unlock()
		return nil, &BusyError{Why: before.why, Over: before.over}
	}
	h := &hold{why: why, over: make(chan struct{})}
	d.busy[uuid] = h
	d.mu.Unlock()
	d.changed(uuid)
	return func() {
		d.mu.Lock()
		delete(d.busy, uuid)
		d.mu.Unlock()
		close(h.over)
		d.changed(uuid)
	}, nil
}

// The waits of Run.
const (
	retry  = 10 * time.Second // after a failed write
	glance = time.Minute      // at most, to notice a clock that was set
)

// Run ends drains when their time has come, until ctx ends.
func (d *Drains) Run(ctx context.Context) {
	timer := time.NewTimer(glance)
	defer timer.Stop()
	for {
		timer.Reset(min(d.endDue(time.Now()), glance))
		select {
		case <-timer.C:
		case <-d.wake:
		case <-ctx.Done():
			return
		}
	}
}

// endDue ends the drains that are over. It returns how long the next one lasts, or
// glance.
func (d *Drains) endDue(now time.Time) time.Duration {
	wait := glance
	for uuid, drain := range d.All() {
		switch {
		case drain.Until.IsZero():
		case !drain.Over(now):
			wait = min(wait, drain.Until.Sub(now))
		case !d.end(uuid, drain):
			wait = min(wait, retry)
		}
	}
	return wait
}

// All returns every drain that somebody asked for, by UUID.
func (d *Drains) All() map[string]health.Drain {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return maps.Clone(d.kept.Drains)
}

// end ends one drain that is over, unless somebody has replaced it meanwhile. It reports
// false if the write failed.
func (d *Drains) end(uuid string, was health.Drain) bool {
	ended := false
	return nil == d.change(uuid, func(all *document) {
		if ended = all.Drains[uuid] == was; ended {
			all.set(uuid, nil)
		}
	}, func() {
		if ended && d.hooks.Ended != nil {
			d.hooks.Ended(uuid, was)
		}
	})
}
