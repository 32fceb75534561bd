package ledger

import (
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// announce tells the world what an effect was.
func (l *Ledger) announce(e *lease.Effect) {
	if l.hooks.Event == nil {
		return
	}
	if e.Kind == lease.Asked || e.Kind == lease.TimedOut {
		l.announceRequest(e)
		return
	}
	held := e.Lease()
	if held == nil {
		return // withdrawn: whoever asked knows
	}
	code, severity, verb := wording(e.Kind)
	if code == "" {
		return
	}
	data := map[string]any{"fence": held.Fence, "memory_mb": int64(held.Total().Memory), "slots": held.Total().Slots}
	text := held.ID + " " + verb
	if e.Kind == lease.Granted {
		text += " " + amount(held) + " on " + where(held)
	}
	if e.Kind != lease.Granted {
		data["held_seconds"] = e.Time.Sub(held.Granted).Seconds()
	}
	if who := whose(held.Holder); who != "" && e.Kind == lease.Granted {
		text += " for " + who
	}
	if e.Why != "" {
		text += ": " + e.Why
	}
	uuid := ""
	if len(held.Parts) == 1 {
		uuid = held.Parts[0].GPU
	}
	l.emit(code, severity, e.Time, held.ID, uuid, data, "%s", text)
}

func (l *Ledger) announceRequest(e *lease.Effect) {
	r := e.Request
	data := map[string]any{"memory_mb": int64(r.Memory), "slots": r.Slots, "gpus": r.GPUs}
	if e.Kind == lease.Asked {
		l.emit(gpu.EventWaiting, gpu.Note, e.Time, r.ID, "", data, "%s waits for %s, until %s at the latest", r.ID, r.Memory, r.Deadline.Format(time.TimeOnly))
		return
	}
	l.emit(gpu.EventTimedOut, gpu.Warning, e.Time, r.ID, "", data, "%s waited %v for %s in vain", r.ID, e.Time.Sub(r.Requested).Round(time.Second), r.Memory)
}

func wording(k lease.Kind) (gpu.EventCode, gpu.Severity, string) {
	switch k {
	case lease.Granted:
		return gpu.EventGranted, gpu.Note, "holds"
	case lease.Renewed:
		return gpu.EventRenewed, gpu.Note, "was renewed"
	case lease.Released:
		return gpu.EventReleased, gpu.Note, "was released"
	case lease.Expired:
		return gpu.EventExpired, gpu.Warning, "expired"
	case lease.Revoked:
		return gpu.EventRevoked, gpu.Warning, "was revoked"
	}
	return "", "", ""
}

func amount(l *lease.Lease) string {
	part := l.Parts[0]
	switch {
	case part.Memory == 0:
		return plural(part.Slots, "slot")
	case part.Slots == 0:
		return part.Memory.String()
	}
	return part.Memory.String() + " and " + plural(part.Slots, "slot")
}

func where(l *lease.Lease) string {
	var names []string
	for _, p := range l.Parts {
		names = append(names, p.GPU)
	}
	return strings.Join(names, ", ")
}

// whose is a holder in a word or two.
func whose(h lease.Holder) string {
	var parts []string
	for _, part := range []string{h.Service, h.Name, h.User} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ", ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
