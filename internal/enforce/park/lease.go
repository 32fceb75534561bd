package park

import (
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// kept is the record of a lease in the file.
type kept struct {
	Key       lease.Key       `json:"key"`
	Fence     uint64          `json:"fence"`
	GPU       string          `json:"gpu"`
	User      string          `json:"user,omitempty"` // of the holder, for events
	Phase     move.Phase      `json:"phase"`
	Since     time.Time       `json:"since"`
	Source    move.Source     `json:"source"`
	By        gpu.By          `json:"by,omitzero"`
	In        kinship.Mandate `json:"in,omitzero"` // in whose name its processes are parked
	Why       string          `json:"why,omitempty"`
	Returns   bool            `json:"returns,omitempty"` // it waits for its turn to come back, or is going to wait
	Wanted    time.Time       `json:"wanted,omitzero"`   // when its program asked to be woken, after it was parked by hand
	Times     int             `json:"times"`
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

// parked is a lease that is parked, that is being parked or resumed, or that was parked
// before. Parker.mu guards it.
type parked struct {
	kept
	mu      *sync.Mutex // Parker.mu
	moves   bool        // a goroutine moves its memory
	touched bool        // a step was begun on one of its processes
	calling int         // calls of Resume that wait for its room
	left    bool        // its processes are left alone
	ended   bool        // the lease has ended
	lost    bool        // its memory cannot be brought back
	failed  string      // the last problem, and what to do about it
	spared  []string    // processes that are not parked with it, for people

	wanter   lease.Key     // of the request that it makes room for
	parkedAt time.Time     // when its memory had left the device
	from     time.Time     // since when it waits for its turn; zero if it does not wait
	back     time.Time     // when it was last brought back
	changed  chan struct{} // closed and replaced whenever the lease changes
	stopWait func()        // ends the wait for its turn, and returns when it has ended; nil if it does not wait
	release  func()        // resumes pacing; nil if the pacer is not suspended
}

// host returns how much memory of the machine the lease takes.
func (r *parked) host() (sum gpu.MiB) {
	for _, m := range r.Processes {
		sum += m.Memory
	}
	return sum
}

// processes returns the processes whose memory moves.
func (r *parked) processes() (ids []move.Process) {
	for _, m := range r.Processes {
		ids = append(ids, m.Process)
	}
	return ids
}

// memory returns the memory that some of the processes had on the device.
func (r *parked) memory(on []move.Process) (sum gpu.MiB) {
	for _, m := range r.Processes {
		for _, id := range on {
			if id == m.Process {
				sum += m.Memory
			}
		}
	}
	return sum
}

// notify wakes all goroutines that wait for a change of the lease.
func (r *parked) notify() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// enter begins a phase. The caller holds mu.
func (r *parked) enter(phase move.Phase, now time.Time) {
	r.Phase, r.Since = phase, now
	r.notify()
}

// The following take mu.

// ids returns the processes of the lease.
func (r *parked) ids() []move.Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.processes()
}

// moved returns the processes of the lease with the memory that they had on the device.
func (r *parked) moved() []moved {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.Processes)
}

// isEnded reports whether the lease is known to have ended.
func (r *parked) isEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// isBack reports whether the memory of the lease is on its device, or on its way
// there.
func (r *parked) isBack() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Phase == "" || r.Phase == move.Resuming
}

// touch notes that a step begins on a process of the lease.
func (r *parked) touch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.touched = true
}

// mandate returns in whose name the processes of the lease are parked.
func (r *parked) mandate() kinship.Mandate {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.In
}

// setSpared notes the processes that are not parked with the lease.
func (r *parked) setSpared(spared []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spared = spared
}

func (r *parked) sparing() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spared
}

func (r *parked) wasTouched() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.touched
}

// stepTime returns how long all steps on the memory of the lease have taken together.
func (r *parked) stepTime() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Moving
}

func (r *parked) setFrom(from time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.from = from
}

// setFailed records what is wrong with the lease, if set is true.
func (r *parked) setFailed(why string, set bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if set && r.failed != why {
		r.failed = why
		r.notify()
	}
}
