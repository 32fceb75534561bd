package mover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// kept is the record of a lease in the file.
type kept struct {
	Key   lease.Key `json:"key"`
	Fence uint64    `json:"fence"`
	GPU   string    `json:"gpu"`
	User  string    `json:"user,omitempty"` // of the holder, for events
	park.State
	By        gpu.By          `json:"by,omitzero"`
	In        kinship.Mandate `json:"in,omitzero"` // in whose name its processes are parked
	Why       string          `json:"why,omitempty"`
	Moving    time.Duration   `json:"moving"`
	Processes []moved         `json:"processes"`
	Awake     bool            `json:"awake,omitempty"`    // its programs ask to be woken, so they run on while it is parked
	Said      bool            `json:"unshared,omitempty"` // the person who parked it said that this time its processes share no memory
	Ground    move.Ground     `json:"unshared_by,omitempty"`
	Simulated bool            `json:"simulated,omitempty"` // the device is simulated, so no memory of the machine is taken
}

// moved is a process whose memory moves.
type moved struct {
	move.Process
	Memory gpu.MiB `json:"memory_mb"` // on the device
}

// record is a lease that is parked, that is being parked or resumed, or that was parked
// before; and one that is about to be parked, or asks to be woken then. Mover.mu guards it. What only the goroutine changes that moves its memory, that
// goroutine reads without mu.
type record struct {
	kept
	order order // that it was last parked for

	warned   time.Time // when its holder was warned that it is about to be parked; zero if that is not so
	barred   bar       // keeps berth from parking it by itself
	wakes    bool      // a program of it has asked to be woken, so it has to run on while the lease is parked
	ended    bool      // the lease has ended
	touched  bool      // a step was begun on one of its processes
	astray   bool      // while it is parked, memory of it may be on the device, and could not be taken off
	tried    bool      // berth has tried to bring it back
	failed   string    // the last problem, and what to do about it
	unparked string    // why it could not be parked, until it is back
	spared   []string
	paceless bool // the pacer lets its processes run

	from     time.Time          // since when it waits for its turn; zero if it does not wait
	back     time.Time          // when it was last brought back, by the clocks of this process
	changed  chan struct{}      // closed and replaced whenever the lease changes
	stopWait context.CancelFunc // ends the wait for its turn; nil if it does not wait
	waitOver chan struct{}      // closed when that wait has ended
}

func newRecord(k kept) *record { return &record{kept: k, changed: make(chan struct{})} }

// of returns the record of a lease, which it makes if there is none. The caller holds mu.
func (p *Mover) of(held *lease.Lease) *record {
	r := p.leases[held.Fence]
	if r == nil {
		r = newRecord(kept{Key: held.Key(), Fence: held.Fence, State: park.State{At: park.Here}})
		p.leases[r.Fence] = r
		p.put(news{fence: r.Fence, what: park.Changed}) // it may have ended just now
	}
	return r
}

// memory returns how much memory processes had on the device.
func memory(list []moved) (sum gpu.MiB) {
	for _, m := range list {
		sum += m.Memory
	}
	return sum
}

// identities returns the processes without their memory.
func identities(list []moved) (ids []move.Process) {
	for _, m := range list {
		ids = append(ids, m.Process)
	}
	return ids
}

// notify wakes all goroutines that wait for a change of the lease.
func (r *record) notify() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// state returns the state of a lease.
func (p *Mover) state(r *record) park.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return r.State
}

// fail records what is wrong with a lease.
func (p *Mover) fail(r *record, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.failed != why {
		r.failed = why
		r.notify()
	}
}

// hasEnded reports whether a lease has ended.
func (p *Mover) hasEnded(r *record) bool {
	if p.Leases.Lease(r.Key, r.Fence) != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r.ended = true
	return true
}

// FileName is the name of the file in the state folder.
const FileName = "parked.json"

// document is the content of the file: every lease whose memory may not be on its device.
// A lease is in it before its first process is locked, and until its last one is
// unlocked.
type document struct {
	Boot   string `json:"boot"`
	Leases []kept `json:"leases"`
	// Unknown means that the file before this one was damaged, and that the driver has
	// not yet been asked about every lease.
	Unknown bool `json:"unknown,omitempty"`
}

func newState(path string) *file.State[document] {
	return file.NewState[document](path, file.StateOptions{
		What: "down what is parked", Version: 1, Bare: true, OfBoot: true,
		Lost: "Which leases are being parked is not known: berth asks the driver about every lease instead.",
	})
}

// recall reads the file, and sets a damaged one aside.
func (p *Mover) recall() *file.Damage {
	err := p.file.Read(func(d document) error {
		if err := d.check(); err != nil {
			return err
		}
		p.damaged = d.Unknown
		for _, k := range d.Leases {
			if d.Boot != p.Boot {
				k.Processes = nil // they ended with the boot in which they started
			}
			if k.In == (kinship.Mandate{}) { // an earlier version of berth wrote it
				k.In = kinship.OfUser(k.Key.UID)
			}
			if k.At = park.Halfway; k.Phase == move.Parked {
				k.At = park.Noted
			}
			p.leases[k.Fence] = newRecord(k)
		}
		return nil
	})
	if err == nil {
		return nil
	}
	p.damaged = true
	return p.file.Begin(document{Boot: p.Boot, Leases: []kept{}, Unknown: true}, err)
}

// check returns an error if something is wrong with the file.
func (d *document) check() (err error) {
	if d.Boot == "" {
		return errors.New("it does not say which boot it is of")
	}
	for _, k := range d.Leases {
		for _, m := range k.Processes {
			if m.PID <= 1 || m.Memory < 0 {
				err = errors.Join(err, fmt.Errorf("lease %d: process %d with %d MiB cannot be", k.Fence, m.PID, m.Memory))
			}
		}
	}
	return err
}

// write writes the file. Its callers share the writes, and hold no lock: the file has every
// lease. Processes do not survive a power loss, so the file does not have to either.
func (p *Mover) write() error { return p.writes.do(p.writeAll) }

func (p *Mover) writeAll() error {
	p.mu.Lock()
	d := document{Boot: p.Boot, Leases: []kept{}, Unknown: p.damaged}
	for _, r := range p.leases {
		if r.Phase != "" {
			d.Leases = append(d.Leases, r.kept)
		}
	}
	p.mu.Unlock()
	slices.SortFunc(d.Leases, func(a, b kept) int { return cmp.Compare(a.Fence, b.Fence) })
	if err := p.file.SaveUnsynced(d); err != nil {
		p.Log.Warn("what is parked cannot be written down", "file", p.Path, "error", err)
		return err
	}
	return nil
}
