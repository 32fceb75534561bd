// Package drains keeps which devices are closed to new leases although they
// are well: because somebody drains them, which a file remembers across
// restarts, or because berth works on them itself for a moment.
package drains

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file/wholefile"
	"github.com/berth-gpu/berth/internal/health"
)

// Hooks are the functions that the keeper calls. Each may be nil. None is called
// under a lock of the keeper.
type Hooks struct {
	Changed func(uuid string)                   // a device was closed or opened; the book must hear of it before this returns
	Ended   func(uuid string, was health.Drain) // a drain has ended by itself
}

// Keeper keeps what closes devices. Several goroutines may use it.
type Keeper struct {
	path  string // of the file; empty: drains are not kept
	hooks Hooks
	wake  chan struct{} // the drains have changed

	writing sync.Mutex // held while drains change, so that the file follows them in order

	mu     sync.RWMutex // guards what follows; nothing is called under it
	drains document
	busy   map[string]*hold // what berth does on a device, by UUID
}

// hold is what berth does on a device.
type hold struct {
	why  string
	over chan struct{} // closed at its end
}

// document is the content of the file, and does not change.
type document struct {
	Version int                     `json:"version"`
	Drains  map[string]health.Drain `json:"drains"`

	// Unknown is the drain of every device that nobody has drained or undrained
	// since the file was damaged; nil: it never was.
	Unknown *health.Drain   `json:"unknown,omitempty"`
	Known   map[string]bool `json:"known,omitempty"` // those devices
}

const version = 1

// copy returns a document that can be changed.
func (d document) copy() document {
	d.Drains, d.Known = maps.Clone(d.Drains), maps.Clone(d.Known)
	return d
}

// set drains a device, or ends its drain. It ends what is not known about it.
func (d *document) set(uuid string, next *health.Drain) {
	if delete(d.Drains, uuid); next != nil {
		d.Drains[uuid] = *next
	}
	if d.Unknown != nil {
		d.Known[uuid] = true
	}
}

// of returns the drain of a device, or of the device that it is part of, which may
// be empty.
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

// Open reads the file at path; an empty path keeps nothing. If the file is damaged,
// Open sets it aside and every device is drained, until somebody drains or undrains
// it: otherwise berth would grant leases on devices that somebody is about to take
// out.
func Open(path string) (*Keeper, *wholefile.Damage) {
	k := &Keeper{path: path, wake: make(chan struct{}, 1), drains: document{Version: version, Drains: map[string]health.Drain{}}, busy: map[string]*hold{}}
	if path == "" {
		return k, nil
	}
	err := wholefile.Check(path, k.take)
	if err == nil {
		return k, nil
	}
	k.drains.Unknown = &health.Drain{
		Since: time.Now().UTC().Truncate(time.Second),
		Why:   "the file of the drains was damaged, so berth does not know which GPUs are drained; berth undrain opens one",
	}
	k.drains.Known = map[string]bool{}
	instead, _ := json.Marshal(k.drains) // it can be encoded
	return k, wholefile.SetAside(path, "berth does not know which GPUs are drained, so every GPU is: look at the file, and run berth undrain for each GPU that is to be used.", instead, err)
}

// take takes in the text of a file.
func (k *Keeper) take(text []byte) error {
	var read document
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	if read.Version != version {
		return fmt.Errorf("its version is %d, and this program reads version %d", read.Version, version)
	}
	if read.Drains == nil {
		return errors.New("it has no drains")
	}
	if read.Unknown != nil && read.Known == nil {
		read.Known = map[string]bool{}
	}
	k.drains = read
	return nil
}

// Tell sets the functions to call. Call it before anything else.
func (k *Keeper) Tell(h Hooks) { k.hooks = h }

// Drain closes a device until Undrain, or until the drain is over. If somebody
// drains the device already, the new drain replaces that one. When Drain
// returns, the file has it and nothing more is granted on the device.
func (k *Keeper) Drain(uuid string, d health.Drain) error {
	return k.change(uuid, func(all *document) { all.set(uuid, &d) }, nil)
}

// Undrain opens a device again. It returns the drain that it ended, and false if
// there was none.
func (k *Keeper) Undrain(uuid string) (was health.Drain, drained bool, err error) {
	err = k.change(uuid, func(all *document) {
		was, drained = all.of(uuid, "")
		all.set(uuid, nil)
	}, nil)
	return was, drained, err
}

// change changes the drains and writes the file. If the disk refuses, nothing
// changes. It calls tell, which may be nil, when the file has the change and before
// anybody sees it: who is told that a drain is over hears so before the first grant.
func (k *Keeper) change(uuid string, apply func(*document), tell func()) error {
	if err := k.write(apply, tell); err != nil {
		return err
	}
	select {
	case k.wake <- struct{}{}:
	default: // Run is about to look anyway
	}
	k.changed(uuid)
	return nil
}

func (k *Keeper) write(apply func(*document), tell func()) error {
	k.writing.Lock()
	defer k.writing.Unlock()
	k.mu.RLock()
	next := k.drains.copy()
	k.mu.RUnlock()
	apply(&next)
	if k.path != "" {
		text, err := json.Marshal(next)
		if err == nil {
			err = wholefile.Write(k.path, text)
		}
		if err != nil {
			return fmt.Errorf("write which devices are drained: %w", err)
		}
	}
	if tell != nil {
		tell()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drains = next
	return nil
}

func (k *Keeper) changed(uuid string) {
	if k.hooks.Changed != nil {
		k.hooks.Changed(uuid)
	}
}

// Drained returns the drain of a device, or of the device that it is part of;
// false if there is none.
func (k *Keeper) Drained(on gpu.Device) (health.Drain, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.drains.of(on.UUID, on.Parent)
}

// Why returns why nothing is granted on a device; "" if it is open.
func (k *Keeper) Why(on gpu.Device) string {
	if d, drained := k.Drained(on); drained {
		return d.Reason()
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	if h := k.busy[on.UUID]; h != nil {
		return h.why
	}
	return ""
}

// Held reports whether berth itself works on a device.
func (k *Keeper) Held(uuid string) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.busy[uuid] != nil
}

// BusyError says that berth works on a device already.
type BusyError struct {
	Why  string
	Over <-chan struct{} // closed when that is done; nil: not known
}

func (e *BusyError) Error() string { return e.Why }

// Hold closes a device while berth itself works on it, and says what it does
// there. Only one holds a device at a time: a second gets a *BusyError. When Hold
// returns, nothing more is granted on the device; release opens it again. After a
// restart nobody holds a device.
func (k *Keeper) Hold(uuid, why string) (release func(), err error) {
	k.mu.Lock()
	if before := k.busy[uuid]; before != nil {
		k.mu.Unlock()
		return nil, &BusyError{Why: before.why, Over: before.over}
	}
	h := &hold{why: why, over: make(chan struct{})}
	k.busy[uuid] = h
	k.mu.Unlock()
	k.changed(uuid)
	return func() {
		k.mu.Lock()
		delete(k.busy, uuid)
		k.mu.Unlock()
		close(h.over)
		k.changed(uuid)
	}, nil
}

// The waits of Run.
const (
	retry  = 10 * time.Second // after the disk refused
	glance = time.Minute      // at most, so that a clock that is set shows
)

// Run ends drains when their time has come, until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	timer := time.NewTimer(glance)
	defer timer.Stop()
	for {
		timer.Reset(min(k.endDue(time.Now()), glance))
		select {
		case <-timer.C:
		case <-k.wake:
		case <-ctx.Done():
			return
		}
	}
}

// endDue ends the drains that are over. It returns how long the next one lasts,
// or glance.
func (k *Keeper) endDue(now time.Time) time.Duration {
	wait := glance
	for uuid, d := range k.All() {
		switch {
		case d.Until.IsZero():
		case !d.Over(now):
			wait = min(wait, d.Until.Sub(now))
		case !k.end(uuid, d):
			wait = min(wait, retry)
		}
	}
	return wait
}

// All returns every drain that somebody asked for, by UUID.
func (k *Keeper) All() map[string]health.Drain {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return maps.Clone(k.drains.Drains)
}

// end ends one drain that is over, unless somebody has replaced it meanwhile. It
// reports false if the disk refused.
func (k *Keeper) end(uuid string, was health.Drain) bool {
	ended := false
	return nil == k.change(uuid, func(all *document) {
		if ended = all.Drains[uuid] == was; ended {
			all.set(uuid, nil)
		}
	}, func() {
		if ended && k.hooks.Ended != nil {
			k.hooks.Ended(uuid, was)
		}
	})
}
