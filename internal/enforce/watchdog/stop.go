package watchdog

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// Tell is the value of gpu.overheat under which the holders of a device that is too hot
// keep their leases. The other one is Revoke.
const Tell = "tell"

// Halt says why a device must not be used now.
type Halt struct {
	Reason string // to follow a colon
	Heat   bool   // the device is above temp_critical; otherwise it is in quarantine
}

// halted is a device that must not be used, as of its last measurement.
type halted struct {
	sampled time.Time
	heat    bool
	leases  map[uint64]int // by fence: leases told to stop, and for how many samples in a row
}

// Stop tells the holders of a device to stop, once per reason for as long as it lasts. It
// revokes their leases if the device stays too hot and the policy says so; for a lease
// with a scope it ends the processes. A nil halt means that the device may be used. Stop
// ignores a measurement that it has already seen. It does not block.
func (w *Watchdog) Stop(on gpu.Device, now time.Time, halt *Halt, holdings []lease.Holding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if halt == nil {
		delete(w.halts, on.UUID)
		return
	}
	before := w.halts[on.UUID]
	if before.heat != halt.Heat {
		before.leases = nil
	} else if !now.After(before.sampled) {
		return
	}
	after := halted{sampled: now, heat: halt.Heat, leases: map[uint64]int{}}
	for _, h := range holdings {
		l := h.Lease
		if w.settling(l.Fence, now) {
			continue
		}
		after.leases[l.Fence] = before.leases[l.Fence] + 1
		revoke := halt.Heat && w.settings.GPU.Overheat == Revoke
		if after.leases[l.Fence] == 1 {
			w.event(stopNow(on, time.Now(), *halt, l, revoke)) // the measurement may be a moment old
		}
		switch e := (Ending{Fence: l.Fence, Why: "its GPU was too hot: " + halt.Reason}); {
		case !revoke || after.leases[l.Fence] < patience:
		case scoped(l):
			w.stopUsers(l, e)
		default:
			w.end(l, kinship.Authority(), e)
		}
	}
	w.halts[on.UUID] = after
}

func stopNow(on gpu.Device, now time.Time, halt Halt, l *lease.Lease, revoke bool) gpu.Event {
	text := fmt.Sprintf("%s should stop using %s now: %s", l.ID, on.Label(), halt.Reason)
	switch {
	case revoke && scoped(l):
		text += "; berth ends its processes if that continues, and keeps the lease"
	case revoke:
		text += "; berth revokes it if that continues"
	}
	return gpu.Event{
		Time: now, Code: gpu.EventStop, Severity: gpu.Serious, GPU: on.UUID, Lease: l.ID, User: l.Holder.User, Text: text,
		Data: map[string]any{"too_hot": halt.Heat, "reason": halt.Reason, "fence": l.Fence},
	}
}
