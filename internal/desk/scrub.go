package desk

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/text/words"
)

// traces remembers whose programs may have left something on each device. After a
// restart, any user's may have.
type traces struct {
	mu  sync.Mutex // guards all
	all map[string]proof.Trace
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

// scrubbed notes that the free memory of a device was overwritten.
func (t *traces) scrubbed(uuid string, users []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all[uuid] = proof.TraceOf(users...)
}

// forget drops all traces, because nobody updates them any more.
func (t *traces) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = nil
}

// scrub overwrites the free memory of the devices of a new lease before its holder hears
// of it, if others may have left something there and the driver is not known to clear it.
// It returns who clears the memory, for the receipt, and a note for the holder if that
// was not done in full. Both are empty if berth need not scrub.
func (d *Desk) scrub(ctx context.Context, granted *lease.Lease) (by, note string) {
	if d.Config().GPU.Scrub != "on" || d.Checkup == nil {
		d.traces.forget()
		return "", ""
	}
	me := userKey(granted.Holder)
	var partly, not []string
	ours := false // whether berth has to clear the memory
	for _, p := range granted.Parts {
		on := d.Ledger.Sum(p.GPU).Device
		if d.ClearedBy != nil && strings.HasPrefix(d.ClearedBy([]gpu.Device{on}), "driver") {
			continue
		}
		if ours = true; !d.traces.use(p.GPU, me) {
			continue
		}
		done, err := d.Checkup.Scrub(ctx, on, p.Memory)
		switch {
		case err != nil:
			not = append(not, fmt.Sprintf("%s: %v", on.Label(), err))
			continue
		case done.Verdict != proof.Passed:
			not = append(not, fmt.Sprintf("%s: %s", on.Label(), done.Reason))
			continue
		}
		users := append(d.otherUsers(granted, p.GPU), me)
		if d.traces.scrubbed(p.GPU, users); len(users) > 1 {
			partly = append(partly, on.Label())
		}
	}
	switch {
	case !ours:
		return "", ""
	case len(not) > 0:
		return "nobody: the memory could not be overwritten", "the memory of earlier programs could not be overwritten: " + words.And(not)
	case len(partly) > 0:
		return "berth, partly", "the memory of earlier programs was overwritten in part, because others have leases or processes on " + words.And(partly)
	}
	return "berth", ""
}

// otherUsers returns the users whose memory on a device could not be overwritten for a
// lease: other users who hold leases there, and processes under no lease.
func (d *Desk) otherUsers(granted *lease.Lease, uuid string) (users []string) {
	for _, h := range d.Ledger.Holdings(uuid) {
		if h.Lease.Fence != granted.Fence && !h.Lease.Holder.Same(granted.Holder) {
			users = append(users, userKey(h.Lease.Holder))
		}
	}
	for _, p := range d.Ledger.Processes(uuid) {
		if p.Lease == nil && p.Kind != gpu.Graphics && !d.MPS.Serves(p.Line) {
			users = append(users, "a process under no lease")
		}
	}
	return users
}

// userKey returns a key that differs between the users of holders.
func userKey(h lease.Holder) string { return fmt.Sprintf("%d/%s", h.UID, h.User) }
