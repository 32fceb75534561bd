package desk

import (
	"maps"
	"slices"
	"sync"

	"github.com/berth-gpu/berth/internal/device/proof"
)

// traces remembers whose programs may have left something on each device. After a
// restart, any user's may have.
type traces struct {
	mu  sync.Mutex // guards what follows
	all map[string]proof.Trace
	by  map[uint64]string // by fence: who cleared the memory for a lease
}

// mostCleared is for how many leases traces remembers who cleared the memory: the newest.
const mostCleared = 4096

// clear notes who cleared the memory for a new lease. Fences grow, so the lowest is the
// oldest.
func (t *traces) clear(fence uint64, by string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = map[uint64]string{}
	}
	if len(t.by) >= mostCleared {
		delete(t.by, slices.Min(slices.Collect(maps.Keys(t.by))))
	}
	t.by[fence] = by
}

// cleared returns who cleared the memory for a lease; empty if nobody knows.
func (t *traces) cleared(fence uint64) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.by[fence]
}

// use notes that a user gets memory of a device, and reports whether others may
// have left something there.
func (t *traces) use(uuid, user string) (others bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.all[uuid]
	if t.all == nil {
		t.all = map[string]proof.Trace{}
	}
	t.all[uuid] = before.Used(user)
	return before.Others(user)
}

// scrubbed notes that the free memory of a device was overwritten, unless its traces were
// dropped meanwhile.
func (t *traces) scrubbed(uuid string, users []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all != nil {
		t.all[uuid] = proof.TraceOf(users...)
	}
}

// forget drops all traces, because nobody updates them any more.
func (t *traces) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = nil
}
