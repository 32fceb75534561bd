package notice

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
)

// Trim returns the event that asks the programs of a lease to give back what their
// libraries keep for later.
func Trim(l *lease.Lease, by access.Actor, now time.Time) gpu.Event {
	return gpu.Event{
		Time: now, Code: gpu.EventReclaim, Severity: gpu.Note, Lease: l.ID, User: l.Holder.User, By: lease.ByOf(by),
		Text: l.ID + " is asked to give back memory that its libraries keep for later", Data: map[string]any{"pid": l.Holder.PID, "fence": l.Fence},
	}
}
